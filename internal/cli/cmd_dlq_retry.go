package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/dlq"
	"prodigy/internal/filter"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

type dlqRetryOptions struct {
	jobOptions
	echo    echoOptions
	filter  string
	where   string
	cluster int // 1 is the largest; 0: not given
	canary  int
	rate    limit.Rate
	typ     retry.Type
	items   []string
	force   bool
	dryRun  bool
	reduce  bool
	with    string
	fleet   fleetOptions
}

func newDLQRetryCommand(con *console) *cobra.Command {
	var o dlqRetryOptions
	cmd := &cobra.Command{
		Use:   "retry [job] [item...]",
		Short: "Run dead letters again; those that succeed are removed",
		Long: `Run dead letters again: all of them, or those that the arguments and flags choose. Those that succeed are removed.

The exit code is about those that were chosen: 0 when all of them have succeeded, 3 when one of them is left, because it failed again or is not
eligible, or when reduce is older than the results. Others in the queue do not count; the last line says how many there are.`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeRetry,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"where", "filter"} {
				if f := cmd.Flags().Lookup(name); f.Changed && strings.TrimSpace(f.Value.String()) == "" {
					return usagef("--%s is empty: leave it out to run all dead letters", name) // of a variable that is not set
				}
			}
			return o.fleet.find(cmd)
		},
	}
	onItems(cmd, func(ctx context.Context, job jobs.Job, items []string) error {
		o.items = append(o.items, items...)
		return runDLQRetry(ctx, con, job, o)
	})
	o.add(cmd)
	f := cmd.Flags()
	addMaxParallel(cmd, &o.maxParallel)
	o.fleet.add(cmd)
	o.echo.add(cmd, "")
	f.Var(parallelFlag(&o.maxParallel), "parallel", "how many agents run at once")
	_ = f.MarkHidden("parallel") // its former name
	f.StringVar(&o.filter, "filter", "", "only items that match this expression")
	f.StringVar(&o.where, "where", "", "only dead letters that match this expression over "+strings.Join(letterNames(), ", "))
	f.Var(positive(&o.cluster), "cluster", "only those of one signature: its number in dlq analyze")
	f.Var(rateFlag(&o.rate), "rate", "how often an agent may start at most in this retry, such as 5/s; by default what the workflow says")
	f.Var(positive(&o.canary), "canary", "first run so many, and the others only if all of these succeed")
	addErrorType(cmd, &o.typ)
	f.Var(repeated(&o.items), "item", "only this item (may be given more than once)")
	_ = cmd.RegisterFlagCompletionFunc("item", completeLetters)
	f.Var(positive(&o.maxRetries), "max-retries", "how often a dead letter may be retried")
	f.BoolVar(&o.force, "force", false, "also retry those that are not eligible")
	f.BoolVar(&o.dryRun, "dry-run", false, "show which would be run, and run nothing")
	f.StringVar(&o.replacement, "workflow", "", "continue with this file from now on, in which the cause is mended; finished steps must be unchanged")
	f.Var(repeated(&o.set), "set", "in this retry another value of a parameter or variable of the workflow, as NAME=VALUE (may be given more than once)")
	f.StringVar(&o.with, "with", "", "take this commit of the repository as the work of the one --item, and merge it: no agent runs")
	f.BoolVar(&o.reduce, "reduce", false, "then run the reduce phase over all results")
	return cmd
}

