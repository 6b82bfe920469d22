package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/agent"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/settings"
	"prodigy/internal/spend"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

type planOptions struct {
	settings    settingOptions
	path        string
	format      term.Format
	maxDelay    time.Duration
	maxParallel int
	allowDirty  bool
	maxCost     spend.USD
	since       sinceOptions
	fleet       fleetOptions
}

func newPlanCommand(con *console) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan <workflow>",
		Short: "Show what a run would do, and run nothing",
		Long: `Show what a run would do, and run nothing: the items, the commands for the first item, how often each may run, the delays
before its retries, and how long an item and the whole job take at most.

What is only known at run time, such as the output of earlier steps, is shown as written. --json prints one object, whose keys
are stable; a time without a limit is left out. With --fleet the broker is asked for the workers that the items could run on now.`,
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
	o.fleet.addWorkers(cmd, "show the plan for the workers of this broker")
	return cmd
}

// plan is what a run would do.
type plan struct {
	Workflow     string        `json:"workflow"`
	Mode         workflow.Mode `json:"mode"`
	Items        *planItems    `json:"items,omitempty"`            // with a map phase
	MaxParallel  int           `json:"max_parallel,omitempty"`     // with a map phase; absent when it is up to the workers of a fleet, and none of them is known
	Requires     []string      `json:"requires,omitempty"`         // of the workers of a fleet
	Fleet        *planFleet    `json:"fleet,omitempty"`            // of a job on one
	Rate         string        `json:"rate,omitempty"`             // how often agents start at most
	LeastByRate  *millis       `json:"least_by_rate_ms,omitempty"` // how long the first starts of all items take because of that; absent when that is not known
	WorstStarts  int           `json:"worst_starts,omitempty"`     // attempts at items, when all their number is known
	StepRates    []string      `json:"step_rates,omitempty"`       // how often steps start at most
	Stragglers   string        `json:"stragglers,omitempty"`       // what becomes of attempts that take unusually long, in words
	Rollout      []string      `json:"rollout,omitempty"`          // its stages, in words
	Steps        []planStep    `json:"steps"`
	ReduceWhen   []string      `json:"reduce_when,omitempty"` // the conditions of reduce and merge
	ItemRuns     int           `json:"item_runs,omitempty"`   // with a map phase
	ItemDelays   []millis      `json:"item_delays_ms,omitempty"`
	WorstWaiting *millis       `json:"worst_waiting_per_item_ms,omitempty"` // with a map phase
	WorstItem    *millis       `json:"worst_per_item_ms,omitempty"`         // with a map phase; absent when nothing limits it
	WorstMap     *millis       `json:"worst_map_ms,omitempty"`              // absent when nothing limits it, or the number of items is not known
	WorstJob     *millis       `json:"worst_job_ms,omitempty"`              // the same
	Cost         *planCost     `json:"cost,omitempty"`                      // of AI agents; absent when there are none
	Workspace    *planSpace    `json:"workspace,omitempty"`                 // with workspaces
	Unlimited    string        `json:"unlimited,omitempty"`                 // the first step that nothing limits, if there is one
}

// planSpace is what the workspaces of a job would be.
type planSpace struct {
	Refused string `json:"refused,omitempty"` // why a run would be refused; then all else is unknown
	Base    string `json:"base,omitempty"`
	Branch  string `json:"branch,omitempty"` // that is checked out
	Number  int    `json:"number,omitempty"` // of workspaces, at most
	Files   int    `json:"files,omitempty"`  // of each
	Bytes   int64  `json:"bytes,omitempty"`  // of each, about; absent when not known
}

// planWorkspace returns what the workspaces of a run would be, or nil if it would have none.
func planWorkspace(ctx context.Context, c mapreduce.Config, w *workflow.Workflow, slots int) (*planSpace, error) {
	if !w.Workspace.Isolated() {
		return nil, nil
	}
	if w.Map == nil {
		slots = 0
	}
	start, err := mapreduce.StartOf(ctx, c, w, slots)
	if refused, ok := errors.AsType[*mapreduce.RefusedError](err); ok {
		return &planSpace{Refused: refused.Reason}, nil
	}
	if err != nil {
		return nil, err
	}
	number := slots + 1 // that of the job
	if c.OnFleet {
		number = 1 // the others are elsewhere
	}
	if w.Workspace.Verify != nil {
		number++
	}
	return &planSpace{Base: start.Base, Branch: start.Branch, Number: number, Files: start.Files, Bytes: start.Bytes}, nil
}

