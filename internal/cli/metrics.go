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
	"prodigy/internal/metrics"
	"prodigy/internal/term"
)

// metricsOptions are the flags about metrics for Prometheus.
type metricsOptions struct {
	listen string // --metrics; empty: nobody can fetch them
	file   string // --metrics-file
}

// metricsEvery is how often the file of metrics is written.
const metricsEvery = 15 * time.Second

func (o *metricsOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(listenFlag(&o.listen), "metrics",
		"serve metrics for Prometheus at this port or address while the job runs, under /metrics; a port alone, as in :9464, is that of 127.0.0.1, and nobody has to log in")
	f.Var(promFlag(&o.file), "metrics-file",
		"keep the same metrics in this file, whose name ends in .prom, for the textfile collector of node_exporter")
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
		return "", errors.New("write a port, as in :9464, or an address and a port, as in 0.0.0.0:9464")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q is no port, as in :9464", port)
	} else if host == "" {
		host, port = "127.0.0.1", strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(host, port), nil
}

// promFlag is a flag for a file that the textfile collector of node_exporter reads.
func promFlag(at *string) pflag.Value {
	parse := func(path string) (string, error) {
		if filepath.Ext(path) != ".prom" {
			return "", errors.New("its name has to end in .prom, or node_exporter does not read it")
		}
		return path, nil
	}
	return value[string]{at, "file", parse, asText}
}

// wanted reports whether anybody wants metrics.
func (o metricsOptions) wanted() bool { return o.listen != "" || o.file != "" }

// observe has the metrics of the job that c configures served and kept in a file, as far as that is wanted. The
// function that it returns must be called when the job has ended.
func (o metricsOptions) observe(p *printer, c *mapreduce.Config) (end func(), err error) {
	if !o.wanted() {
		return func() {}, nil
	}
	slots := c.MaxParallel
	if slots == 0 && p.workflow.Map != nil {
		slots = p.workflow.Map.MaxParallel.Value
	}
	m := metrics.New(p.workflow.Name, slots)
	p.counts = m
	var server *metrics.Server
	if o.listen != "" {
		if server, err = metrics.Listen(o.listen, m.Families); err != nil {
			return nil, refusef("--metrics: %w", err)
		}
		if !p.quiet {
			p.printf("metrics at http://%s/metrics\n", server.Addr())
		}
	}
	var file *metrics.File
	if o.file != "" {
		if file, err = metrics.Keep(o.file, metricsEvery, m.Families); err != nil {
			if server != nil {
				server.Close()
			}
			return nil, refusef("--metrics-file: %w", err)
		}
	}
	observe, progress, earlier := c.Observe, c.Progress, c.Earlier
	c.Observe = func(records []events.Record) {
		m.Observe(records)
		observe(records)
	}
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
	waited := c.RateWaited
	c.RateWaited = func(d time.Duration) {
		m.Waited(d)
		waited(d)
	}
	return func() {
		if server != nil {
			server.Close()
		}
		if file == nil {
			return
		}
		if err := file.Close(); err != nil {
			p.notices <- notice{text: "note: " + term.Visible(err.Error())}
		}
	}, nil
}
