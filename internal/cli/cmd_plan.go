package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/reuse"
	"prodigy/internal/settings"
	"prodigy/internal/simulate"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

// newPlanCommand returns the command that prints what a run would do.
func newPlanCommand(con *console) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "plan <workflow>",
		Short: "Show what a run would do, without running it",
		Long: `Show what a run would do, without running it: items, commands for the first item, retry schedules,
and worst-case durations of an item and of the job.

Values known only at run time, such as the output of earlier steps, are shown as placeholders. The
keys of --json are stable; durations without a limit are omitted. With --fleet, also shows which
workers could run the items now.`,
		Example:           "  prodigy plan workflow.yml",
		Args:              exactly("workflow"),
		ValidArgsFunction: completeWorkflow,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.path = args[0]
			if err := o.fleet.brokerOptions.find(); err != nil {
				return err
			}
			return runPlan(cmd.Context(), con, o)
		},
	}
	addFormat(cmd, &o.format, term.JSON)
	addMaxDelay(cmd, &o.maxDelay)
	addMaxParallel(cmd, &o.maxParallel)
	addMaxCost(cmd, &o.maxCost)
	o.settings.add(cmd)
	o.settings.addWorkspace(cmd)
	o.since.add(cmd)
	o.fleet.addWorkers(cmd, "plan for the workers of this broker")
	return cmd
}

// printPlannedSpace prints the workspaces that a run would make, with the disk space that they take.
func printPlannedSpace(s simulate.PlannedSpace, l term.Lines) {
	if s.Refused != "" {
		l.Printf("%s (the run would fail)", term.Visible(s.Refused))
		return
	}
	size := "of " + check.Counted(s.Files, "file")
	if s.Bytes > 0 {
		size += fmt.Sprintf(", about %s each and %s in total", onDisk(s.Bytes), onDisk(s.Bytes*int64(s.Number)))
	}
	l.Printf("workspaces: up to %d at %s%s, %s", s.Number, s.Base[:min(len(s.Base), 10)],
		term.Prefixed(" of ", term.Visible(s.Branch)), size)
}

