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
	"unicode"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
)

// workerOptions are the flags of worker.
type workerOptions struct {
	// WorkerOptions are completed by run. Without Slots there are as many as CPUs, and without a Name it is that in the
	// credentials, else the host's. Grace is how long commands of an earlier worker of this name may take to exit.
	fleet.WorkerOptions
	broker brokerOptions
	// trust are public keys, besides those that the credentials and the configuration trust.
	trust []string
	// disk is an amount as it was written. It is parsed again when the worker starts.
	disk string
}

// newWorkerCommand returns the command that runs items for jobs on other machines.
func newWorkerCommand(con *console) *cobra.Command {
	o := workerOptions{disk: "100MB"}
	o.Grace = defaultGrace
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a fleet worker",
		Long: `Run a fleet worker, until a signal or 'prodigy fleet drain'.

Commands run in the job's working directory, which must be shared at the same path, or in --dir.
Jobs that send files or use workspaces run in the worker's own directory.

On SIGTERM or Ctrl-C the worker accepts no new items, finishes its running ones and exits. A second
signal stops them and returns them to the job, to run on another worker.`,
		Example: `  prodigy worker --join nats://127.0.0.1:4222
  prodigy worker --join tls://broker:4222 --slots 8 --label gpu`,
		Args: exactly(),
	}
	onArgs(con, cmd, o.run)
	o.broker.add(cmd, "join", "the broker")
	formerly(cmd, map[string]string{"fleet": "join"}) // as the other commands name it
	addFlag(cmd, &o.Slots, "slots", "maximum number of items to run at a time (default: number of CPUs)")
	addFlag(cmd, labelsFlag(&o.Labels), "label", "worker label, matched by requires (repeatable)")
	addFlag(cmd, &o.trust, "trust",
		"run only jobs signed with this public key, or one that the credentials trust (repeatable)")
	addFlag(cmd, &o.Name, "name",
		"unique worker name (default: from its credentials, else the host name)")
	addFlag(cmd, &o.Dir, "dir", "run commands in this directory instead of the job's")
	isAmount := func(text string) error {
		_, err := parseAmount(text)
		return err
	}
	addFlag(cmd, textIf(&o.disk, "amount", isAmount), "min-free-disk",
		"accept no items while less than this disk space is free, such as 5GB or 5% (0 disables; Linux only)")
	addFlag(cmd, &o.Grace, "grace",
		"time for leftover commands of a previous worker of this name to exit")
	return cmd
}

// parseAmount reads an amount of what a machine has. 0 stands for no amount.
func parseAmount(text string) (*limit.Amount, error) {
	if text == "0" {
		return nil, nil
	}
	var amount limit.Amount
	return &amount, amount.ReadText(text)
}

// longestWorkerName is how many bytes the name of a worker may have.
const longestWorkerName = 100

// run works until a signal or fleet drain ends it, with exit code 0. Its name locks a directory, so that no two
// workers of this home have the same.
func (o *workerOptions) run(ctx context.Context, con *console, _ []string) error {
	if err := o.broker.need("join"); err != nil {
		return err
	}
	o.broker.found.Trust = slices.Concat(o.broker.found.Trust, o.broker.config.Fleet.Trust, o.trust)
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
	if own != "" && o.Name != "" && o.Name != own {
		return refusef("--name %s: these credentials belong to worker %s: omit --name, or use the credentials of %s", o.Name,
			own, o.Name)
	}
	name := cmp.Or(o.Name, own, machine, "worker")
	if len(name) > longestWorkerName || strings.ContainsFunc(name, unicode.IsControl) ||
		strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return usagef("--name %q: at most %d bytes, and neither slashes nor control characters", name, longestWorkerName)
	}
	if o.Dir != "" {
		if o.Dir, err = filepath.Abs(o.Dir); err != nil {
			return err
		}
		if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
			return refusef("--dir: %s is not a directory: create or mount it before starting the worker", o.Dir)
		}
	}
	o.Home = filepath.Join(home.Root, "workers", name)
	unlock, err := jobs.LockWorker(o.Home)
	if err != nil {
		return refusef("%w: choose another --name", err)
	}
	defer check.Quietly(unlock)
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
	o.Address, o.Version, o.Name = o.broker.found, versionText(), name
	o.Slots, o.Labels = cmp.Or(o.Slots, runtime.NumCPU()), append(o.Labels, runtime.GOOS+"/"+runtime.GOARCH)
	o.Environ, o.Watcher = append(os.Environ(), "PRODIGY_NODE="+name), watcherCommand()
	o.Machine, o.Guards.MinFreeDisk = limit.MachineNow, disk
	o.Say, o.Drain = con.sayer(), drain
	err = con.backend.Work(kill, o.WorkerOptions)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