func runDLQRetry(ctx context.Context, con *console, job jobs.Job, o dlqRetryOptions) (err error) {
	if o.items, err = labelsOf(job).idsOf(o.items); err != nil {
		return err
	}
	if o.with != "" {
		if len(o.items) != 1 {
			return usagef("--with takes one --item, whose work the commit is")
		}
		o.force = true
	}
	choice, err := newLetterChoice(o, job)
	if err != nil {
		return err
	}
	if o.dryRun {
		replacement, w, err := o.workflowOf(job)
		if err != nil {
			return err
		}
		if len(o.set) > 0 {
			if _, err := resolveAgain(ctx, job, w, replacement, o.set); err != nil {
				return err
			}
		}
		updateLetters(con, job)
		return o.announce(con, choice)
	}
	conclude := func(con *console, e finishedRun) error { return o.concludeRetry(con, e, choice) }
	return o.again(ctx, con, job, o.fleet, o.echo, conclude, func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
		c.With, c.Canary, c.Rate = o.with, o.canary, o.rate
		return mapreduce.RetryDead(ctx, c, job, func(q *dlq.Queue) ([]string, error) {
			if err := choice.make(q.Each(), nil); err != nil {
				return nil, err
			}
			if kept := len(choice.named) - len(choice.items); kept > 0 && !o.quiet {
				c.Notice(fmt.Sprintf("warning: %s not eligible, left as before: %s", term.Counted(kept, "dead letter"), choice.kept))
			}
			return choice.items, nil
		}, o.reduce)
	})
}

// letterChoice selects the dead letters to retry.
type letterChoice struct {
	options dlqRetryOptions
	job     jobs.Job
	filter  *filter.Filter // nil: none
	where   *filter.Filter // nil: none
	cluster string         // the signature of --cluster

	total int             // dead letters of the job
	named map[string]bool // selected by --item, --type, --filter, --where and --cluster
	items []string        // the ones to run
	kept  reasons         // why others of the named are not run
}

// reasons counts why dead letters are not eligible for a retry.
type reasons struct {
	spent int // retried too often
	limit int // how often that is
	types map[retry.Type]int
}

// String returns the reasons, each with the flag that overrides it.
func (r reasons) String() string {
	var parts []string
	if r.spent > 0 {
		parts = append(parts, fmt.Sprintf("%d retried %s already (a higher --max-retries or --force runs them)", r.spent, term.Counted(r.limit, "time")))
	}
	for _, t := range slices.Sorted(maps.Keys(r.types)) {
		parts = append(parts, fmt.Sprintf("%d failed with %s, which a retry does not mend (--workflow with the mended file or --force runs them)", r.types[t], t))
	}
	return strings.Join(parts, "; ")
}

