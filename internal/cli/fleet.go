package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// brokerOptions are the flags that say where the broker of a fleet is, and what was found by them.
type brokerOptions struct {
	url         string
	credentials string
	insecure    bool

	found fleet.Address
	given fleetConfig // the configuration
}

// add gives cmd the flags. name is that of the flag for the broker, and usage says what it is for.
func (o *brokerOptions) add(cmd *cobra.Command, name, usage string) {
	cmd.Flags().StringVar(&o.url, name, "", usage+", as nats://HOST:4222 (also: PRODIGY_FLEET, and fleet in config.yml)")
	cmd.Flags().StringVar(&o.credentials, "credentials", "", "a file of credentials that prodigy fleet init has made, which names the broker too (also: PRODIGY_FLEET_CREDENTIALS)")
	cmd.Flags().BoolVar(&o.insecure, "insecure", false, "allow a broker on another machine without TLS")
}

// find finds the broker by the flags, else the environment, else the configuration. Its URL is empty if there is none.
func (o *brokerOptions) find() error {
	home, err := jobs.FromEnv()
	if err != nil {
		return err
	}
	c, err := readConfig(home)
	if err != nil {
		return err
	}
	o.given = c.fleet
	o.found = fleet.Address{
		Insecure: o.insecure || c.fleet.insecure,
		CA:       cmp.Or(os.Getenv("PRODIGY_FLEET_CA"), c.fleet.ca), NKey: cmp.Or(os.Getenv("PRODIGY_FLEET_NKEY"), c.fleet.nkey),
		Cert: os.Getenv("PRODIGY_FLEET_CERT"), Key: os.Getenv("PRODIGY_FLEET_KEY"),
	}
	if o.found.Cert == "" && o.found.Key == "" {
		o.found.Cert, o.found.Key = c.fleet.cert, c.fleet.key
	}
	// The first that names a broker by its URL or by credentials does. Credentials serve for a broker that is named before them, too.
	for _, from := range []struct{ url, credentials string }{
		{o.url, o.credentials},
		{os.Getenv("PRODIGY_FLEET"), os.Getenv("PRODIGY_FLEET_CREDENTIALS")},
		{c.fleet.url, c.fleet.credentials},
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
	return nil
}

// use takes what a file of credentials says.
func (o *brokerOptions) use(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return refusef("the credentials of the fleet: %w", err)
	}
	c, err := fleet.ParseCredentials(data)
	if err != nil {
		return refusef("%s: %w", path, err)
	}
	c.Use(&o.found)
	return nil
}

// need is find for what cannot do without a broker. name is the flag for it.
func (o *brokerOptions) need(name string) error {
	if err := o.find(); err != nil {
		return err
	}
	if o.found.URL == "" {
		return usagef("which broker? Name it with --%s nats://HOST:4222, or with --credentials and a file that prodigy fleet init has made", name)
	}
	return nil
}

// fleetOptions are the flags of the commands that run a job, for one on a fleet.
type fleetOptions struct {
	brokerOptions
	leaseOf  time.Duration
	patience time.Duration
	requires []string
}

// noFleet as the broker is none: the items run here. Given to a resume by its flag, it gives up what workers may still run.
const noFleet = "none"

func (o *fleetOptions) add(cmd *cobra.Command) {
	o.leaseOf = fleet.DefaultLease
	o.addWorkers(cmd, "run the items on the workers of this broker")
	f := cmd.Flags()
	f.Var(durationFlag{&o.leaseOf}, "lease", "how long a worker may be silent before its items go elsewhere")
	f.Var(durationFlag{&o.patience}, "broker-patience", "how long the broker may be away before the job pauses (default: any time)")
}

// addWorkers gives cmd the flags that say on which workers items run. usage is that of the flag for the broker.
func (o *fleetOptions) addWorkers(cmd *cobra.Command, usage string) {
	o.brokerOptions.add(cmd, "fleet", usage)
	cmd.Flags().Lookup("fleet").Usage += "; none: here"
	cmd.Flags().Var(labelsFlag{&o.requires}, "requires", "only workers with this label, besides those of map.requires (may be given more than once)")
}

// find finds the broker, and how long to wait for it and for workers.
func (o *fleetOptions) find(cmd *cobra.Command) error {
	if err := o.brokerOptions.find(); err != nil {
		return err
	}
	if o.given.lease > 0 && !cmd.Flags().Changed("lease") {
		o.leaseOf = o.given.lease
	}
	if !cmd.Flags().Changed("broker-patience") {
		o.patience = o.given.patience
	}
	return nil
}

// labelsFlag is a flag for labels of workers, which may be given more than once.
type labelsFlag struct{ labels *[]string }

func (l labelsFlag) String() string { return strings.Join(*l.labels, " ") }
func (l labelsFlag) Type() string   { return "label" }

func (l labelsFlag) Set(text string) error {
	if !workflow.IsWorkerLabel(text) {
		return errors.New("a label begins with a letter or a digit, and then may have . _ / : = + - too")
	}
	*l.labels = append(*l.labels, text)
	return nil
}

// wanted reports whether the job is to run on a fleet. The broker has been looked for.
func (o fleetOptions) wanted() bool { return o.found.URL != "" }

