package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/reuse"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// jobOptions are the flags of every command that runs a job.
type jobOptions struct {
	// Config is what the flags say of the run. The rest of it is filled in when the job begins.
	mapreduce.Config
	quiet bool
	// partialOK makes dead letters and skipped items no reason for another exit code than 0.
	partialOK bool
	// print (--print) prints the output of items as they finish.
	print bool
	// keepOrder (--keep-order) prints it in the order of the items. A resume then prints that of items that finished
	// before as well.
	keepOrder bool
	// printsOn means that the earlier runs of the job printed too, and this one goes on where they ended.
	printsOn bool
	// ended has what is to be printed of those runs.
	ended []endedItem
	// joblog (--joblog) is a file with a row for each item, written at the end. Empty means none.
	joblog string
	// replacement (--workflow) is the path of another workflow file. Empty keeps the recorded one.
	replacement string
	// metricsAt (--metrics) is where metrics for Prometheus are served. Empty means nowhere.
	metricsAt string
	// metricsFile (--metrics-file) is what they are written to. Empty means that they are not.
	metricsFile string
	// telemetry (--otel) exports to OpenTelemetry even if the environment does not say so.
	telemetry bool
	echo      echoOptions
	fleet     fleetOptions
}

// defaultGrace is how long running steps may take to finish after a stop.
const defaultGrace = 5 * time.Second

// defaultMaxRetries is how often a dead letter may be retried.
const defaultMaxRetries = 3

// add gives cmd the flags, those about the number of slots, what items print and a fleet included.
func (o *jobOptions) add(con *console, cmd *cobra.Command) {
	addFormat(con, cmd, term.JSON)
	o.addRunning(cmd, "")
}

// addRunning gives cmd the flags but for the output format. usual is how it shows what items print without a flag.
func (o *jobOptions) addRunning(cmd *cobra.Command, usual term.EchoMode) {
	o.Durability = events.Batch
	o.addPolicy(cmd)
	o.echo.add(cmd, usual)
	o.fleet.add(cmd)
	addChoice(cmd, &o.Durability, "durability", "when to sync the log to disk",
		events.Batch, events.Strict, events.None)
	addFlag(cmd, &o.Grace, "grace", "time for running steps to finish after a stop")
	addFlag(cmd, poolFlag(&o.Pool), "pool",
		"limit all jobs on this machine with the same pool name to SLOTS items in total, as NAME:SLOTS")
	addFlag(cmd, &o.LogSteps, "log-steps", "record step events for every item")
	addFlag(cmd, value[string]{&o.metricsAt, "address", parseListen}, "metrics",
		"serve Prometheus metrics at this address while the job runs, such as :9464 (127.0.0.1 unless a host "+
			"is given); no authentication")
	addFlag(cmd, textIf(&o.metricsFile, "file", isProm), "metrics-file",
		"write Prometheus metrics to this .prom file, for node_exporter's textfile collector")
	addFlag(cmd, &o.telemetry, "otel",
		"export to OpenTelemetry over OTLP (default endpoint http://localhost:4318; on if "+
			"OTEL_EXPORTER_OTLP_ENDPOINT is set)")
}

// addPolicy gives cmd the flags that a simulated job has too.
func (o *jobOptions) addPolicy(cmd *cobra.Command) {
	o.Grace, o.MaxRetries = defaultGrace, defaultMaxRetries
	addFlag(cmd, &o.quiet, "quiet,q", "print nothing on success")
	addFlag(cmd, &o.StopNow, "stop-now", "kill running commands when the error policy stops the job")
	addFlag(cmd, &o.ExitOutside, "exit-outside",
		"exit with 75 outside the job's windows instead of waiting")
	addFlag(cmd, &o.partialOK, "partial-ok", "exit with 0 even if items were dead-lettered or skipped")
	addMaxCost(cmd, &o.MaxCost)
	addMaxParallel(cmd, &o.MaxParallel)
}

// addPrint gives cmd the flags that print what items print.
func (o *jobOptions) addPrint(cmd *cobra.Command, keepOrder string) {
	addFlag(cmd, &o.print, "print",
		"print the output of the last step of each successful item")
	addFlag(cmd, &o.keepOrder, "keep-order", keepOrder)
}

// checkPrint refuses to mix what items print with the JSON of the outcome, which has stdout for itself.
func (o *jobOptions) checkPrint(con *console) error {
	if con.format == term.JSON && (o.print || o.keepOrder) {
		return usagef("--print and --keep-order cannot be used with --json")
	}
	return nil
}