func newLetterChoice(o dlqRetryOptions, job jobs.Job) (*letterChoice, error) {
	c := &letterChoice{options: o, job: job, named: map[string]bool{}, kept: reasons{limit: o.maxRetries, types: map[retry.Type]int{}}}
	var err error
	if o.filter != "" {
		if c.filter, err = filter.Parse(o.filter); err != nil {
			return nil, refusef("--filter: %w", err)
		}
	}
	if o.where == "" {
		return c, nil
	}
	if c.where, err = filter.Parse(o.where); err != nil {
		return nil, refusef("--where: %w", err)
	}
	for _, path := range c.where.Paths {
		if err := checkLetterPath(path); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// letterNames returns the names in an expression of --where.
func letterNames() []string {
	return []string{"item", "item_id", "error.type", "error.message", "error.step", "error.exit_code", "error.signature", "failures", "retries"}
}

// checkLetterPath refuses a path in --where that is neither one of letterNames nor below item.
func checkLetterPath(path []string) error {
	if len(path) > 0 && path[0] == "item" {
		return nil
	}
	name := strings.Join(path[:min(len(path), 2)], ".")
	if !slices.Contains(letterNames(), name) {
		return refusef("--where: there is no %s: an expression is over %s", name, strings.Join(letterNames(), ", "))
	}
	return nil
}

// letterValues returns the values of letterNames.
func letterValues(e dlq.Entry) (map[string]json.RawMessage, error) {
	last := e.Last()
	values := map[string]json.RawMessage{"item": e.Item}
	for name, v := range map[string]any{
		"item_id": e.ItemID, "failures": e.FailureCount, "retries": e.RetryCount,
		"error": map[string]any{"type": last.ErrorType, "message": last.Message, "step": last.Step, "exit_code": last.ExitCode, "signature": e.ErrorSignature},
	} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		values[name] = raw
	}
	return values, nil
}

// findCluster finds the signature of --cluster among all dead letters.
func (c *letterChoice) findCluster(all iter.Seq2[dlq.Entry, error]) error {
	n := c.options.cluster
	if n == 0 {
		return nil
	}
	var groups dlq.Analysis
	for e, err := range all {
		if err != nil {
			return err
		}
		groups.Add(e)
	}
	clusters := groups.BySignature()
	if n > len(clusters) {
		return refusef("--cluster %d: there are %d (prodigy dlq analyze %s numbers them)", n, len(clusters), c.job.ID)
	}
	c.cluster = clusters[n-1].Signature
	return nil
}

// make chooses among all dead letters and calls chosen, if not nil, for each one to run.
func (c *letterChoice) make(all iter.Seq2[dlq.Entry, error], chosen func(dlq.Entry)) error {
	if err := c.findCluster(all); err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, id := range c.options.items {
		missing[id] = true
	}
	for e, err := range all {
		if err != nil {
			return err
		}
		delete(missing, e.ItemID)
		c.total++
		asked, err := c.asked(e)
		if err != nil {
			return err
		}
		if !asked {
			continue
		}
		c.named[e.ItemID] = true
		if !c.eligible(e) {
			continue
		}
		c.items = append(c.items, e.ItemID)
		if chosen != nil {
			chosen(e)
		}
	}
	for _, id := range c.options.items {
		if missing[id] {
			return refusef("no dead letter %q in job %s (prodigy dlq list --job-id %s lists them)", id, c.job.ID, c.job.ID)
		}
	}
	return nil
}

// asked reports whether the flags select e.
func (c *letterChoice) asked(e dlq.Entry) (bool, error) {
	named := len(c.options.items) == 0 || slices.Contains(c.options.items, e.ItemID)
	typed := c.options.typ == "" || e.Last().ErrorType == c.options.typ
	if !named || !typed || c.filter != nil && !c.filter.Match(e.Item) || c.options.cluster > 0 && e.ErrorSignature != c.cluster {
		return false, nil
	}
	if c.where == nil {
		return true, nil
	}
	values, err := letterValues(e)
	return err == nil && c.where.MatchNamed(values), err
}

// eligible reports whether e may be retried, and counts why not. A higher --max-retries makes entries eligible that were only retried
// too often, and another workflow those whose failure lies in the workflow.
func (c *letterChoice) eligible(e dlq.Entry) bool {
	if c.options.force {
		return true
	}
	if e.RetryCount >= c.options.maxRetries {
		c.kept.spent++
		return false
	}
	switch t := e.Last().ErrorType; t {
	case retry.TypePermission, retry.TypeCommandNotFound, retry.TypeTemplate:
		if !e.ReprocessEligible && c.options.replacement == "" {
			c.kept.types[t]++
			return false
		}
	}
	return true
}

// announce prints what would be run.
func (o dlqRetryOptions) announce(con *console, c *letterChoice) error {
	out := bufio.NewWriter(con.text())
	names := labelsOf(c.job)
	err := c.make(dlq.Each(c.job.DLQFile()), func(e dlq.Entry) {
		if o.format != term.JSON {
			_, _ = fmt.Fprintf(out, "would run %s%s: %s\n", e.ItemID, inBrackets(names.label(e.ItemID, con.secrets.item(e.Item))), term.Brief(e.Last().Message, 120))
		}
	})
	if err != nil {
		return err
	}
	kept := len(c.named) - len(c.items)
	if o.format == term.JSON {
		return term.PrintJSON(con.out, map[string]any{"would_run": append([]string{}, c.items...), "not_eligible": kept})
	}
	if o.canary > 0 && o.canary < len(c.items) {
		_, _ = fmt.Fprintf(out, "the first %d, and the others only if these succeed\n", o.canary)
	}
	_, _ = fmt.Fprintf(out, "%d would be run, %d are not eligible", len(c.items), kept)
	if kept > 0 {
		_, _ = fmt.Fprintf(out, ": %s", c.kept)
	}
	_, _ = fmt.Fprintln(out)
	return out.Flush()
}

// nothing reports that there is nothing to run, and why.
func (o dlqRetryOptions) nothing(con *console, c *letterChoice, reduceStale, reduceHeld bool) error {
	job, left := c.job, len(c.named)
	code := exitOK
	if left > 0 && !o.partialOK || reduceStale || reduceHeld {
		code = exitLeft
	}
	if o.format == term.JSON {
		r := retried{outcome: outcome{JobID: job.ID, ReduceStale: reduceStale, ReduceHeld: reduceHeld, ExitCode: code, Events: job.EventsDir(), DLQ: job.DLQFile()}, Left: left, Others: c.total - left}
		if err := term.PrintJSON(con.out, r); err != nil {
			return err
		}
	} else if !o.quiet {
		switch {
		case left > 0:
			_, _ = fmt.Fprintf(con.err, "No dead letter was run: %s.\n", c.kept)
		case c.total > 0:
			_, _ = fmt.Fprintf(con.err, "None of %s fits the flags that choose among them.\n", term.Counted(c.total, "dead letter"))
		default:
			_, _ = fmt.Fprintln(con.err, "There are no dead letters to run.")
		}
		if reduceHeld {
			_, _ = fmt.Fprintln(con.err, reduceHeldText)
			printNext(con.err, []string{runReduce(job)})
		}
		if reduceStale {
			_, _ = fmt.Fprintln(con.err, reduceStaleText)
			printNext(con.err, []string{runReduce(job)})
		}
	}
	return status(code)
}

// retried is what dlq retry --json prints.
type retried struct {
	outcome
	Reprocessed int `json:"reprocessed"`
	Recovered   int `json:"recovered"`
	Left        int `json:"left"`   // of those that were asked for
	Others      int `json:"others"` // dead letters that were not asked for
}

// concludeRetry prints how a retry of dead letters ended and returns its exit code as an error.
func (o dlqRetryOptions) concludeRetry(con *console, e finishedRun, c *letterChoice) error {
	if e.State == "" {
		return o.nothing(con, c, e.ReduceStale, e.ReduceHeld)
	}
	left, others, err := c.left()
	if err != nil {
		return err
	}
	code := o.retryCode(e, left)
	if !o.quiet || code != exitOK {
		e.printFailures(con)
		rest := ""
		if others > 0 {
			rest = fmt.Sprintf("; %s not among those chosen", term.Counted(others, "dead letter"))
		}
		_, _ = fmt.Fprintf(con.err, "%s run again, %d succeeded, %d left%s\n", term.Counted(e.Reprocessed, "dead letter"), e.Recovered, left, rest)
		e.print(con)
	}
	if o.format == term.JSON {
		r := retried{outcome: e.outcome(code), Reprocessed: e.Reprocessed, Recovered: e.Recovered, Left: left, Others: others}
		if err := term.PrintJSON(con.out, r); err != nil {
			return err
		}
	}
	return status(code)
}

// left counts the dead letters in the queue: those that were selected, and others.
func (c *letterChoice) left() (selected, others int, err error) {
	ids, err := dlq.IDs(c.job.DLQFile())
	for _, id := range ids {
		if c.named[id] {
			selected++
		} else {
			others++
		}
	}
	return selected, others, err
}

// retryCode returns the exit code. It depends on the dead letters and on reduce only, not on items of the job that were skipped before or never
// ran.
func (o dlqRetryOptions) retryCode(e finishedRun, left int) int {
	done := e.State == mapreduce.Completed || e.State == mapreduce.Paused && e.stop == nil
	switch {
	case !done:
		return resultCode(e.Result, e.stop, o.partialOK)
	case left > 0 && !o.partialOK, e.ReduceStale, e.ReduceHeld, e.State == mapreduce.Paused && o.reduce:
		return exitLeft
	}
	return exitOK
}

// rateFlag is a flag that takes a limit of starts.
func rateFlag(at *limit.Rate) pflag.Value {
	show := func(r limit.Rate) string {
		if r.Count == 0 {
			return ""
		}
		return r.String()
	}
	return value[limit.Rate]{at, "rate", limit.ParseRate, show}
}
