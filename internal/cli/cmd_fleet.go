package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/duration"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// fleetCommandOptions are the flags of the commands that ask a broker.
type fleetCommandOptions struct {
	broker brokerOptions
	// dryRun lists what a sweep would remove.
	dryRun bool
}

// newFleetCommand returns the group of commands about the workers of a broker, its credentials, and what jobs left on
// it.
func newFleetCommand(con *console) *cobra.Command {
	group := newGroup("fleet", "Manage fleet workers")
	var o fleetCommandOptions
	list := o.onBroker(con, &cobra.Command{
		Use:   "ls",
		Short: "List the workers",
		Long: `List workers, their running items, and when they were last seen. While a job runs, this includes
workers that no longer respond: a silent worker is given up after the job's --lease.`,
		Example: "  prodigy fleet ls --fleet nats://127.0.0.1:4222",
		Args:    exactly(),
	}, o.list)
	addFormat(con, list, term.JSON)
	drain := o.onBroker(con, &cobra.Command{
		Use:     "drain <worker>",
		Short:   "Drain a worker: finish its running items, then exit",
		Example: "  prodigy fleet drain worker-3",
		Args:    exactly("worker"),
	}, o.drain)
	sweep := o.onBroker(con, &cobra.Command{
		Use:   "sweep [job]...",
		Short: "Remove data that finished jobs left on the broker",
		Long: `Remove data that finished jobs left on the broker: late worker messages, and what could not be
removed while the broker was unreachable. Each fleet run does this too, every minute and at the end.

Resumable jobs are listed and kept: resume them on the machine where they were started. Naming such
a job by its id stops its items on the workers and removes all of its data from the broker.`,
		Example: `  prodigy fleet sweep --fleet nats://127.0.0.1:4222
  prodigy fleet sweep --dry-run
  prodigy fleet sweep mapreduce-20261120-161500-k3v9`,
	}, o.sweep)
	addFormat(con, sweep, term.JSON)
	addFlag(sweep, &o.dryRun, "dry-run", "list what would be removed, without removing it")
	add := newMemberCommand(con, fleet.Backend.Add, &cobra.Command{
		Use:   "add <directory> <name>",
		Short: "Create credentials for another worker",
		Long: `Create credentials for another worker, coordinator or observer, in a directory created by 'prodigy
fleet init'. Then copy the new users.conf to the broker and reload it: kill -HUP.`,
		Example: "  prodigy fleet add fleet cellar",
	})
	remove := newMemberCommand(con, fleet.Backend.Remove, &cobra.Command{
		Use:   "remove <directory> <name>",
		Short: "Revoke a worker's credentials",
		Long: `Revoke the credentials of a worker, coordinator or observer: delete its entry in users.conf and its
credentials file. Copy the new users.conf to the broker and reload it (kill -HUP); open connections
are closed. To give a worker new credentials, run 'fleet add' with the same name.`,
		Example: "  prodigy fleet remove fleet cellar\n  prodigy fleet remove fleet laptop --role coordinator",
	})
	group.AddCommand(list, drain, sweep, newFleetInitCommand(con), add, remove)
	return group
}

// onBroker completes a command that asks a broker, which its flags, the environment or the configuration must name.
func (o *fleetCommandOptions) onBroker(con *console, cmd *cobra.Command,
	run func(ctx context.Context, con *console, args []string) error,
) *cobra.Command {
	o.broker.add(cmd, "fleet", "the broker")
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.broker.need("fleet") }
	return onArgs(con, cmd, run)
}