func (s planSpace) print(w io.Writer) {
	if s.Refused != "" {
		_, _ = fmt.Fprintf(w, "%s (a run would be refused)\n", term.Visible(s.Refused))
		return
	}
	size := "of " + term.Counted(s.Files, "file")
	if s.Bytes > 0 {
		size += fmt.Sprintf(", about %s each and %s in all", onDisk(s.Bytes), onDisk(s.Bytes*int64(s.Number)))
	}
	_, _ = fmt.Fprintf(w, "workspaces: up to %d at %s%s, %s\n", s.Number, s.Base[:min(len(s.Base), 10)], term.Prefixed(" of ", term.Visible(s.Branch)), size)
}

// onDisk returns a size in words.
func onDisk(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%d kB", (n+999)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// millis is a delay, in milliseconds.
type millis = events.Millis

// planItems are the items that a run would start with.
type planItems struct {
	Source  string             `json:"source"`
	Kind    string             `json:"kind,omitempty"`  // file, command, glob, stdin or job; absent: a list in the workflow
	Total   *int               `json:"total,omitempty"` // absent when a command or a terminal would have to be asked, or setup be run
	First   []items.Item       `json:"first"`
	Job     string             `json:"job,omitempty"`     // whose results are the items
	Select  workflow.Select    `json:"select,omitempty"`  // which of them
	Refused string             `json:"refused,omitempty"` // why they cannot be the items now
	Since   *events.Difference `json:"since,omitempty"`   // with --since: how they differ from those of the earlier job
	made    string             // not empty: what is not there, which setup may make
	fields  items.Fields
	notes   []string // what is hardly meant
}

// planStep is what would be run for one step.
type planStep struct {
	Section string   `json:"section"`
	Step    string   `json:"step"`
	Command string   `json:"command"` // for the first item, in the map phase; of a handler of failures: as it is written
	Runs    int      `json:"runs"`
	Timeout millis   `json:"timeout_ms,omitempty"` // of each run
	Delays  []millis `json:"delays_ms"`            // before each retry, at most
	Least   []millis `json:"delays_least_ms"`      // the same at least, where jitter spreads them
	RetryOn []string `json:"retry_on"`             // which failures are tried again; empty: any
	When    string   `json:"when,omitempty"`       // the condition of the step

	Description string `json:"description,omitempty"`
}

func runPlan(ctx context.Context, con *console, o planOptions) error {
	limit, err := delayCap(o.maxDelay)
	if err != nil {
		return err
	}
	c := mapreduce.Config{MaxDelay: limit, MaxParallel: o.maxParallel, Environ: os.Environ(), OnFleet: o.fleet.wanted()}
	w, err := load(ctx, o.path, c, o.settings, settings.ToPlan)
	if err != nil {
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
	space, err := planWorkspace(ctx, c, w.Workflow, slots)
	if err != nil {
		return err
	}
	t, err := findTools(w.Workflow, noSteps)
	if err != nil {
		return err
	}
	c.Home, c.Since = t.home, o.since.Since
	earlier, note, err := mapreduce.Compare(c, w.Workflow)
	if err != nil {
		return err
	}
	in, err := mapreduce.OpenInput(c, w.Workflow)
	refused, isRefused := errors.AsType[*mapreduce.RefusedError](err)
	if err != nil && !isRefused {
		return err
	}
	if in != nil {
		defer func() { _ = in.Close() }() // only read from
	}
	workers := planFleetOf(ctx, con, o.fleet, w.Workflow, t)
	if workers != nil {
		slots = workers.slots(slots, mapreduce.OpenSlots(c, w.Workflow))
	}
	p, err := makePlan(ctx, &w, space, slots, earlier, in)
	if err != nil {
		return err
	}
	if p.Fleet = workers; p.Items != nil {
		p.Requires = o.fleet.labels(w.Workflow)
	}
	if isRefused {
		p.Items.Refused = strings.TrimPrefix(refused.Reason, "input: ")
	}
	if p.Cost, err = planCostOf(w.Workflow, o.maxCost, p.Items); err != nil {
		return err
	}
	printProblems(con.err, slices.Concat(w.warnings, t.warnOfPermissions(w.Workflow)), "warning: ")
	printNote(con.err, w.elsewhere())
	printNote(con.err, note)
	if o.format == term.JSON {
		return term.PrintJSON(con.out, p)
	}
	p.print(con.text())
	return nil
}

func makePlan(ctx context.Context, w *checked, space *planSpace, slots int, earlier *mapreduce.Comparison, in *mapreduce.Input) (plan, error) {
	p := plan{Workflow: w.Name, Mode: w.Mode, Steps: []planStep{}, ReduceWhen: w.ReduceWhen.Conditions()}
	sample := agent.Attempt{Workflow: w.Name, Number: 1, Dir: w.dir}
	if w.Workspace.Isolated() {
		sample.Base = "HEAD" // or what it is by then
		if p.Workspace = space; space.Base != "" {
			sample.Base = space.Base
		}
		sample.Merge = &agent.MergeResult{Worktree: "<workspace>", SourceBranch: "prodigy/<job>", TargetBranch: space.Branch}
	}
	sample.Env, sample.Secrets, sample.Args = w.settings.Env, w.settings.Final, w.settings.Args
	if w.Map != nil {
		selected, err := planSelection(ctx, *w, earlier, in)
		if err != nil {
			return plan{}, err
		}
		if err := checkFields(w, selected.fields); err != nil {
			return plan{}, err
		}
		for _, note := range selected.notes {
			w.warnings = append(w.warnings, workflow.Problem{File: w.File, Line: w.Map.Input.Pos.Line, Col: w.Map.Input.Pos.Col, Message: note})
		}
		p.Items = &selected
		p.ItemRuns = triesOf(w.ErrorPolicy.Retries())
		p.ItemDelays = delays(w.ErrorPolicy.Retries())
		p.WorstWaiting = new(worstWaiting(*w))
		p.MaxParallel = slots
		p.Stragglers = stragglersOf(w.Workflow)
		p.Rate, p.StepRates, p.Rollout = rateOf(w.Workflow), stepRatesOf(w.Workflow), mapreduce.RolloutOf(w.Workflow.Map)
	}
	p.estimate(w.Workflow)
	for _, s := range sectionsOf(w.Workflow) {
		a := sample
		a.Phase, a.Steps = s.phase(), s.steps
		if s.handler() {
			a = handling(a, w.Workflow)
		}
		if a.Phase == "map" {
			a.PerValue, a.Batch = w.Map.ItemsFromArgs, w.Map.Batch > 0
			a.Producing = len(w.Map.Produces) > 0
			a = withFirst(a, *p.Items)
			if a.Producing && a.ItemID != "" {
				if paths, err := agent.Paths(w.Map.Produces); err == nil {
					a.Produces, _ = paths(a.ItemID, a.Item) // what is wrong with a path is what an attempt would fail by
				}
			}
		}
		steps, err := planSteps(a, s)
		if err != nil {
			return plan{}, err
		}
		p.Steps = append(p.Steps, steps...)
		if s.name != "map" {
			sample.Earlier = append(sample.Earlier, captures(s)...)
		}
	}
	return p, nil
}

// handling turns a, which holds the steps of a handler, into an attempt of the workflow with that handler.
func handling(a agent.Attempt, w *workflow.Workflow) agent.Attempt {
	a.Phase, a.Handler, a.Steps = "", a.Steps, w.Commands
	if w.Map != nil {
		a.Phase, a.Steps = "map", w.Map.AgentTemplate
	}
	return a
}

// withFirst returns a with the data of the first item, if there is one.
func withFirst(a agent.Attempt, selected planItems) agent.Attempt {
	if len(selected.First) == 0 {
		return a
	}
	it := selected.First[0]
	a.ItemID, a.ItemIndex, a.Item = it.ID, it.Index, it.Data
	a.ItemTotal = *selected.Total
	return a
}

func planSteps(a agent.Attempt, s section) ([]planStep, error) {
	render := agent.Render
	if s.handler() {
		render = agent.RenderHandler
	}
	commands, err := render(a)
	if err != nil {
		return nil, err
	}
	all := make([]planStep, 0, len(s.steps))
	eachStep(stepRef{section: s.name, handler: s.handler()}, s.steps, func(at stepRef, step workflow.Step) bool {
		all = append(all, plannedStep(s.name, at.label, commands[0], step))
		commands = commands[1:]
		return true
	})
	return all, nil
}

// plannedStep returns the plan of one step.
func plannedStep(section, label, command string, s workflow.Step) planStep {
	p := planStep{
		Section: section, Step: label, Command: command, Runs: triesOf(s.Retry), Timeout: millis(s.Timeout),
		Delays: delays(s.Retry), Least: []millis{}, RetryOn: []string{}, Description: s.Description,
	}
	if s.When != nil {
		p.When = s.When.Value
	}
	if s.Retry == nil {
		return p
	}
	for _, m := range s.Retry.RetryOn {
		p.RetryOn = append(p.RetryOn, m.String())
	}
	if s.Retry.Jitter != retry.NoJitter {
		for _, d := range s.Retry.Spreads() {
			p.Least = append(p.Least, millis(d.From))
		}
	}
	return p
}

// estimate fills in the longest time that an item, the map phase and the job can take.
func (p *plan) estimate(w *workflow.Workflow) {
	job := costOfOnce(w)
	known := p.Items == nil || p.Items.Total != nil
	if p.Items != nil {
		item := costOfItem(w)
		p.WorstItem = item.worst()
		if known {
			all := costOfMap(w, *p.Items.Total, max(p.MaxParallel, 1))
			p.WorstStarts = *p.Items.Total * p.ItemRuns
			if limit := w.Map.Rate.Limit; limit.Count > 0 {
				all = all.plus(cost{time: limit.Least(p.WorstStarts * turnsOf(w.Map.AgentTemplate))})
				if w.Map.Rate.Per == nil {
					p.LeastByRate = new(millis(limit.Least(*p.Items.Total)))
				}
			}
			p.WorstMap = all.worst()
			item = all
		}
		job = item.plus(job)
	}
	p.Unlimited = job.unlimited
	if w.Workspace.Isolated() && w.Workspace.Verify != nil {
		p.WorstMap, known = nil, false // nobody knows how often it is verified
	}
	if w.Map != nil && p.MaxParallel == 0 {
		p.WorstMap, known = nil, false // nobody knows how many there will be at once
	}
	if known {
		p.WorstJob = job.worst()
	}
}

// turnsOf returns how many turns of the limit of starts an attempt takes at most: its own, and one for each retry of its steps.
func turnsOf(steps []workflow.Step) int {
	turns := 1
	for _, s := range steps {
		turns += triesOf(s.Retry) - 1
	}
	return turns
}

// worst returns the longest time, or nil if there is no limit.
func (c cost) worst() *millis {
	if c.unlimited != "" {
		return nil
	}
	return new(millis(c.time))
}

// captures returns the names that the steps of a section capture; the values are only known at run time.
func captures(s section) []events.StepCompleted {
	var names []events.StepCompleted
	for _, step := range s.steps {
		if step.Capture != "" {
			names = append(names, events.StepCompleted{
				Phase: s.name, Kind: step.Kind(), Capture: step.Capture, CaptureFormat: string(step.Format),
			})
		}
	}
	return names
}

// firstItems is how many items a plan shows.
const firstItems = 5

func planSelection(ctx context.Context, w checked, earlier *mapreduce.Comparison, in *mapreduce.Input) (planItems, error) {
	env := items.Env{Dir: w.dir, Environ: w.settings.Environ(os.Environ()), Fill: w.settings.Fill, Stdin: os.Stdin, Secret: w.settings.Mask.Holds}
	if in != nil {
		env.Results = in.Results
	}
	source, kind, free := items.Source(w.Map.Input, env)
	selected := planItems{Source: source, Kind: kind, First: []items.Item{}}
	env.Warn = func(text string) { selected.notes = append(selected.notes, text) }
	if in != nil {
		selected.Source, selected.Job, selected.Select = "the results of job "+in.Job.ID, in.Job.ID, in.Select()
	}
	if !free || w.Map.Input.Stdin && term.Is(os.Stdin) {
		return selected, nil
	}
	if w.Setup != nil && len(items.CheckInput(w.Map, env)) > 0 {
		selected.made = "does not exist yet: setup, which was not run, may create it"
		return selected, nil
	}
	total := 0
	for it, err := range items.Select(ctx, w.Map, env) {
		if _, empty := errors.AsType[*items.EmptyError](err); empty && w.Setup != nil {
			selected.made = "has no items yet: setup, which was not run, may make some"
			return selected, nil
		}
		if err != nil {
			return planItems{}, planError(err)
		}
		if earlier != nil {
			wanted, err := earlier.Add(it)
			if err != nil {
				return planItems{}, err
			}
			if !wanted {
				continue
			}
		}
		selected.fields.Add(it.Data)
		if total++; total <= firstItems {
			it.Data = bytes.Clone(it.Data)
			selected.First = append(selected.First, it)
		}
	}
	selected.Total = &total
	if earlier != nil {
		selected.Since = new(earlier.Difference())
	}
	return selected, nil
}

// checkFields returns an error for the placeholders of w that name a field which none of the items has, and adds warnings to w for those which a
// condition guards.
func checkFields(w *checked, seen items.Fields) error {
	fields, known := seen.Names()
	if !known || w.Map.Batch > 0 || w.Map.ItemsFromArgs {
		return nil
	}
	problems, warnings := agent.CheckFields(w.Workflow, fields)
	for _, found := range [][]workflow.Problem{problems, warnings} {
		for i := range found {
			found[i].Message += ": no item has such a field"
		}
	}
	w.warnings = append(w.warnings, warnings...)
	if len(problems) == 0 {
		return nil
	}
	return &workflow.InvalidError{Problems: problems}
}

// planError wraps an error of the selection. A bad key is a usage error, and so is a path with one that is not there.
func planError(err error) error {
	if items.Mistaken(err) {
		return refusef("select the items: %w", err)
	}
	return fmt.Errorf("select the items: %w", err)
}

// delays returns the longest possible delay before each retry of p.
func delays(p *retry.Policy) []millis {
	all := []millis{}
	if p == nil {
		return all
	}
	for _, d := range p.Worst() {
		all = append(all, millis(d))
	}
	return all
}

// worstWaiting returns the longest total time that one item can wait for retries.
func worstWaiting(w checked) millis {
	policy := w.ErrorPolicy.Retries()
	agents := cost{time: workflow.MaxRetryWait(w.Map.AgentTemplate)}.times(triesOf(policy))
	handled := workflow.MaxRetryWait(w.Handlers[w.ErrorPolicy.OnItemFailure.Handler])
	return millis(agents.plus(cost{time: waitOf(policy)}).plus(cost{time: handled}).time)
}

func sum(all []millis) millis {
	var total millis
	for _, d := range all {
		total += d
	}
	return total
}

// planWidth is the maximum width of a line about an item.
const planWidth = 80

func (p plan) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "workflow: %s (mode %s)\n", p.Workflow, p.Mode)
	if p.Items != nil {
		p.Items.print(w)
		if p.Fleet == nil {
			_, _ = fmt.Fprintf(w, "slots: %d\n", p.MaxParallel)
		} else {
			p.Fleet.print(w, p.MaxParallel)
		}
		printRate(w, p.Rate)
		for _, text := range slices.Concat(p.StepRates, p.Rollout, shownIf(p.Stragglers)) {
			_, _ = fmt.Fprintln(w, term.Visible(text))
		}
	}
	if len(p.Requires) > 0 {
		_, _ = fmt.Fprintf(w, "requires: %s\n", strings.Join(p.Requires, ", "))
	}
	if p.Workspace != nil {
		p.Workspace.print(w)
	}
	section := ""
	for _, s := range p.Steps {
		if s.Section != section {
			section = s.Section
			_, _ = fmt.Fprintf(w, "%s:\n", p.heading(section))
		}
		s.print(w)
	}
	if p.Items != nil {
		_, _ = fmt.Fprintf(w, "each item: %s%s\n", upTo(p.ItemRuns), schedule(p.ItemDelays))
		_, _ = fmt.Fprintf(w, "worst-case waiting per item: %s\n", spell(*p.WorstWaiting))
		if p.WorstStarts > 0 && p.ItemRuns > 1 {
			_, _ = fmt.Fprintf(w, "worst case of starts: %s at items\n", term.Counted(p.WorstStarts, "attempt"))
		}
		if p.LeastByRate != nil && *p.LeastByRate > 0 {
			_, _ = fmt.Fprintf(w, "the rate alone takes: %s at least\n", spell(*p.LeastByRate))
		}
	}
	p.printWorst(w)
	if p.Cost != nil {
		p.Cost.print(w)
	}
	_, _ = fmt.Fprintln(w, "nothing was run")
}

