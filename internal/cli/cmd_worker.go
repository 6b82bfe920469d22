package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/pressure"
)

type workerOptions struct {
	broker brokerOptions
	slots  int
	labels []string
	trust  []string
	name   string
	dir    string
	grace  time.Duration
	disk   amountFlag
}

func newWorkerCommand(con *console) *cobra.Command {
	o := workerOptions{grace: defaultGrace, disk: amountFlag{text: "100MB", amount: &pressure.Amount{Bytes: 100e6}}}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run items of the jobs of a fleet on this machine",
		Long: `Run items of the jobs of a fleet on this machine, until it is ended.

The items run in the directory of the run, which must be shared with this machine, or in that of --dir; those of a job that sends files, or has
workspaces, in a directory of the worker. SIGTERM or Ctrl-C has the worker finish what it
runs and take no more; a second one gives what runs back, and it goes elsewhere.`,
		Example: `  prodigy worker --join nats://127.0.0.1:4222
  prodigy worker --join tls://broker:4222 --slots 8 --label gpu`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.broker.need("join"); err != nil {
				return err
			}
			return con.linked(func() error { return runWorker(cmd.Context(), con, o) })
		},
	}
	f := cmd.Flags()
	o.broker.add(cmd, "join", "the broker")
	f.Var(positive{&o.slots}, "slots", "how many items run at once (default: one for each CPU)")
	f.Var(labelsFlag{&o.labels}, "label", "what this worker has, for requires (may be given more than once)")
	f.Var(repeated{&o.trust}, "trust", "run only jobs that a coordinator with this public key has signed, besides those that the credentials trust (may be given more than once)")
	f.StringVar(&o.name, "name", "", "its name (default: that of the machine)")
	f.StringVar(&o.dir, "dir", "", "where commands run, instead of the directory of the run")
	f.Var(&o.disk, "min-free-disk", "take nothing while the disk of its directory, or that where commands run, has less room, such as 5GB or 5% (0: whatever it has; only on Linux)")
	f.Var(durationFlag{&o.grace}, "grace", "what commands that a worker before has left get to end in")
	return cmd
}

// amountFlag is a flag for an amount of what a machine has.
type amountFlag struct {
	text   string
	amount *pressure.Amount // nil: none
}

func (a *amountFlag) String() string { return a.text }
func (a *amountFlag) Type() string   { return "amount" }

func (a *amountFlag) Set(text string) error {
	if a.text, a.amount = text, nil; text == "0" {
		return nil
	}
	amount, err := pressure.ParseAmount(text)
	a.amount = &amount
	return err
}

func runWorker(ctx context.Context, con *console, o workerOptions) error {
	o.broker.found.Trust = slices.Concat(o.broker.found.Trust, o.broker.given.trust, o.trust)
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	machine, _ := os.Hostname()
	name := cmp.Or(o.name, machine, "worker")
	if strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return usagef("--name: %q cannot be the name of a directory", name)
	}
	if o.dir != "" {
		if o.dir, err = filepath.Abs(o.dir); err != nil {
			return err
		}
	}
	dir := filepath.Join(home.Root, "workers", name)
	unlock, err := jobs.LockWorker(dir)
	if err != nil {
		return refusef("%w: give each worker of a machine another --name", err)
	}
	defer func() { _ = unlock() }()
	kill, cancelKill := context.WithCancel(ctx)
	defer cancelKill()
	drain, cancelDrain := context.WithCancel(ctx)
	defer cancelDrain()
	signals, stopListening := listen()
	defer stopListening()
	go func() {
		<-signals
		cancelDrain()
		<-signals
		cancelKill()
	}()
	err = con.link.Work(kill, fleet.WorkerOptions{
		Address: o.broker.found, Version: versionText(), Name: name, Slots: cmp.Or(o.slots, runtime.NumCPU()),
		Labels: append(o.labels, runtime.GOOS+"/"+runtime.GOARCH), Dir: o.dir, Home: dir, Environ: append(os.Environ(), "PRODIGY_NODE="+name), Grace: o.grace,
		Guards:  pressure.Guards{MinFreeDisk: o.disk.amount},
		Watcher: watcherCommand(), Say: con.sayer(), Drain: drain,
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
