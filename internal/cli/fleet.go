package cli

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/settings"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// brokerOptions are the flags that say where the broker of a fleet is, and what was found by them.
type brokerOptions struct {
	// url is the flag --fleet or --join, and credentials the path of a file. Both are empty if they are not given.
	url         string
	credentials string
	// insecure allows a connection without TLS to another machine.
	insecure bool

	// found is set by find. Its URL is empty if there is no broker.
	found fleet.Address
	// config is what config.yml says.
	config settings.Config
}

// add gives cmd the flags. name is that of the flag for the broker, and usage says what it is for.
func (o *brokerOptions) add(cmd *cobra.Command, name, usage string) {
	addFlag(cmd, filled(&o.url, "the address must not be empty"), name,
		usage+", such as nats://HOST:4222 (env: PRODIGY_FLEET, config: fleet)")
	addFlag(cmd, filled(&o.credentials, "the file name must not be empty"), "credentials",
		"broker credentials file, from fleet init or fleet add (env: PRODIGY_FLEET_CREDENTIALS)")
	addFlag(cmd, &o.insecure, "insecure", "allow an unencrypted connection to a remote broker")
}

// find finds the broker by the flags, else the environment, else the configuration. Its URL is empty if there is none.
func (o *brokerOptions) find() error {
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	c, err := settings.ReadConfig(home.Root)
	if err != nil {
		return err
	}
	o.config = c
	o.found = fleet.Address{
		Insecure: o.insecure || c.Fleet.Insecure,
		CA:       cmp.Or(os.Getenv("PRODIGY_FLEET_CA"), c.Fleet.CA), NKey: cmp.Or(os.Getenv("PRODIGY_FLEET_NKEY"),
			c.Fleet.NKey),
		Cert: os.Getenv("PRODIGY_FLEET_CERT"), Key: os.Getenv("PRODIGY_FLEET_KEY"),
	}
	if (o.found.Cert == "") != (o.found.Key == "") {
		return refusef("PRODIGY_FLEET_CERT and PRODIGY_FLEET_KEY must be set together")
	}
	if o.found.Cert == "" {
		o.found.Cert, o.found.Key = c.Fleet.Cert, c.Fleet.Key
	}
	// The first that names a broker by its URL or by credentials does. Credentials serve for a broker that is named
	// before them, too.
	for _, from := range []struct{ url, credentials string }{
		{o.url, o.credentials},
		{os.Getenv("PRODIGY_FLEET"), os.Getenv("PRODIGY_FLEET_CREDENTIALS")},
		{c.Fleet.URL, c.Fleet.Credentials},
	} {
		o.found.URL = cmp.Or(o.found.URL, from.url)
		if o.found.URL == noFleet {
			o.found = fleet.Address{}
			return nil
		}
		if from.credentials != "" {
			return o.use(from.credentials)
		}
	}
	if u, err := url.Parse(o.found.URL); err == nil && u.User == nil && o.found.NKey == "" && o.found.Cert == "" {
		if path := fleet.OwnerFile(home.Root, u.Host); isFile(path) { // the broker is this user's own
			return o.use(path)
		}
	}
	return nil
}

// use takes what a file of credentials says.
func (o *brokerOptions) use(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return refusef("fleet credentials: %w", err)
	}
	c, err := fleet.ParseCredentials(data)
	if err != nil {
		return refusef("%s: %w", path, err)
	}
	o.found.URL, o.found.Credentials = cmp.Or(o.found.URL, c.URL), c
	return nil
}

// need is find for what cannot do without a broker. name is the flag for it.
func (o *brokerOptions) need(name string) error {
	if err := o.find(); err != nil {
		return err
	}
	if o.found.URL == "" {
		return usagef("no broker given: use --%s nats://HOST:4222, or --credentials FILE", name)
	}
	return nil
}

// fleetOptions are the flags of the commands that run a job, for one on a fleet.
type fleetOptions struct {
	brokerOptions
	// leaseOf is how long a worker may be silent before its attempts are lost.
	leaseOf time.Duration
	// patience is how long the broker may be gone before the job pauses. Zero means forever.
	patience time.Duration
	// requires are labels that workers must have, besides those in the workflow.
	requires []string
}

// noFleet as the broker is none: the items run here. Given to a resume by its flag, it gives up what workers may still
// run.
const noFleet = "none"