// newFleetInitCommand returns the command that writes keys, certificates and a configuration. It talks to no broker.
func newFleetInitCommand(con *console) *cobra.Command {
	var o fleet.InitOptions
	cmd := &cobra.Command{
		Use:   "init <directory>",
		Short: "Create a TLS broker configuration and credentials",
		Long: `Create the configuration of a TLS broker, and credentials, in a directory. Existing files are not
overwritten.

Copy the directory broker to the broker's machine and start it there with 'prodigy broker --dir' or
nats-server. Use coordinator.yml to run jobs, worker.yml for workers, and observer.yml for read-only
access, each with --credentials. With --worker, each worker gets its own credentials and cannot
impersonate others. With three hosts the brokers form a cluster that tolerates the loss of one.`,
		Example: `  prodigy fleet init fleet --host broker.example.com
  prodigy fleet init fleet --host broker.example.com --worker desk --worker attic`,
		Args: exactly("directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			o.Dir = args[0]
			made, err := con.backend.Init(o)
			return con.printMade(made, err)
		},
	}
	addFlag(cmd, &o.Hosts, "host",
		"broker host or address as seen by the others, with optional :PORT (repeat three times for a cluster; "+
			"default: this host's name)")
	cmd.Flags().IntVar(&o.Port, "port", 4222, "broker port")
	addFlag(cmd, &o.Workers, "worker",
		"create separate credentials for this worker (repeatable; default: one file for all)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if o.Port < 1 || o.Port > 65535 {
			return usagef("port must be between 1 and 65535, got %d", o.Port)
		}
		if len(o.Hosts) > 0 {
			return nil
		}
		name, err := os.Hostname()
		o.Hosts = []string{name}
		return err
	}
	return cmd
}

// newMemberCommand completes a command that changes the credentials of a member in the files of fleet init.
func newMemberCommand(con *console,
	change func(b fleet.Backend, dir string, role fleet.Role, name string) ([]string, error), cmd *cobra.Command,
) *cobra.Command {
	role := fleet.WorkerRole
	cmd.Args = exactly("directory", "name")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		changed, err := change(con.backend, args[0], role, args[1])
		return con.printMade(changed, err)
	}
	addChoice(cmd, &role, "role", "role", fleet.Roles()...)
	return cmd
}

// printMade prints the names of files that were made, changed or removed.
func (c *console) printMade(made []string, err error) error {
	for _, path := range made {
		if _, err := fmt.Fprintln(c.text(), path); err != nil {
			return err
		}
	}
	return err
}

// nodeShown is a worker as `fleet ls --json` prints it.
type nodeShown struct {
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	Version string   `json:"version"`
	Slots   int      `json:"slots"`
	Busy    int      `json:"busy"`
	Labels  []string `json:"labels"`
	// Draining means that the worker takes no more items and ends after its running ones.
	Draining bool `json:"draining"`
	// Short says why the worker starts nothing at the moment.
	Short string `json:"short,omitempty"`
	// Began is zero if the worker does not answer.
	Began time.Time `json:"began,omitzero"`
	// Last is when the worker was last heard of.
	Last time.Time `json:"last"`
	// Silent means that the worker does not answer while a job waits for word of it.
	Silent bool      `json:"silent"`
	Jobs   []jobHeld `json:"jobs"`

	// ago is the time since Last. Zero means that the worker answers.
	ago time.Duration
}

// jobHeld is what a worker has of a job.
type jobHeld struct {
	JobID string `json:"job_id"`
	Items int    `json:"items"`
	// Refused says why the worker takes no part in the job.
	Refused string `json:"refused,omitempty"`
	// Short says why the worker starts nothing of the job at the moment.
	Short string `json:"short,omitempty"`
}

// list prints the workers of a broker, by name. Those that do not answer are listed while a job waits for word of them.
func (o *fleetCommandOptions) list(ctx context.Context, con *console, _ []string) error {
	nodes, err := con.backend.Nodes(ctx, o.broker.found)
	if err != nil {
		return err
	}
	slices.SortFunc(nodes, func(a, b fleet.Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Instance, b.Instance))
	})
	shown, now := make([]nodeShown, 0, len(nodes)), time.Now()
	for _, n := range nodes {
		one := nodeShown{
			Name: n.Name, Host: n.Host, Version: n.Version, Slots: n.Slots, Busy: n.Busy, Labels: n.Labels,
			Draining: n.Draining, Short: n.Short, Began: n.Began,
			Last: now.Add(-n.Ago), Silent: n.Silent(), Jobs: []jobHeld{}, ago: n.Ago,
		}
		for _, j := range n.Jobs {
			one.Jobs = append(one.Jobs, jobHeld{j.ID, j.Items, j.Refuses, cmp.Or(n.Short, j.Short)})
		}
		slices.SortFunc(one.Jobs, func(a, b jobHeld) int { return cmp.Compare(a.JobID, b.JobID) })
		shown = append(shown, one)
	}
	if len(shown) == 0 && con.format == term.Human {
		con.sayf("no workers found at %s; start one with: prodigy worker %s",
			fleet.ShownURL(o.broker.found.URL), o.broker.found.WorkerFlags())
	}
	return printRows(con, []term.Column[nodeShown]{
		{Head: "WORKER", Cell: nodeShown.title},
		{Head: "HOST", Cell: func(n nodeShown) string { return n.Host }},
		{Head: "SLOTS", Key: "slots"},
		{Head: "BUSY", Key: "busy"},
		{Head: "LAST", Cell: func(n nodeShown) string {
			if n.ago < time.Second {
				return "now"
			}
			return duration.Seconds(n.ago) + " ago"
		}},
		{Head: "LABELS", Cell: func(n nodeShown) string { return cmp.Or(strings.Join(n.Labels, ","), "-") }},
		{Head: "VERSION", Key: "version"},
		{Head: "JOBS", Cell: nodeShown.work},
	}, term.Each(shown))
}

