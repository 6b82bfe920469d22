package cli

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/events"
	"prodigy/internal/mapreduce"
	"prodigy/internal/telemetry"
	"prodigy/internal/term"
)

// metricsOptions are the flags about metrics for Prometheus.
type metricsOptions struct {
	listen string // --metrics; "" if nobody can fetch them
	file   string // --metrics-file
}

func (o *metricsOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(listenFlag(&o.listen), "metrics",
		"serve Prometheus metrics at this address while the job runs, such as :9464 (127.0.0.1 unless a host "+
			"is given); no authentication")
	f.Var(promFlag(&o.file), "metrics-file",
		"write Prometheus metrics to this .prom file, for node_exporter's textfile collector")
}

// listenFlag is a flag for an address to listen on. Without a host it is one of this machine alone.
func listenFlag(at *string) pflag.Value {
	return value[string]{at, "address", parseListen, asText}
}

func parseListen(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", errors.New("must be a port (:9464) or an address (0.0.0.0:9464)")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("invalid port %q: must be like :9464", port)
	} else if host == "" {
		host, port = "127.0.0.1", strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(host, port), nil
}

// promFlag is a flag for a file that the textfile collector of node_exporter reads.
func promFlag(at *string) pflag.Value {
	parse := func(path string) (string, error) {
		if filepath.Ext(path) != ".prom" {
			return "", errors.New("file name must end in .prom, as node_exporter requires")
		}
		return path, nil
	}
	return value[string]{at, "file", parse, asText}
}

// outside has the outside told what c records, and changes c for that.
func (p *printer) outside(c *mapreduce.Config) (*telemetry.Run, error) {
	slots := c.MaxParallel
	if slots == 0 && p.workflow.Map != nil {
		slots = p.workflow.Map.MaxParallel.Value
	}
	run, err := telemetry.Begin(telemetry.Config{
		Home: c.Home, Workflow: p.workflow, Settings: c.Settings, Dir: c.Dir, Environ: c.Environ, Version: versionText(), Slots: slots,
		Listen: p.metrics.listen, MetricsFile: p.metrics.file, OTel: p.otel,
		Told: func(text string) { p.notices <- notice{text: "note: " + term.Visible(text)} },
	})
	if err != nil {
		return nil, refusef("%w", err)
	}
	for _, note := range run.Notes {
		if !p.quiet {
			p.printf("%s\n", term.Visible(note))
		}
	}
	if run.Exports {
		c.Trace, c.LogSteps = true, true
	}
	observe := c.Observe
	c.Observe = func(records []events.Record) {
		run.Observe(records)
		observe(records)
	}
	m := run.Metrics
	if m == nil {
		return run, nil
	}
	progress, earlier, waited := c.Progress, c.Earlier, c.RateWaited
	c.Progress = func(e events.AgentProgress) {
		m.Step(e, time.Now())
		if progress != nil {
			progress(e)
		}
	}
	c.Earlier = func(e mapreduce.Earlier) {
		m.Earlier(e.Metrics, e.Spent)
		earlier(e)
	}
	c.RateWaited = func(d time.Duration) {
		m.Waited(d)
		waited(d)
	}
	return run, nil
}