// printWorst prints the longest times of an item, the map phase and the job.
func (p plan) printWorst(w io.Writer) {
	line := func(what string, d *millis, of string) {
		if d != nil {
			_, _ = fmt.Fprintf(w, "worst case of %s: %s%s\n", what, spell(*d), of)
		}
	}
	line("an item", p.WorstItem, "")
	if p.Items != nil && p.Items.Total != nil {
		line("the map", p.WorstMap, fmt.Sprintf(" (%s in %s)", term.Counted(*p.Items.Total, "item"), term.Counted(p.MaxParallel, "slot")))
	}
	line("the job", p.WorstJob, "")
	switch {
	case p.Unlimited != "":
		_, _ = fmt.Fprintf(w, "worst case of the job: no limit, since %s has no timeout\n", p.Unlimited)
	case p.WorstJob == nil && p.Items != nil && p.MaxParallel == 0:
		_, _ = fmt.Fprintln(w, "worst case of the job: depends on the workers")
	case p.WorstJob == nil:
		_, _ = fmt.Fprintln(w, "worst case of the job: depends on the number of items")
	}
}

// heading returns the heading of a section; for the map phase it names the item whose commands are shown.
func (p plan) heading(section string) string {
	if (section == "reduce" || section == "merge") && len(p.ReduceWhen) > 0 {
		return section + ", when " + strings.Join(p.ReduceWhen, " and ")
	}
	if section == "map" && len(p.Items.First) > 0 {
		return "map, as for " + p.Items.First[0].ID
	}
	return section
}

