package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/limit"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// planWidth is the maximum width of a line about an item.
const planWidth = 80

// Print prints a plan for people: the items, the steps of each section, and the worst cases.
func (p Plan) Print(l term.Lines) {
	l.Printf("workflow: %s (mode %s)", p.Workflow, p.Mode)
	if p.Items != nil {
		p.Items.print(l)
		if p.Fleet == nil {
			l.Printf("slots: %d", p.MaxParallel)
		} else {
			p.Fleet.print(l, p.MaxParallel)
		}
		texts := slices.Concat([]string{term.Prefixed("starts: at most ", p.Rate)}, p.StepRates, p.Rollout,
			[]string{p.Stragglers})
		for _, text := range texts {
			l.Tell("", term.Visible(text))
		}
	}
	l.Tell("requires: ", strings.Join(p.Requires, ", "))
	if p.Workspace != nil {
		p.Workspace.print(l)
	}
	section := ""
	for _, s := range p.Steps {
		if s.Section != section {
			section = s.Section
			l.Printf("%s:", p.heading(section))
		}
		s.print(l)
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
	p.printWorst(l)
	if p.Cost != nil {
		p.Cost.print(l)
	}
	l.Print("nothing was run")
}

// printWorst prints the longest times of an item, the map phase and the job.
func (p Plan) printWorst(l term.Lines) {
	line := func(what string, d *Millis, of string) {
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
		l.Printf("worst-case duration: unlimited, because %s has no timeout", p.Unlimited)
	case p.WorstJob == nil && p.Items != nil && p.MaxParallel == 0:
		l.Print("worst-case duration: depends on the workers")
	case p.WorstJob == nil:
		l.Print("worst-case duration: depends on the number of items")
	}
}

// heading returns the heading of a section; for the map phase it names the item whose commands are shown.
func (p Plan) heading(section string) string {
	switch {
	case (section == "reduce" || section == "merge") && len(p.ReduceWhen) > 0:
		return section + ", when " + strings.Join(p.ReduceWhen, " and ")
	case section == "map" && len(p.Items.First) > 0:
		return "map, as for " + p.Items.First[0].ID
	}
	return section
}

// print prints where the items come from and the first of them, or why they are not known yet.
func (p PlannedItems) print(l term.Lines) {
	source := term.Visible(p.Source)
	switch {
	case p.Refused != "":
		l.Printf("items: from %s: %s (the run would fail)", source, term.Visible(p.Refused))
		return
	case p.Total == nil && p.Source == items.Stdin:
		l.Print("items: from stdin (a terminal, not read)")
		return
	case p.Total == nil && p.Made == "":
		l.Printf("items: from a command (not run): %s", source)
		return
	}
	if p.Kind == "glob" {
		source = "the glob " + source
	}
	if p.Made != "" {
		l.Printf("items: from %s, which %s", source, p.Made)
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
		l.Print(term.Brief(fmt.Sprintf("  %s  %s", it.ID, it.Data), planWidth))
	}
	l.Tell("", check.Some("  and %d more", *p.Total-len(p.First)))
}

// print prints a step with its retries, and its command as it would be for the first item.
func (s PlannedStep) print(l term.Lines) {
	l.Printf("  %s: %s%s", s.Step, upTo(s.Runs), schedule(s.Delays))
	detail := func(prefix, text string) {
		if text != "" {
			l.Printf("    (%s%s)", prefix, text)
		}
	}
	detail("", term.Visible(strings.TrimSpace(s.Description)))
	detail("when ", term.Visible(strings.TrimSpace(s.When)))
	if s.Timeout > 0 {
		detail("timeout ", spell(s.Timeout))
	}
	detail("waiting at least", spread(s.Least))
	detail("retried only on ", strings.Join(s.RetryOn, ", "))
	for line := range strings.SplitSeq(strings.TrimRight(s.Command, "\n"), "\n") {
		l.Printf("      %s", term.Visible(line))
	}
}

// print prints the workspaces that a run would make, with the disk space that they take.
func (s PlannedSpace) print(l term.Lines) {
	if s.Refused != "" {
		l.Printf("%s (the run would fail)", term.Visible(s.Refused))
		return
	}
	size := "of " + check.Counted(s.Files, "file")
	if s.Bytes > 0 {
		size += fmt.Sprintf(", about %s each and %s in total", onDisk(s.Bytes), onDisk(s.Bytes*int64(s.Number)))
	}
	l.Printf("workspaces: up to %d at %s%s, %s", s.Number, events.ShortCommit(s.Base),
		term.Prefixed(" of ", term.Visible(s.Branch)), size)
}

// onDisk returns a size in words.
func onDisk(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%d kB", (n+999)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// plannedWorkers is how many workers of a kind a plan names.
const plannedWorkers = 10

// print prints the slots of the workers that could take part, and why others would not.
func (p PlannedFleet) print(l term.Lines, slots int) {
	var fit, unfit []string
	for _, n := range p.Workers {
		name := term.Visible(n.Name)
		switch {
		case n.Unfit != "":
			unfit = append(unfit, name+": "+term.Visible(n.Unfit))
		case n.Busy > 0:
			fit = append(fit, fmt.Sprintf("%s %s (%d busy)", name, check.Counted(n.Slots, "slot"), n.Busy))
		default:
			fit = append(fit, name+" "+check.Counted(n.Slots, "slot"))
		}
	}
	switch {
	case p.OfWorkers:
		l.Printf("slots: as provided by the workers, currently %d", slots)
	case len(fit) > 0 && p.Slots < p.Max:
		l.Printf("slots: %d, the workers currently provide %d", p.Max, p.Slots)
	default:
		l.Printf("slots: %d", p.Max)
	}
	found := check.Few(fit, plannedWorkers)
	switch {
	case p.Unreachable != "":
		found = p.Unreachable + " (the run would fail)"
	case len(fit) == 0:
		found = "no matching worker: the run would wait for one"
	}
	if p.Unreachable == "" {
		found = p.Broker + ": " + found
	}
	l.Printf("fleet: %s", term.Visible(found))
	l.Tell("workers not available for this job: ", check.Few(unfit, plannedWorkers))
}

// print prints the most that AI agents can cost, as far as that is limited, and what limits each of them.
func (c PlannedCost) print(l term.Lines) {
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
		l.Printf("  budget of %s: %s", term.Visible(name), by)
	}
}

// StepRuns is the maximum number of runs of one step, or of an item as a whole.
type StepRuns struct {
	Section string `json:"section"`
	Step    string `json:"step"`
	Kind    string `json:"kind"`
	Runs    int    `json:"runs"`
}

// RunsOf returns how often each step of w may run, and each item if it is retried as a whole.
func RunsOf(w *workflow.Workflow) []StepRuns {
	all := []StepRuns{}
	for at, step := range w.EachStep() {
		all = append(all, StepRuns{at.Section, at.Label, step.Kind(), TriesOf(step.Retry)})
	}
	if tries := TriesOf(w.ErrorPolicy.Retries()); tries > 1 {
		all = append(all, StepRuns{"map", "item", "item", tries})
	}
	return all
}

// String returns a line for people.
func (s StepRuns) String() string { return s.Section + ": " + s.Step + ": " + upTo(s.Runs) }

// upTo prints a maximum number of runs.
func upTo(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("up to %d runs", n)
}

// scheduleShown is the number of delays of a schedule that are printed.
const scheduleShown = 10

// schedule prints the delays before retries.
func schedule(all []Millis) string {
	if len(all) == 0 {
		return ""
	}
	var total Millis
	for _, d := range all {
		total += d
	}
	return fmt.Sprintf(", waiting at most%s (total %s)", spread(all), spell(total))
}

// spread prints the first delays, each after a space.
func spread(all []Millis) string {
	var b strings.Builder
	for _, d := range check.First(all, scheduleShown) {
		b.WriteString(" " + spell(d))
	}
	if len(all) > scheduleShown {
		b.WriteString(" …")
	}
	return b.String()
}

// spell prints a duration exactly.
func spell(d Millis) string { return duration.Exact(time.Duration(d)) }