// forWorkflow returns the options for a workflow. One without a map has nothing for a fleet that was not asked for on the command line: it runs here.
func (o fleetOptions) forWorkflow(w *workflow.Workflow) fleetOptions {
	if w.Mode == workflow.Standard && o.url == "" && o.credentials == "" {
		o.found = fleet.Address{}
	}
	return o
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

// fleetFlags returns the flags by which a job was started on a fleet, each after a space, for a command that continues it. It is empty for a job that was
// started without, or whose fleet is in the environment or the configuration.
func fleetFlags(job jobs.Job) string {
	meta, err := job.ReadMeta()
	if err != nil {
		return ""
	}
	return fleetFlagsIn(meta.Args, meta.Dir)
}

// fleetFlagsIn returns the flags about a fleet in a command line that was given in dir.
func fleetFlagsIn(args []string, dir string) string {
	var text strings.Builder
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch name {
		case "--insecure":
			text.WriteString(" " + name)
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
			return ""
		case name == "--fleet":
			value = fleet.ShownURL(value)
		case name == "--credentials":
			value = process.Resolve(dir, value)
		}
		text.WriteString(" " + name + " " + quoted(value))
	}
	return text.String()
}

// check refuses what a fleet cannot do, or this machine without one, before anything runs. What this machine may lack it only warns of.
func (o fleetOptions) check(con *console, w *workflow.Workflow, quiet bool) error {
	if !o.wanted() {
		return o.checkHere(con, w, quiet)
	}
	if w.Mode == workflow.Standard {
		return refusef("--fleet spreads the items of a map, and this workflow has none: run it without --fleet, or write what is to be spread as the items of a map (mode: mapreduce)")
	}
	return nil
}

func (o fleetOptions) checkHere(con *console, w *workflow.Workflow, quiet bool) error {
	here := runtime.GOOS + "/" + runtime.GOARCH
	var unknown []string
	for _, label := range o.labels(w) {
		system, _, ok := strings.Cut(label, "/")
		switch {
		case label == here:
		case ok && slices.Contains([]string{"darwin", "freebsd", "linux", "netbsd", "openbsd", "windows"}, system):
			return refusef("the items require %s, and without --fleet they would run on this machine, which is %s", label, here)
		default:
			unknown = append(unknown, label)
		}
	}
	if len(unknown) > 0 && !quiet {
		_, _ = fmt.Fprintf(con.err, "warning: the items require %s, and without --fleet they run on this machine, whether it has that or not\n", strings.Join(unknown, ", "))
	}
	return nil
}

// on returns do for a job on the fleet, if one is wanted. dir is the directory of the run.
func (o fleetOptions) on(con *console, t tools, w *workflow.Workflow, dir string, grace time.Duration, do work) work {
	if !o.wanted() {
		return func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
			c.Abandon = o.url == noFleet
			return do(ctx, c)
		}
	}
	return func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
		layers, err := presetTexts(t.home, w)
		if err != nil {
			return mapreduce.Result{}, err
		}
		var files []string
		for _, pattern := range w.Map.Files {
			files = append(files, pattern.Value)
		}
		coordinator, err := con.backend.Join(ctx, fleet.JobOptions{
			Address: o.found, Version: versionText(), Lease: o.leaseOf, Patience: o.patience, Requires: o.labels(w), Guards: w.Map.Guards, Dir: dir, Grace: grace,
			Agents: t.agents != nil, Layers: layers, Claude: t.claude, Files: files, Produces: w.Map.Produces, Ended: endedIn(t.home),
		})
		if err != nil {
			return mapreduce.Result{}, err
		}
		coordinator.Notify(c.Notice)
		stop, abort := context.WithCancelCause(c.Stop)
		defer abort(nil)
		coordinator.OnAbort(abort)
		c.Stop = stop
		observe := c.Observe
		c.Executor, c.OnFleet = coordinator.Executor, true
		c.Observe = func(records []events.Record) {
			coordinator.Persisted(records)
			observe(records)
		}
		r, err := do(ctx, c)
		return r, errors.Join(err, coordinator.Close())
	}
}

// presetTexts returns how AI coding CLIs are called, beside what is built in, as YAML.
func presetTexts(home jobs.Home, w *workflow.Workflow) ([]string, error) {
	layers, err := homePresets(home)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, l := range layers {
		text, err := yaml.Marshal(l.Node)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	if w.Agents == nil {
		return texts, nil
	}
	text, err := yaml.Marshal(w.Agents.Node)
	return append(texts, string(text)), err
}

// companion is a program that prodigy starts for what would make all else start slower.
type companion struct{ name, what string }

var (
	fleetCompanion = companion{"prodigy-fleet", "a fleet"}
	otelCompanion  = companion{"prodigy-otel", "OpenTelemetry"}
)

// companionForVar tells a companion which version of prodigy has started it.
const companionForVar = "PRODIGY_COMPANION_FOR"

// become runs the same command line by the companion. It returns only when it cannot, or on Windows.
func (c companion) become() error {
	path, err := c.find()
	if err != nil {
		return err
	}
	return become(path, os.Args[1:], c.environ())
}

// environ returns the environment to start the companion in.
func (companion) environ() []string { return append(os.Environ(), companionForVar+"="+versionText()) }

// find returns the path of the companion.
func (c companion) find() (string, error) {
	name := c.name
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); isFile(beside) {
			return beside, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", refusef("%s needs the program %s, of the same version (%s), beside prodigy or on PATH: it comes in the same archive, and make install installs it", c.what, c.name, versionText())
	}
	return found, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// check refuses to go on, in the companion, for a prodigy of another version.
func (c companion) check() error {
	version := os.Getenv(companionForVar)
	if err := os.Unsetenv(companionForVar); err != nil || version == "" || version == versionText() {
		return err
	}
	return refusef("prodigy is version %s, and the %s that it found is %s: install both from one archive", version, c.name, versionText())
}

// linked calls do, by prodigy-fleet if this is only prodigy.
func (c *console) linked(do func() error) error {
	if c.backend == nil {
		return fleetCompanion.become()
	}
	return do()
}

// sayer returns a function that prints lines about what a worker or broker does.
func (c *console) sayer() func(string) {
	return func(text string) {
		_, _ = fmt.Fprintf(c.err, "%s %s\n", time.Now().Format(time.TimeOnly), visible(text))
	}
}
