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
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
)

type workerOptions struct {
	broker brokerOptions
	slots  int
	labels []string
	trust  []string
	name   string
	dir    string
	grace  time.Duration
	disk   string // an amount
}

func newWorkerCommand(con *console) *cobra.Command {
	o := workerOptions{grace: defaultGrace, disk: "100MB"}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run items of the jobs of a fleet on this machine",
		Long: `Run items of the jobs of a fleet on this machine, until a signal or prodigy fleet drain ends it.

Commands run in the directory that the job was started in, which must be shared with this machine at the same path, or in that of --dir. Those of a job
that sends files, or has workspaces, run in a directory of the worker.

At SIGTERM or Ctrl-C the worker takes no more items, finishes those that it has, and ends. At a second signal it stops them and gives them back: they run
on another worker.`,
		Example: `  prodigy worker --join nats://127.0.0.1:4222
  prodigy worker --join tls://broker:4222 --slots 8 --label gpu`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.broker.need("join"); err != nil {
				return err
			}
			return runWorker(cmd.Context(), con, o)
		},
	}
	f := cmd.Flags()
	o.broker.add(cmd, "join", "the broker")
	f.Var(positive(&o.slots), "slots", "how many items run at once (default: the number of CPUs)")
	f.Var(labelsFlag(&o.labels), "label", "a label that workflows may require (may be given more than once)")
	f.Var(repeated(&o.trust), "trust",
		"run only jobs signed with this public key, or with one that the credentials trust (may be given more than once)")
	f.StringVar(&o.name, "name", "",
		"its name, which no other worker of the fleet may have (default: that of its credentials, else of this machine)")
	f.StringVar(&o.dir, "dir", "", "where commands run, instead of the directory of the run")
	f.Var(amountFlag(&o.disk), "min-free-disk",
		"begin nothing while less than this is free on the disk of its directory or where commands run, such as 5GB or 5% (0: no limit; only on Linux)")
	f.Var(durationFlag(&o.grace), "grace",
		"how long commands may take to end that an earlier worker of this name has left")
	return cmd
}

// parseAmount reads an amount of what a machine has. 0 stands for no amount.
func parseAmount(text string) (*limit.Amount, error) {
	if text == "0" {
		return nil, nil
	}
	amount, err := limit.ParseAmount(text)
	return &amount, err
}

// amountFlag is a flag for such an amount, as it is written.
func amountFlag(at *string) pflag.Value {
	parse := func(text string) (string, error) {
		_, err := parseAmount(text)
		return text, err
	}
	return value[string]{at, "amount", parse, asText}
}

// longestWorkerName is how many bytes the name of a worker may have.
const longestWorkerName = 100

func runWorker(ctx context.Context, con *console, o workerOptions) error {
	o.broker.found.Trust = slices.Concat(o.broker.found.Trust, o.broker.given.Trust, o.trust)
	disk, err := parseAmount(o.disk)
	if err != nil {
		return err
	}
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	machine, _ := os.Hostname()
	own := o.broker.found.Name
	if own != "" && o.name != "" && o.name != own {
		return refusef("--name %s: these are credentials of worker %s: leave --name out, or use those of %s", o.name,
			own, o.name)
	}
	name := cmp.Or(o.name, own, machine, "worker")
	if strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return usagef("--name %q: it is the name of a directory too, so it cannot have slashes", name)
	}
	if len(name) > longestWorkerName || strings.ContainsFunc(name, unicode.IsControl) {
		return usagef("--name %q: at most %d bytes, and no control characters", name, longestWorkerName)
	}
	if o.dir != "" {
		if o.dir, err = filepath.Abs(o.dir); err != nil {
			return err
		}
		if info, err := os.Stat(o.dir); err != nil {
			return refusef("--dir: %w: make the directory, or mount it, before the worker starts", err)
		} else if !info.IsDir() {
			return refusef("--dir: %s is not a directory", o.dir)
		}
	}
	dir := filepath.Join(home.Root, "workers", name)
	unlock, err := jobs.LockWorker(dir)
	if err != nil {
		return refusef("%w: give this one another --name", err)
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
	err = con.backend.Work(kill, fleet.WorkerOptions{
		Address: o.broker.found, Version: versionText(), Name: name, Slots: cmp.Or(o.slots, runtime.NumCPU()),
		Labels: append(o.labels, runtime.GOOS+"/"+runtime.GOARCH), Dir: o.dir, Home: dir,
		Environ: append(os.Environ(), "PRODIGY_NODE="+name), Grace: o.grace,
		Guards:  limit.Guards{MinFreeDisk: disk},
		Watcher: watcherCommand(), Say: con.sayer(), Drain: drain,
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