// onDisk returns a size in words.
func onDisk(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%d kB", (n+999)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// runPlan prints the plan of a run with these options. It reads the items and asks the broker, but runs no command and
// creates no job.
func runPlan(ctx context.Context, con *console, o runOptions) error {
	c := o.checkedAs()
	c.Environ = os.Environ()
	w, err := load(ctx, o.path, c, o.settings, settings.ToPlan)
	if err != nil {
		printNote(con.say(), w.elsewhere()) // where files were looked for
		return err
	}
	o.fleet = o.fleet.forWorkflow(w.Workflow)
	if c.OnFleet = o.fleet.wanted(); c.OnFleet {
		if err := o.fleet.check(con, w.Workflow, true); err != nil {
			return err
		}
	}
	con.hide(w.settings.Mask)
	c.Settings, c.Dir, c.AllowDirty, c.WorkRoot = w.settings, w.dir, o.allowDirty, workRoot()
	slots := mapreduce.Slots(c, w.Workflow)
	space, err := simulate.PlanWorkspace(ctx, c, w.Workflow, slots)
	if err != nil {
		return err
	}
	t, err := findTools(w.Workflow, noSteps)
	if err != nil {
		return err
	}
	c.Home, c.Since = t.home, o.since.Since
	earlier, note, err := reuse.Compare(c.Reuse(), w.Workflow)
	if err != nil {
		return err
	}
	in, err := reuse.OpenInput(c.Reuse(), w.Workflow)
	refused, isRefused := errors.AsType[*job.RefusedError](err)
	if err != nil && !isRefused {
		return err
	}
	if in != nil {
		defer check.Quietly(in.Close)
	}
	workers := planFleetOf(ctx, con, o.fleet, w.Workflow, t)
	if workers != nil {
		slots = workers.SlotsOf(slots, mapreduce.OpenSlots(c, w.Workflow))
	}
	made := simulate.PlanInput{
		Workflow: w.Workflow, Settings: w.settings, Dir: w.dir, Environ: os.Environ(), Space: space, Slots: slots,
		Earlier: earlier, From: in,
	}
	if !term.Is(os.Stdin) {
		made.Stdin = os.Stdin
	}
	p, warnings, err := simulate.MakePlan(ctx, made)
	if err != nil {
		return selectionError(err)
	}
	if p.Fleet = workers; p.Items != nil {
		p.Requires = o.fleet.labels(w.Workflow)
	}
	if isRefused {
		p.Items.Refused = strings.TrimPrefix(refused.Reason, "input: ")
	}
	p.Cost = simulate.PlanCost(w.Workflow, t.agents, o.maxCost, p.Items)
	printProblems(con.say(), slices.Concat(w.warnings, warnings,
		t.agents.WarnOfPermissions(w.Workflow, t.claude, agent.ReadsPrompt(t.claude[0]))), "warning: ")
	printNote(con.say(), w.elsewhere())
	printNote(con.say(), note)
	if o.format == term.JSON {
		return term.PrintJSON(con.out, p)
	}
	printPlan(p, con.lines())
	return nil
}

// selectionError returns an error of the selection. A bad key is a usage error, and so is a path with one that is not there.
func selectionError(err error) error {
	if items.Mistaken(err) {
		return refusef("%w", err)
	}
	return err
}

// planWidth is the maximum width of a line about an item.
const planWidth = 80

// printPlan prints a plan for people: the items, the steps of each section, and the worst cases.
func printPlan(p simulate.Plan, l term.Lines) {
	l.Printf("workflow: %s (mode %s)", p.Workflow, p.Mode)
	if p.Items != nil {
		printPlannedItems(*p.Items, l)
		if p.Fleet == nil {
			l.Printf("slots: %d", p.MaxParallel)
		} else {
			printPlannedFleet(p.Fleet, l, p.MaxParallel)
		}
		printRate(l, p.Rate)
		for _, text := range slices.Concat(p.StepRates, p.Rollout) {
			l.Print(term.Visible(text))
		}
		if p.Stragglers != "" {
			l.Print(term.Visible(p.Stragglers))
		}
	}
	if len(p.Requires) > 0 {
		l.Printf("requires: %s", strings.Join(p.Requires, ", "))
	}
	if p.Workspace != nil {
		printPlannedSpace(*p.Workspace, l)
	}
	section := ""
	for _, s := range p.Steps {
		if s.Section != section {
			section = s.Section
			l.Printf("%s:", headingInPlan(p, section))
		}
		printPlannedStep(s, l)
	}
	if p.Items != nil {
		l.Printf("each item: %s%s", upTo(p.ItemRuns), schedule(p.ItemDelays))
		l.Printf("worst-case retry delay per item: %s", spell(*p.WorstWaiting))
		if p.WorstStarts > 0 && p.ItemRuns > 1 {
			l.Printf("worst-case starts: %s of items", check.Counted(p.WorstStarts, "attempt"))
		}
		if p.LeastByRate != nil && *p.LeastByRate > 0 {
			l.Printf("minimum duration due to the rate limit: %s", spell(*p.LeastByRate))
		}
	}
	printWorst(p, l)
	if p.Cost != nil {
		printPlannedCost(*p.Cost, l)
	}
	l.Print("nothing was run")
}

// printWorst prints the longest times of an item, the map phase and the job.
func printWorst(p simulate.Plan, l term.Lines) {
	line := func(what string, d *events.Millis, of string) {
		if d != nil {
			l.Printf("worst case of %s: %s%s", what, spell(*d), of)
		}
	}
	line("an item", p.WorstItem, "")
	if p.Items != nil && p.Items.Total != nil {
		line("the map", p.WorstMap, fmt.Sprintf(" (%s in %s)", check.Counted(*p.Items.Total, "item"),
			check.Counted(p.MaxParallel, "slot")))
	}
	line("the job", p.WorstJob, "")
	switch {
	case p.Unlimited != "":
		l.Printf("worst case of the job: unlimited, because %s has no timeout", p.Unlimited)
	case p.WorstJob == nil && p.Items != nil && p.MaxParallel == 0:
		l.Print("worst case of the job: depends on the workers")
	case p.WorstJob == nil:
		l.Print("worst case of the job: depends on the number of items")
	}
}

// headingInPlan returns the heading of a section; for the map phase it names the item whose commands are shown.
func headingInPlan(p simulate.Plan, section string) string {
	if (section == "reduce" || section == "merge") && len(p.ReduceWhen) > 0 {
		return section + ", when " + strings.Join(p.ReduceWhen, " and ")
	}
	if section == "map" && len(p.Items.First) > 0 {
		return "map, as for " + p.Items.First[0].ID
	}
	return section
}

// printPlannedItems prints where the items come from and the first of them, or why they are not known yet.
func printPlannedItems(p simulate.PlannedItems, l term.Lines) {
	if p.Refused != "" {
		l.Printf("items: from %s: %s (the run would fail)", term.Visible(p.Source),
			term.Visible(p.Refused))
		return
	}
	if p.Total == nil && p.Source == items.Stdin {
		l.Print("items: from stdin (a terminal, not read)")
		return
	}
	source := term.Visible(p.Source)
	if p.Kind == "glob" {
		source = "the glob " + source
	}
	if p.Made != "" {
		l.Printf("items: from %s, which %s", source, p.Made)
		return
	}
	if p.Total == nil {
		l.Printf("items: from a command (not run): %s", term.Visible(p.Source))
		return
	}
	which := ""
	if p.Job != "" {
		which = fmt.Sprintf(" (%s)", p.Select)
	}
	l.Printf("items: %d from %s%s", *p.Total, source, which)
	if p.Since != nil {
		l.Printf("since %s: %s", p.Since.JobID, term.Visible(view.Difference(*p.Since)))
	}
	if *p.Total == 0 {
		l.Print("  nothing to do: reduce and merge would be skipped")
	}
	for _, it := range p.First {
		line := fmt.Sprintf("  %s  %s", it.ID, it.Data)
		l.Print(term.Brief(line, planWidth))
	}
	if more := *p.Total - len(p.First); more > 0 {
		l.Printf("  and %d more", more)
	}
}

// printPlannedStep prints a step with its retries, and its command as it would be for the first item.
func printPlannedStep(s simulate.PlannedStep, l term.Lines) {
	l.Printf("  %s: %s%s", s.Step, upTo(s.Runs), schedule(s.Delays))
	for _, detail := range detailsInPlan(s) {
		l.Printf("    (%s)", detail)
	}
	for line := range strings.SplitSeq(strings.TrimRight(s.Command, "\n"), "\n") {
		l.Printf("      %s", term.Visible(line))
	}
}

// detailsInPlan returns the condition, timeout and retry rules of a step, in words.
func detailsInPlan(s simulate.PlannedStep) []string {
	var all []string
	if s.Description != "" {
		all = append(all, term.Visible(strings.TrimSpace(s.Description)))
	}
	if s.When != "" {
		all = append(all, "when "+term.Visible(strings.TrimSpace(s.When)))
	}
	if s.Timeout > 0 {
		all = append(all, "timeout "+spell(s.Timeout))
	}
	if len(s.Least) > 0 {
		all = append(all, "waiting at least"+spread(s.Least))
	}
	if len(s.RetryOn) > 0 {
		all = append(all, "retried only on "+strings.Join(s.RetryOn, ", "))
	}
	return all
}

// scheduleShown is the number of delays of a schedule that are printed.
const scheduleShown = 10

// schedule prints the delays before retries.
func schedule(all []events.Millis) string {
	if len(all) == 0 {
		return ""
	}
	return ", waiting at most" + spread(all) + fmt.Sprintf(" (total %s)", spell(sum(all)))
}

// spread prints the first delays.
func spread(all []events.Millis) string {
	var b strings.Builder
	for _, d := range all[:min(len(all), scheduleShown)] {
		b.WriteString(" " + spell(d))
	}
	if len(all) > scheduleShown {
		b.WriteString(" …")
	}
	return b.String()
}

// spell prints a duration exactly.
func spell(d events.Millis) string { return duration.Exact(time.Duration(d)) }

// sum returns the total of delays.
func sum(all []events.Millis) events.Millis {
	var total events.Millis
	for _, d := range all {
		total += d
	}
	return total
}

// upTo prints a maximum number of runs.
func upTo(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("up to %d runs", n)
}

// printRate prints the limit of starts of a workflow, if it has one.
func printRate(l term.Lines, rate string) {
	if rate != "" {
		l.Printf("starts: at most %s", term.Visible(rate))
	}
}

// printPlannedCost prints the most that AI agents can cost, as far as that is limited, and what limits each of them.
func printPlannedCost(c simulate.PlannedCost, l term.Lines) {
	line := func(what string, u *limit.USD, of string) {
		if u != nil {
			l.Printf("worst cost of %s: %s%s", what, *u, of)
		}
	}
	line("an item", c.Item, "")
	line("the map", c.Map, " ("+check.Counted(c.Items, "item")+")")
	switch {
	case c.Job == nil:
		l.Print("worst cost of the job: unlimited (set budget, max_cost or --max-cost)")
	case c.IsBudget && c.Item == nil:
		line("the job", c.Job, ", the budget; without max_cost per item, running agents may exceed it")
	case c.IsBudget:
		line("the job", c.Job, ", the budget")
	default:
		line("the job", c.Job, "")
	}
	for name, by := range check.ByKey(c.By) {
		l.Printf("  %s is limited by %s", term.Visible(name), by)
	}
}
