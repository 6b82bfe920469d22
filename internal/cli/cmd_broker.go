package cli

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
)

func newBrokerCommand(con *console) *cobra.Command {
	var o fleet.BrokerOptions
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run a broker for a fleet",
		Long: `Run a broker for a fleet: a NATS server with JetStream. Any other one of version 2.10 or later does as well.

Without --config it listens on this machine only. With it, it is set up by a configuration file of nats-server, which says how it is reached by TLS and
who may use it.`,
		Example: "  prodigy broker\n  prodigy broker --config nats.conf",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return con.linked(func() error { return runBroker(cmd.Context(), con, o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "HOST:PORT (default: 127.0.0.1:4222, or what --config says)")
	f.StringVar(&o.Store, "store", "", "directory of its files (default: broker below PRODIGY_HOME, or what --config says)")
	f.StringVar(&o.Config, "config", "", "a configuration file of nats-server")
	f.BoolVar(&o.Insecure, "insecure", false, "allow other machines to connect without TLS")
	return cmd
}

func runBroker(ctx context.Context, con *console, o fleet.BrokerOptions) error {
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	if o.Config == "" {
		o.Listen = cmp.Or(o.Listen, "127.0.0.1:4222")
		o.Store = cmp.Or(o.Store, filepath.Join(home.Root, "broker"))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals, stopListening := listen()
	defer stopListening()
	go func() {
		<-signals
		cancel()
	}()
	o.Version, o.Say = versionText(), con.sayer()
	return con.link.Serve(ctx, o)
}
