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
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

// fleetOptions are the flags of the commands that run a job, for one on a fleet.
type fleetOptions struct {
	url      string // of the broker; empty: none is asked for; noFleet: what it may still run is given up
	lease    time.Duration
	requires []string
	insecure bool
	offered  bool // the command has these flags
}

// noFleet as the URL of a resume gives up what workers may still run.
const noFleet = "none"

func (o *fleetOptions) add(cmd *cobra.Command) {
	o.lease, o.offered = fleet.DefaultLease, true
	f := cmd.Flags()
	f.StringVar(&o.url, "fleet", "", "run the items on the workers of this broker, as nats://HOST:4222 (also: PRODIGY_FLEET)")
	f.Var(durationFlag{&o.lease}, "lease", "how long a worker may be silent before its items go elsewhere")
	f.Var(repeated{&o.requires}, "requires", "only workers with this label (may be given more than once)")
	f.BoolVar(&o.insecure, "insecure", false, "allow a broker on another machine without TLS")
}

// address returns the broker that is asked for, by the flag or the environment.
func (o fleetOptions) address() fleet.Address {
	return fleetAddress(cmp.Or(o.url, os.Getenv("PRODIGY_FLEET")), o.insecure)
}

func fleetAddress(url string, insecure bool) fleet.Address {
	return fleet.Address{
		URL: url, Insecure: insecure, CA: os.Getenv("PRODIGY_FLEET_CA"), Cert: os.Getenv("PRODIGY_FLEET_CERT"), Key: os.Getenv("PRODIGY_FLEET_KEY"),
		NKey: os.Getenv("PRODIGY_FLEET_NKEY"),
	}
}

// wanted reports whether the job is to run on a fleet.
func (o fleetOptions) wanted() bool {
	return o.offered && o.address().URL != "" && o.address().URL != noFleet
}

// check refuses what a fleet cannot do, before anything runs.
func (o fleetOptions) check(w *workflow.Workflow) error {
	switch {
	case !o.wanted():
		return nil
	case w.Mode == workflow.Standard:
		return refusef("--fleet is for a workflow with a map: its commands would all run here")
	case w.Workspace.Isolated():
		return refusef("workspace: %s is not supported with --fleet: workers share the directory of the run", w.Workspace.Mode)
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
		crew, err := con.link.Join(ctx, fleet.JobOptions{
			Address: o.address(), Version: versionText(), Lease: o.lease, Requires: o.requires, Dir: dir, Grace: grace,
			Agents: t.agents != nil, Layers: layers, Claude: t.claude,
		})
		if err != nil {
			return mapreduce.Result{}, err
		}
		crew.Notify(c.Notice)
		observe := c.Observe
		c.Executor, c.OnFleet = crew.Executor, true
		c.Observe = func(records []events.Record) {
			crew.Settle(records)
			observe(records)
		}
		r, err := do(ctx, c)
		return r, errors.Join(err, crew.Close())
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

const (
	fleetProgram = "prodigy-fleet"
	// fleetForVar tells prodigy-fleet which version of prodigy has become it.
	fleetForVar = "PRODIGY_FLEET_FOR"
)

// becomeFleet runs the same command line by prodigy-fleet, which can reach a broker. It returns only when it cannot, or on Windows.
func becomeFleet() error {
	name := fleetProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	var path string
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); isFile(beside) {
			path = beside
		}
	}
	if path == "" {
		found, err := exec.LookPath(name)
		if err != nil {
			return refusef("for a fleet %s is needed, of the same version (%s), beside prodigy or on PATH: it comes in the same archive, and make install installs it", fleetProgram, versionText())
		}
		path = found
	}
	return become(path, os.Args[1:], append(os.Environ(), fleetForVar+"="+versionText()))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// checkBecome refuses to go on for a prodigy of another version.
func checkBecome() error {
	version := os.Getenv(fleetForVar)
	if err := os.Unsetenv(fleetForVar); err != nil || version == "" || version == versionText() {
		return err
	}
	return refusef("prodigy is version %s, and the %s that it found is %s: install both from one archive", version, fleetProgram, versionText())
}

// linked calls do, by prodigy-fleet if this is only prodigy.
func (c *console) linked(do func() error) error {
	if c.link == nil {
		return becomeFleet()
	}
	return do()
}

// sayer returns a function that prints lines about what a worker or broker does.
func (c *console) sayer() func(string) {
	return func(text string) {
		_, _ = fmt.Fprintf(c.err, "%s %s\n", time.Now().Format(time.TimeOnly), visible(text))
	}
}
