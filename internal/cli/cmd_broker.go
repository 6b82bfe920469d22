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

func newBrokerCommand(con *console) *cobra.Command {
	var o fleet.BrokerOptions
	var dir string
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run a broker for a fleet",
		Long: `Run a broker for a fleet: a NATS server with JetStream. Any other one of version 2.10 or later does as well.

Without --dir and --config it listens on this machine only, and lets only those in who have the same PRODIGY_HOME: it keeps a key for them there. --dir names a directory broker that prodigy fleet init has made: with TLS, and with credentials
for all who may use it. --config names any configuration of nats-server. SIGHUP has either read again.`,
		Example: "  prodigy broker\n  prodigy broker --dir fleet/broker",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir != "" && o.Config != "" {
				return usagef("--dir and --config exclude each other")
			}
			return runBroker(cmd.Context(), con, dir, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "HOST:PORT (default: 127.0.0.1:4222, or what --config says)")
	f.StringVar(&o.Store, "store", "",
		"directory of its files (default: broker below PRODIGY_HOME, or what --config says)")
	f.StringVar(&dir, "dir", "", "a directory of fleet init: its nats.conf is the configuration, and names of files start there")
	f.StringVar(&o.Config, "config", "", "a configuration file of nats-server")
	f.BoolVar(&o.Insecure, "insecure", false,
		"let everybody in who reaches it, also from other machines and without TLS: each of them can run commands as the users of the workers")
	return cmd
}

// brokerConfig is the file of a directory of fleet init that nats-server reads.
const brokerConfig = "nats.conf"

func runBroker(ctx context.Context, con *console, dir string, o fleet.BrokerOptions) error {
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	if dir != "" { // as nats-server would, the configuration names files from there
		if o.Store != "" {
			if o.Store, err = filepath.Abs(o.Store); err != nil {
				return err
			}
		}
		if !isFile(filepath.Join(dir, brokerConfig)) {
			hint := "name the directory of a broker that prodigy fleet init has made, such as fleet/broker"
			if inside := filepath.Join(dir, "broker"); isFile(filepath.Join(inside, brokerConfig)) {
				hint = "did you mean " + inside + "?"
			}
			return refusef("--dir %s: there is no %s in it: %s", dir, brokerConfig, hint)
		}
		if err := os.Chdir(dir); err != nil {
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
	o.Reload = reload
	o.Version, o.Say, o.Home = versionText(), con.sayer(), home.Root
	return con.backend.Serve(ctx, o)
}