// config returns the configuration of a job.
func (o jobOptions) config(t tools) mapreduce.Config {
	c := o.Config
	c.Home, c.Environ, c.Claude, c.Agents, c.Version = t.home, os.Environ(), t.claude, t.agents, versionText()
	c.LogFileSize, _ = strconv.ParseInt(logFileSize, 10, 64) // zero is the default
	c.Printing, c.Watcher, c.WorkRoot = o.printing(), watcherCommand(), workRoot()
	return c
}

// workRoot returns the directory of the workspaces of all jobs that PRODIGY_WORK names, made absolute, or "".
func workRoot() string {
	dir := os.Getenv("PRODIGY_WORK")
	if dir == "" {
		return ""
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return abs
}

// findTools is findTools for a job with these options. It refuses a budget in money that nothing can hold: without an
// agent, or with one that does not say what it costs.
func (o jobOptions) findTools(w *workflow.Workflow, here func(workflow.StepRef) bool) (tools, error) {
	t, err := findTools(w, here)
	if err != nil || o.MaxCost == 0 && w.Budget.Job == nil && w.Budget.Item == nil {
		return t, err
	}
	if err := t.agents.CheckBudget(w); err != nil {
		return t, err
	}
	if o.MaxCost > 0 && !ai.Runs(w) {
		return t, refusef("--max-cost: the workflow has no AI agent steps")
	}
	return t, nil
}

// Set by the linker.
var (
	version string
	// logFileSize is the size in bytes at which the next log file begins, for make torture. Empty means the default.
	logFileSize string
)

// versionText returns the version set by the linker, else the one in the build info.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	if info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// addSince gives cmd the flags about an earlier job whose results are taken over.
func addSince(cmd *cobra.Command, o *jobs.Since) {
	addFlag(cmd, &o.JobID, "since",
		"reuse results of items unchanged since this job (latest: this workflow's latest job, none: reuse nothing)",
		completeJobs)
	formerly(cmd, map[string]string{"force": "rerun"})
	addFlag(cmd, &o.Force, "rerun", "with --since, rerun this item even if unchanged (repeatable)")
	addChoice(cmd, &o.Only, "only", "with --since, run only these items",
		reuse.OnlyChoices()...)
	addFlag(cmd, &o.CheckOutputs, "check-outputs",
		"with --since, also rerun items whose output files (produces) were modified or deleted")
}

// parseListen reads an address to listen on, or a mere port, and returns it as host:port. Without a host it is one of
// this machine alone. Port 0 is allowed.
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

// isProm refuses the name of a file that the textfile collector of node_exporter does not read.
func isProm(path string) error {
	if filepath.Ext(path) != ".prom" {
		return errors.New("file name must end in .prom, as node_exporter requires")
	}
	return nil
}

// endLeftoversName is the name of the hidden command that each run starts as its watcher.
const endLeftoversName = "end-leftovers"

// watcherCommand returns the argv of end-leftovers for mapreduce.Config, or nil if the executable cannot be found; then
// no watcher runs.
func watcherCommand() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, endLeftoversName}
}

// echoOptions are the flags that show what the commands of items print.
type echoOptions struct {
	// usual is the mode that a command has without a flag, and given that of the flag.
	usual, given term.EchoMode
	// tag begins each line with the item.
	tag bool
}

// add gives cmd the flags. usual is the mode that it has without them.
func (o *echoOptions) add(cmd *cobra.Command, usual term.EchoMode) {
	o.usual = usual
	isUsual := ""
	if usual == term.Grouped {
		isUsual = " (default)"
	}
	for _, m := range []struct {
		mode          term.EchoMode
		letter, usage string
	}{
		{term.Grouped, "", "print each item's output when it finishes: stdout, then stderr" + isUsual},
		{term.LineByLine, "", "print each line as soon as it is complete"},
		{term.AtOnce, ",u", "print output as it arrives, unbuffered"},
	} {
		addFlag(cmd, func() { o.given = m.mode }, string(m.mode)+m.letter, m.usage)
	}
	cmd.MarkFlagsMutuallyExclusive(string(term.Grouped), string(term.LineByLine), string(term.AtOnce))
	addFlag(cmd, &o.tag, "tag", "prefix each line with the item and a tab")
}

// mode returns the mode that the flags ask for.
func (o echoOptions) mode() term.EchoMode {
	if o.given == "" && o.tag {
		return term.Grouped
	}
	return cmp.Or(o.given, o.usual)
}

// checkEcho returns what is wrong with the flags that show what items print, together with others.
func (o jobOptions) checkEcho(con *console) error {
	switch {
	case (o.echo.tag || o.keepOrder) && o.echo.given == term.AtOnce:
		return usagef("--tag and --keep-order cannot be used with --ungroup")
	case o.echo.mode() != "" && (o.print || con.format == term.JSON):
		return usagef("--group, --line-buffer, --ungroup and --tag cannot be used with --print or --json")
	}
	return nil
}
