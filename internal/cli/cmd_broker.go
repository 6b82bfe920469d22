package cli

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
)

// newBrokerCommand returns the command that serves a broker until a signal ends it.
func newBrokerCommand(con *console) *cobra.Command {
	var o brokerCommandOptions
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Start a fleet broker",
		Long: `Start a fleet broker: a NATS server with JetStream. Any NATS server 2.10 or later works too.

By default it listens on this machine only, and accepts only clients with the same PRODIGY_HOME,
which holds a key for them. With --dir it uses a broker directory created by 'prodigy fleet init',
with TLS and credentials. With --config it uses any nats-server configuration. SIGHUP reloads the
configuration.`,
		Example: "  prodigy broker\n  prodigy broker --dir fleet/broker",
		Args:    exactly(),
	}
	onArgs(con, cmd, o.run)
	addFlag(cmd, &o.Listen, "listen", "address to listen on, HOST:PORT (default: 127.0.0.1:4222, or as in "+
		"--config)")
	addFlag(cmd, &o.Store, "store",
		"storage directory (default: $PRODIGY_HOME/broker, or as in --config)")
	addFlag(cmd, &o.dir, "dir", "directory created by fleet init (uses its nats.conf)")
	addFlag(cmd, &o.Config, "config", "nats-server configuration file")
	addFlag(cmd, &o.Insecure, "insecure",
		"accept anybody who can connect, also from other machines and without TLS: they can run commands as "+
			"the users of the workers")
	return cmd
}

// brokerCommandOptions are the flags of broker.
type brokerCommandOptions struct {
	fleet.BrokerOptions
	// dir is a directory of fleet init. Empty means none.
	dir string
}

// brokerConfig is the file of a directory of fleet init that nats-server reads.
const brokerConfig = "nats.conf"

// run serves the broker in the foreground. SIGHUP reloads a configuration file; every other signal that asks for
// an end stops the server.
func (o *brokerCommandOptions) run(ctx context.Context, con *console, _ []string) error {
	if o.dir != "" && o.Config != "" {
		return usagef("--dir and --config cannot be used together")
	}
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	if o.dir != "" { // as nats-server would, the configuration names files from there
		if o.Store != "" {
			if o.Store, err = filepath.Abs(o.Store); err != nil {
				return err
			}
		}
		if !isFile(filepath.Join(o.dir, brokerConfig)) {
			return refusef("--dir %s: %s not found: must be a broker directory created by fleet init, such as fleet/broker",
				o.dir, brokerConfig)
		}
		if err := os.Chdir(o.dir); err != nil {
			return refusef("--dir: %w", err)
		}
		o.Config = brokerConfig
	}
	if o.Config == "" {
		o.Listen = cmp.Or(o.Listen, "127.0.0.1:4222")
		o.Store = cmp.Or(o.Store, filepath.Join(home.Root, "broker"))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals, stopListening := listen()
	defer stopListening()
	if o.Config != "" { // also under nohup: it ends nothing
		signal.Notify(signals, syscall.SIGHUP)
	}
	reload := make(chan os.Signal)
	go func() {
		for s := range signals {
			if s != syscall.SIGHUP || o.Config == "" {
				cancel()
				return
			}
			select {
			case reload <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	o.Reload, o.Say, o.Home = reload, con.sayer(), home.Root
	return con.backend.Serve(ctx, o.BrokerOptions)
}