func (p planItems) print(w io.Writer) {
	if p.Refused != "" {
		_, _ = fmt.Fprintf(w, "items: from %s: %s (a run would be refused)\n", term.Visible(p.Source), term.Visible(p.Refused))
		return
	}
	if p.Total == nil && p.Source == items.Stdin {
		_, _ = fmt.Fprintln(w, "items: from standard input, which is a terminal and was not read")
		return
	}
	source := term.Visible(p.Source)
	if p.Kind == "glob" {
		source = "the glob " + source
	}
	if p.made != "" {
		_, _ = fmt.Fprintf(w, "items: from %s, which %s\n", source, p.made)
		return
	}
	if p.Total == nil {
		_, _ = fmt.Fprintf(w, "items: from a command, which was not run: %s\n", term.Visible(p.Source))
		return
	}
	which := ""
	if p.Job != "" {
		which = fmt.Sprintf(" (%s)", p.Select)
	}
	_, _ = fmt.Fprintf(w, "items: %d from %s%s\n", *p.Total, source, which)
	if p.Since != nil {
		_, _ = fmt.Fprintf(w, "since %s: %s\n", p.Since.JobID, term.Visible(view.Difference(*p.Since)))
	}
	if *p.Total == 0 {
		_, _ = fmt.Fprintln(w, "  a run would warn that there is nothing to do, and skip reduce and merge")
	}
	for _, it := range p.First {
		line := fmt.Sprintf("  %s  %s", it.ID, it.Data)
		_, _ = fmt.Fprintln(w, term.Brief(line, planWidth))
	}
	if more := *p.Total - len(p.First); more > 0 {
		_, _ = fmt.Fprintf(w, "  and %d more\n", more)
	}
}