// add gives cmd all flags of a fleet, those about leases and patience included.
func (o *fleetOptions) add(cmd *cobra.Command) {
	o.leaseOf = fleet.DefaultLease
	o.addWorkers(cmd, "run items on the workers of this broker")
	addFlag(cmd, &o.leaseOf, "lease", "reassign a worker's items after this long without contact")
	addFlag(cmd, &o.patience, "broker-patience",
		"how long to tolerate an unreachable broker before stopping the job (default: forever)")
}

// addWorkers gives cmd the flags that say on which workers items run. usage is that of the flag for the broker.
func (o *fleetOptions) addWorkers(cmd *cobra.Command, usage string) {
	o.brokerOptions.add(cmd, "fleet", usage)
	broker := cmd.Flags().Lookup("fleet")
	broker.Usage += ", or none for this machine"
	broker.Value = filled(&o.url, "the address must not be empty; use none to run on this machine")
	addFlag(cmd, labelsFlag(&o.requires), "requires",
		"only workers with this label, in addition to map.requires (repeatable)")
}

// find finds the broker, and how long to wait for it and for workers.
func (o *fleetOptions) find(cmd *cobra.Command) error {
	if err := o.brokerOptions.find(); err != nil {
		return err
	}
	given := o.config.Fleet
	if given.Lease > 0 && !cmd.Flags().Changed("lease") {
		o.leaseOf = given.Lease
	}
	if !cmd.Flags().Changed("broker-patience") {
		o.patience = given.Patience
	}
	return nil
}

// labelsFlag is a flag for labels of workers, which may be given more than once.
func labelsFlag(at *[]string) pflag.Value {
	return repeatedIf(at, "label", func(text string) error {
		if !workflow.IsWorkerLabel(text) {
			return errors.New("invalid label: must start with a letter or digit, followed by letters, digits " +
				"or . _ / : = + -")
		}
		return nil
	})
}

// wanted reports whether the job is to run on a fleet. The broker has been looked for.
func (o fleetOptions) wanted() bool { return o.found.URL != "" }

// forWorkflow returns the options for a workflow. One without a map has nothing for a fleet that was not asked for on
// the command line: it runs here.
func (o fleetOptions) forWorkflow(w *workflow.Workflow) fleetOptions {
	if w.Mode == workflow.Standard && o.url == "" && o.credentials == "" {
		o.found = fleet.Address{}
	}
	return o
}

// stepsHere returns which steps of w run on this machine.
func (o fleetOptions) stepsHere(w *workflow.Workflow) func(workflow.StepRef) bool {
	return func(at workflow.StepRef) bool { return !o.wanted() || at.RunsHere(w) }
}