// title returns the name of a worker, and what is unusual about it.
func (n nodeShown) title() string {
	switch {
	case n.Silent:
		return n.Name + " (silent)"
	case n.Draining:
		return n.Name + " (draining)"
	}
	return n.Name
}

// work returns what a worker has of jobs, and why it takes no more.
func (n nodeShown) work() string {
	var held []string
	for _, j := range n.Jobs {
		text := j.JobID + ": " + strconv.Itoa(j.Items)
		if j.Refused != "" {
			text = j.JobID + ": refused, " + j.Refused
		} else if j.Short != "" && n.Short == "" {
			text += ", accepts no more: " + j.Short
		}
		held = append(held, text)
	}
	if n.Short != "" {
		held = append(held, "accepts nothing: "+n.Short)
	}
	return cmp.Or(strings.Join(held, "; "), "-")
}

// sweep prints what each job has left, and removes that of jobs that have ended or are named. A named job with nothing
// to remove is a usage error.
func (o *fleetCommandOptions) sweep(ctx context.Context, con *console, named []string) error {
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	for i, name := range named {
		if job, err := findJob(jobName{id: name}); err == nil {
			named[i] = job.ID
		}
	}
	found, err := con.backend.Sweep(ctx, o.broker.found,
		fleet.SweepOptions{Jobs: named, Look: o.dryRun, Ended: endedIn(home)})
	if err != nil {
		return err
	}
	for _, name := range named {
		if !slices.ContainsFunc(found, func(r fleet.Leftovers) bool { return r.JobID == name || r.Key == name }) {
			if job, err := findJob(jobName{id: name}); err == nil && job.Running() {
				return refusef("job %s is running; its broker data is removed when it ends", name)
			}
			return refusef("job %q has no data on the broker, or is running elsewhere; list removable jobs "+
				"with: prodigy fleet sweep --dry-run", name)
		}
	}
	if len(found) == 0 && con.format == term.Human {
		con.sayf("nothing to remove: no broker data of jobs that are not running")
	}
	state := func(r fleet.Leftovers) string {
		switch {
		case r.Swept:
			return "removed"
		case r.Ended:
			return "would be removed: job finished"
		}
		text := "kept: can be resumed"
		if r.Host != "" {
			text += fmt.Sprintf(": process %d on %s, last seen %s ago", r.PID, r.Host,
				duration.Seconds(max(0, time.Since(r.Heard))))
		}
		return text
	}
	return printRows(con, []term.Column[fleet.Leftovers]{
		{Head: "JOB", Cell: func(r fleet.Leftovers) string { return cmp.Or(r.JobID, r.Key) }},
		{Head: "OBJECTS", Key: "objects"},
		{Head: "BYTES", Key: "bytes"},
		{Head: "REPORTS", Key: "reports"},
		{Head: "STATE", Cell: state},
	}, term.Each(found))
}

// drain asks all workers of a name to end after their running items, and does not wait for that.
func (o *fleetCommandOptions) drain(ctx context.Context, con *console, args []string) error {
	name := args[0]
	n, err := con.backend.Drain(ctx, o.broker.found, name)
	if err != nil {
		return err
	}
	if n == 0 {
		return refusef("worker %q not found or not responding (see: prodigy fleet ls)", name)
	}
	con.sayf("draining worker %s: it accepts no more items, and exits when its running ones have finished", name)
	return nil
}