func (s planStep) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "  %s: %s%s\n", s.Step, upTo(s.Runs), schedule(s.Delays))
	for _, detail := range s.details() {
		_, _ = fmt.Fprintf(w, "    (%s)\n", detail)
	}
	for line := range strings.SplitSeq(strings.TrimRight(s.Command, "\n"), "\n") {
		_, _ = fmt.Fprintf(w, "      %s\n", term.Visible(line))
	}
}

// details returns the condition, timeout and retry rules of a step, in words.
func (s planStep) details() []string {
	var all []string
	if s.Description != "" {
		all = append(all, term.Visible(strings.TrimSpace(s.Description)))
	}
	if s.When != "" {
		all = append(all, "when "+term.Visible(strings.TrimSpace(s.When)))
	}
	if s.Timeout > 0 {
		all = append(all, "each run may take "+spell(s.Timeout))
	}
	if len(s.Least) > 0 {
		all = append(all, "waiting at least"+spread(s.Least))
	}
	if len(s.RetryOn) > 0 {
		all = append(all, "retried only after "+strings.Join(s.RetryOn, ", "))
	}
	return all
}

// scheduleShown is the number of delays of a schedule that are printed.
const scheduleShown = 10

// schedule prints the delays before retries.
func schedule(all []millis) string {
	if len(all) == 0 {
		return ""
	}
	return ", waiting at most" + spread(all) + fmt.Sprintf(" (in all %s)", spell(sum(all)))
}

// spread prints the first delays.
func spread(all []millis) string {
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
func spell(d millis) string { return duration.Exact(time.Duration(d)) }