// labels returns what a worker must have to run items of w.
func (o fleetOptions) labels(w *workflow.Workflow) []string {
	all := slices.Clone(o.requires)
	if w.Map != nil {
		for _, label := range w.Map.Requires {
			all = append(all, label.Value)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// resumeCommand returns the command to type that resumes a job, on the fleet that its items ran on last. more are
// further flags, each after a space.
func resumeCommand(job jobs.Job, more string) string { return onLastFleet("resume", job, more) }

// retryCommand returns the command to type that retries dead letters of a job, on the fleet that its items ran on last.
// more is as for resumeCommand.
func retryCommand(job jobs.Job, more string) string { return onLastFleet("dlq retry", job, more) }

// onLastFleet returns a command to type for a job, with the flags of lastFleet.
func onLastFleet(command string, job jobs.Job, more string) string {
	line := "prodigy " + command + named(job.ID) + more
	if meta, err := job.ReadMeta(); err == nil {
		line += shownFlags(lastFleet(job, meta))
	}
	return line
}

// shownFlags returns flags as they are printed, each after a space and without passwords.
func shownFlags(flags []string) string {
	shown := slices.Clone(flags)
	for i := 1; i < len(shown); i++ {
		if shown[i-1] == "--fleet" {
			shown[i] = fleet.ShownURL(shown[i])
		}
	}
	return term.Prefixed(" ", shellWords(shown))
}

// recordedFlags returns the flags about a fleet in a command line that was given in dir; none with --fleet none.
func recordedFlags(args []string, dir string) (flags []string) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch name {
		case "--insecure":
			flags = append(flags, name)
			continue
		case "--fleet", "--credentials", "--lease", "--broker-patience", "--requires":
		default:
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch {
		case name == "--fleet" && value == noFleet:
			return nil
		case name == "--credentials":
			value = process.Resolve(dir, value)
		}
		flags = append(flags, name, value)
	}
	return flags
}

// lastFleet returns the flags by which a command continues a job on the fleet that its items ran on last: those that
// the job was begun with, and the broker if they do not name it, and neither the environment nor the configuration
// does. It returns none if the items ran on this machine.
func lastFleet(place jobs.Job, meta jobs.Meta) []string {
	flags := recordedFlags(meta.Args, meta.Dir)
	broker, err := job.BrokerOf(place)
	switch {
	case err != nil:
		return flags
	case broker == "":
		return nil
	}
	var known brokerOptions
	if slices.Contains(flags, "--fleet") || slices.Contains(flags, "--credentials") ||
		known.find() == nil && fleet.ShownURL(known.found.URL) == broker {
		return flags
	}
	return append(flags, "--fleet", broker)
}

// check refuses, before anything runs, what a fleet cannot do, and without one items that require another system. It
// warns of labels that only a worker could have.
func (o fleetOptions) check(con *console, w *workflow.Workflow, quiet bool) error {
	if o.wanted() {
		if w.Mode == workflow.Standard {
			return refusef("--fleet needs a map (mode: mapreduce); run this workflow without --fleet")
		}
		return nil
	}
	here := runtime.GOOS + "/" + runtime.GOARCH
	var unknown []string
	for _, label := range o.labels(w) {
		system, _, ok := strings.Cut(label, "/")
		switch {
		case label == here:
		case ok && check.Among("darwin freebsd linux netbsd openbsd windows", system):
			return refusef("items require %s, but this machine is %s; use --fleet",
				label, here)
		default:
			unknown = append(unknown, label)
		}
	}
	if len(unknown) > 0 && !quiet {
		con.sayf("warning: items require %s, which cannot be checked here; without --fleet they run on "+
			"this machine anyway", strings.Join(unknown, ", "))
	}
	return nil
}

// work runs a job: mapreduce.Run, Resume or RetryDead with their arguments bound.
type work func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error)

// run does the work of a job, on the fleet if one is wanted.
func (o fleetOptions) run(ctx context.Context, con *console, w *workflow.Workflow, c mapreduce.Config, do work) (
	mapreduce.Result, error,
) {
	if !o.wanted() {
		c.Abandon = o.url == noFleet
		return do(ctx, c)
	}
	layers, err := presetTexts(c.Home, w)
	if err != nil {
		return mapreduce.Result{}, err
	}
	var files []string
	for _, pattern := range w.Map.Files {
		files = append(files, pattern.Value)
	}
	stop, abort := context.WithCancelCause(c.Stop)
	defer abort(nil)
	c.Stop = stop
	notify := c.Notice
	coordinator, err := con.backend.Join(ctx, fleet.JobOptions{
		Address: o.found, Version: c.Version, Lease: o.leaseOf, Patience: o.patience, Requires: o.labels(w),
		Programs: c.Agents.Programs(w, c.Claude, workflow.StepRef.RunsOnWorkers), Guards: w.Map.Guards,
		Dir:    c.Dir,
		Agents: c.Agents != nil, Layers: layers, Files: files, Produces: w.Map.Produces,
		Ended: endedIn(c.Home), Abort: abort,
		// as workers say it, to compare
		Notice: func(text string) { notify(time.Now().Format(time.TimeOnly) + " " + text) },
	})
	if err != nil {
		return mapreduce.Result{}, err
	}
	c.Executor, c.OnFleet, c.Broker = coordinator.Executor, true, fleet.ShownURL(o.found.URL)
	c.Observe = both(coordinator.Persisted, c.Observe)
	r, err := do(ctx, c)
	return r, errors.Join(err, coordinator.Close())
}

// sayer returns a function that prints lines about what a worker or broker does.
func (c *console) sayer() func(string) {
	return func(text string) {
		c.sayf("%s %s", time.Now().Format(time.TimeOnly), term.Visible(text))
	}
}

// endedIn returns what reports whether a job of a home has ended.
func endedIn(home jobs.Home) func(id string) (seed uint64, ended bool) {
	return func(id string) (uint64, bool) {
		place, err := home.Find(id)
		if err != nil || place.ID != id || place.Running() {
			return 0, false
		}
		meta, err := place.ReadMeta()
		if err != nil {
			return 0, false
		}
		return meta.Seed, lastOf(place).State == jobs.Completed
	}
}
