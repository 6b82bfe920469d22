package simulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// Plan is what a run would do.
type Plan struct {
	Workflow string        `json:"workflow"`
	Mode     workflow.Mode `json:"mode"`

	// The items, with a map phase.
	Items *PlannedItems `json:"items,omitempty"`

	// With a map phase; absent when it is up to the workers of a fleet, and none of them is known.
	MaxParallel int `json:"max_parallel,omitempty"`

	// What the workers of a fleet must offer.
	Requires []string `json:"requires,omitempty"`

	// The fleet, of a job on one.
	Fleet *PlannedFleet `json:"fleet,omitempty"`

	// How often agents start at most.
	Rate string `json:"rate,omitempty"`

	// How long the first starts of all items take because of that; absent when that is not known.
	LeastByRate *Millis `json:"least_by_rate_ms,omitempty"`

	// The number of attempts at items in the worst case, if the number of items is known.
	WorstStarts int `json:"worst_starts,omitempty"`

	// How often steps start at most.
	StepRates []string `json:"step_rates,omitempty"`

	// What becomes of attempts that take unusually long, in words.
	Stragglers string `json:"stragglers,omitempty"`

	// The stages of the rollout, in words.
	Rollout []string `json:"rollout,omitempty"`

	Steps []PlannedStep `json:"steps"`

	// The conditions of reduce and merge.
	ReduceWhen []string `json:"reduce_when,omitempty"`

	ItemRuns     int      `json:"item_runs,omitempty"` // with a map phase
	ItemDelays   []Millis `json:"item_delays_ms,omitempty"`
	WorstWaiting *Millis  `json:"worst_waiting_per_item_ms,omitempty"` // with a map phase
	// With a map phase; absent when nothing limits it.
	WorstItem *Millis `json:"worst_per_item_ms,omitempty"`
	// Absent when nothing limits it, or the number of items is not known.
	WorstMap *Millis `json:"worst_map_ms,omitempty"`

	// How long the job takes in the worst case. Absent as WorstMap.
	WorstJob *Millis `json:"worst_job_ms,omitempty"`

	// What AI agents would cost. Absent if there are none.
	Cost *PlannedCost `json:"cost,omitempty"`

	// The workspaces, if the job has any.
	Workspace *PlannedSpace `json:"workspace,omitempty"`

	// The first step that nothing limits, if there is one.
	Unlimited string `json:"unlimited,omitempty"`
}

// PlannedSpace is what the workspaces of a job would be.
type PlannedSpace struct {
	// Why a run would be refused. If it is set, all else is unknown.
	Refused string `json:"refused,omitempty"`

	Base string `json:"base,omitempty"`

	// The branch that is checked out.
	Branch string `json:"branch,omitempty"`

	// How many workspaces there are at most.
	Number int `json:"number,omitempty"`

	Files int `json:"files,omitempty"` // of each

	// The size of a workspace, about. Absent when it is not known.
	Bytes int64 `json:"bytes,omitempty"`
}

// PlanWorkspace returns what the workspaces of a run would be, or nil if it would have none.
func PlanWorkspace(ctx context.Context, c mapreduce.Config, w *workflow.Workflow, slots int) (*PlannedSpace, error) {
	if !w.Workspace.Isolated() {
		return nil, nil
	}
	if w.Map == nil {
		slots = 0
	}
	start, err := mapreduce.StartOf(ctx, c, w, slots)
	if refused, ok := errors.AsType[*job.RefusedError](err); ok {
		return &PlannedSpace{Refused: refused.Reason}, nil
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
	return &PlannedSpace{
		Base: start.Base, Branch: start.Branch, Number: number, Files: start.Files,
		Bytes: start.Bytes,
	}, nil
}

// Millis is a delay, in Milliseconds.
type Millis = events.Millis

// PlannedItems are the items that a run would start with.
type PlannedItems struct {
	Source string `json:"source"`
	// File, command, glob, stdin or job; absent: a list in the workflow.
	Kind string `json:"kind,omitempty"`
	// Absent when a command or a terminal would have to be asked, or setup be run.
	Total *int         `json:"total,omitempty"`
	First []items.Item `json:"first"`

	// The job whose results are the items.
	Job string `json:"job,omitempty"`

	Select workflow.Select `json:"select,omitempty"` // which of them

	// Why the results of that job cannot be the items now.
	Refused string `json:"refused,omitempty"`

	// With --since: how the items differ from those of the earlier job.
	Since *events.Difference `json:"since,omitempty"`

	// What is not there yet and setup may make, if there is such a thing.
	Made   string `json:"-"`
	fields items.Fields

	// What the selection says that is probably a mistake.
	notes []string
}

// PlannedStep is what would be run for one step.
type PlannedStep struct {
	Section string `json:"section"`
	Step    string `json:"step"`
	// For the first item, in the map phase; of a handler of failures: as it is written.
	Command string `json:"command"`
	Runs    int    `json:"runs"`

	// The timeout of each run.
	Timeout Millis `json:"timeout_ms,omitempty"`

	// The delay before each retry, at most.
	Delays []Millis `json:"delays_ms"`

	// The delay before each retry, at least, where jitter spreads them.
	Least []Millis `json:"delays_least_ms"`

	// The failures that are retried. All are if it is empty.
	RetryOn []string `json:"retry_on"`

	When string `json:"when,omitempty"` // the condition of the step

	Description string `json:"description,omitempty"`
}

// PlannedFleet is the fleet that items would run on.
type PlannedFleet struct {
	Broker string `json:"broker"`
	// Why it cannot be asked; then nothing is known of the workers.
	Unreachable string `json:"unreachable,omitempty"`
	// There is no max_parallel: the job has the slots of the workers.
	OfWorkers bool `json:"slots_of_workers"`

	// The max_parallel of the workflow, if it has one.
	Max int `json:"max_parallel,omitempty"`

	// The slots of the workers that fit now.
	Slots int `json:"slots"`

	Workers []PlannedWorker `json:"workers"`
}

// PlannedWorker is a worker that answers.
type PlannedWorker struct {
	Name  string `json:"name"`
	Slots int    `json:"slots"`
	Busy  int    `json:"busy"`

	// Why the worker would not take part. It is empty if it would.
	Unfit string `json:"unfit,omitempty"`
}

// SlotsOf returns how many items run at once, 0 if nobody knows. most is max_parallel, or its default if open.
func (p *PlannedFleet) SlotsOf(most int, open bool) int {
	if p.OfWorkers = open; !open {
		p.Max = most
	}
	switch {
	case open:
		return p.Slots
	case p.Slots > 0:
		return min(most, p.Slots)
	}
	return most
}

// PlanInput is what a plan is made of.
type PlanInput struct {
	*workflow.Workflow
	Config mapreduce.Config // without Stdin if that is a terminal, which is not read

	Space *PlannedSpace // with workspaces

	// How many items run at a time; 0 if that is not known.
	Slots int

	// What decides about the results of an earlier job. It may be nil.
	Earlier *reuse.Reuse

	// The job whose results are the items. It may be nil.
	From *reuse.Input
}

// MakePlan returns what a run would do, and warnings about what is hardly meant.
func MakePlan(ctx context.Context, w PlanInput) (Plan, []workflow.Problem, error) {
	var warnings []workflow.Problem
	p := Plan{Workflow: w.Name, Mode: w.Mode, Steps: []PlannedStep{}, ReduceWhen: w.ReduceWhen.Conditions()}
	found := w.Config.Settings
	sample := agent.Attempt{Workflow: w.Name, Dir: w.Config.Dir}
	sample.Number = 1
	if w.Workspace.Isolated() {
		sample.Base = "HEAD" // or what it is by then
		if p.Workspace = w.Space; w.Space.Base != "" {
			sample.Base = w.Space.Base
		}
		sample.Merge = &agent.MergeResult{
			Worktree: "<workspace>", SourceBranch: "prodigy/<job>",
			TargetBranch: w.Space.Branch,
		}
	}
	sample.Env, sample.Secrets, sample.Args = found.Env, found.Final, found.Args
	if w.Map != nil {
		selected, err := planSelection(ctx, w)
		if err != nil {
			return Plan{}, nil, err
		}
		guarded, err := checkFields(w.Workflow, selected.fields)
		if err != nil {
			return Plan{}, nil, err
		}
		warnings = append(warnings, guarded...)
		for _, note := range selected.notes {
			warnings = append(warnings, w.ProblemAt(w.Map.Input.Pos, note))
		}
		p.Items = &selected
		p.ItemRuns = TriesOf(w.ErrorPolicy.Retries())
		p.ItemDelays = delays(w.ErrorPolicy.Retries())
		p.WorstWaiting = new(worstWaiting(w.Workflow))
		p.MaxParallel = w.Slots
		p.Stragglers = w.Workflow.Stragglers()
		p.Rate, p.StepRates, p.Rollout = w.Workflow.Rate(), w.StepRates(), mapreduce.RolloutOf(w.Workflow.Map)
	}
	p.estimate(w.Workflow)
	for _, s := range w.Sections() {
		a := sample
		a.Phase, a.Steps = s.Phase(), s.Steps
		if s.IsHandler() { // it stands for an attempt with that handler
			a.Phase, a.Handler, a.Steps = "", a.Steps, w.Commands
			if w.Map != nil {
				a.Phase, a.Steps = "map", w.Map.AgentTemplate
			}
		}
		if a.Phase == "map" {
			a.PerValue, a.Batch = w.Map.ItemsFromArgs, w.Map.Batch > 0
			a.Producing = len(w.Map.Produces) > 0
			if len(p.Items.First) > 0 {
				first := p.Items.First[0]
				a.ItemID, a.ItemIndex, a.Item, a.ItemTotal = first.ID, first.Index, first.Data, *p.Items.Total
			}
			if a.Producing && a.ItemID != "" {
				if paths, err := agent.Paths(w.Map.Produces); err == nil {
					// What is wrong with a path is what an attempt would fail by.
					a.Produces, _ = paths(a.ItemID, a.Item)
				}
			}
		}
		commands, err := agent.Render(a, s.IsHandler())
		if err != nil {
			return Plan{}, nil, err
		}
		for at, step := range s.EachStep() {
			p.Steps = append(p.Steps, plannedStep(s.Name, at.Label, commands[0], step))
			commands = commands[1:]
		}
		for _, step := range s.Steps { // only the names of what they capture are known before
			if step.Capture != "" && s.Name != "map" {
				sample.Earlier = append(sample.Earlier, events.StepCompleted{
					Phase: s.Name, Kind: step.Kind(), Capture: step.Capture, CaptureFormat: string(step.Format),
				})
			}
		}
	}
	return p, warnings, nil
}

// plannedStep returns the plan of one step.
func plannedStep(section, label, command string, s workflow.Step) PlannedStep {
	p := PlannedStep{
		Section: section, Step: label, Command: command, Runs: TriesOf(s.Retry), Timeout: Millis(s.Timeout),
		Delays: delays(s.Retry), Least: []Millis{}, Description: s.Description,
	}
	if s.When != nil {
		p.When = s.When.Value
	}
	policy := policyOf(s.Retry)
	p.RetryOn = check.Each(policy.RetryOn, retry.Matcher.String)
	if policy.Jitter != retry.NoJitter {
		for _, d := range policy.Spreads() {
			p.Least = append(p.Least, Millis(d.From))
		}
	}
	return p
}

// estimate fills in the longest time that an item, the map phase and the job can take.
func (p *Plan) estimate(w *workflow.Workflow) {
	job := boundOfOnce(w)
	known := p.Items == nil || p.Items.Total != nil
	if p.Items != nil {
		all := boundOfItem(w)
		p.WorstItem = all.worst()
		if known {
			slots := max(p.MaxParallel, 1)
			all = all.times((*p.Items.Total + slots - 1) / slots)
			p.WorstStarts = *p.Items.Total * p.ItemRuns
			if limit := w.Map.Rate.Limit; limit.Count > 0 {
				turns := 1 // of the limit that an attempt takes at most: its own, and one for each retry of its steps
				for _, s := range w.Map.AgentTemplate {
					turns += TriesOf(s.Retry) - 1
				}
				all = all.plus(bound{time: limit.Least(p.WorstStarts * turns)})
				if w.Map.Rate.Per == nil {
					p.LeastByRate = new(Millis(limit.Least(*p.Items.Total)))
				}
			}
			p.WorstMap = all.worst()
		}
		job = all.plus(job)
	}
	p.Unlimited = job.unlimited
	// Nobody knows how often a job is verified, and how many slots a fleet will have.
	if w.Workspace.Isolated() && w.Workspace.Verify != nil || w.Map != nil && p.MaxParallel == 0 {
		p.WorstMap, known = nil, false
	}
	if known {
		p.WorstJob = job.worst()
	}
}

// worst returns the longest time, or nil if there is no limit.
func (c bound) worst() *Millis {
	if c.unlimited != "" {
		return nil
	}
	return new(Millis(c.time))
}

// firstItems is how many items a plan shows.
const firstItems = 5

// planSelection returns the items as far as they can be known without running anything.
func planSelection(ctx context.Context, w PlanInput) (PlannedItems, error) {
	env := w.Config.ItemsEnv()
	if in := w.From; in != nil {
		env.Results = in.Results
	}
	source, kind, free := items.Source(w.Map.Input, env)
	selected := PlannedItems{Source: source, Kind: kind, First: []items.Item{}}
	env.Warn = func(text string) { selected.notes = append(selected.notes, text) }
	if in := w.From; in != nil {
		selected.Source, selected.Job, selected.Select = "the results of job "+in.Job.ID, in.Job.ID, in.Select()
	}
	if !free || w.Map.Input.Stdin && env.Stdin == nil {
		return selected, nil
	}
	if w.Setup != nil && len(items.CheckInput(w.Map, env)) > 0 {
		selected.Made = "does not exist yet; setup may create it"
		return selected, nil
	}
	total := 0
	for it, err := range items.Select(ctx, w.Map, env) {
		if _, empty := errors.AsType[*items.EmptyError](err); empty && w.Setup != nil {
			selected.Made = "has no items yet; setup may create some"
			return selected, nil
		}
		if err != nil {
			return PlannedItems{}, fmt.Errorf("select items: %w", err)
		}
		if w.Earlier != nil {
			chosen := it
			wanted, err := w.Earlier.Choose(&chosen)
			if err != nil {
				return PlannedItems{}, err
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
	if w.Earlier != nil {
		selected.Since = w.Earlier.Difference()
		w.Earlier.Close()
	}
	return selected, nil
}

// checkFields returns an error for the placeholders of w that name a field which none of the items has, and
// warnings for those which a condition guards.
func checkFields(w *workflow.Workflow, seen items.Fields) ([]workflow.Problem, error) {
	fields, known := seen.Names()
	if !known || w.Map.Batch > 0 || w.Map.ItemsFromArgs {
		return nil, nil
	}
	problems, warnings := agent.CheckFields(w, fields)
	for _, found := range [][]workflow.Problem{problems, warnings} {
		for i := range found {
			found[i].Message += ": no item has this field"
		}
	}
	if len(problems) == 0 {
		return warnings, nil
	}
	return nil, &workflow.InvalidError{Problems: problems}
}

// delays returns the longest possible delay before each retry of p.
func delays(p *retry.Policy) []Millis {
	return check.Each(policyOf(p).Spreads(), func(s retry.Spread) Millis { return Millis(s.To) })
}

// worstWaiting returns the longest total time that one item can wait for retries.
func worstWaiting(w *workflow.Workflow) Millis {
	policy := w.ErrorPolicy.Retries()
	agents := bound{time: workflow.MaxRetryWait(w.Map.AgentTemplate)}.times(TriesOf(policy))
	handled := workflow.MaxRetryWait(w.Handlers[w.ErrorPolicy.OnItemFailure.Handler])
	return Millis(agents.plus(bound{time: policyOf(policy).MaxWait()}).plus(bound{time: handled}).time)
}

// PlannedCost is what the AI agents of a run may cost at most. A limit that is not there is absent.
type PlannedCost struct {
	Item *limit.USD        `json:"item_usd,omitempty"`
	Map  *limit.USD        `json:"map_usd,omitempty"`
	Job  *limit.USD        `json:"job_usd,omitempty"`
	By   map[string]string `json:"held_by"` // by preset: who holds an agent to its limit

	IsBudget bool `json:"-"` // Job is the budget
	Items    int  `json:"-"`
}

// PlanCost returns what the agents of w may cost, which are read by the presets of set, or nil if it has
// none. A maxCost that is not 0 goes before its budget.
func PlanCost(w *workflow.Workflow, set ai.Set, maxCost limit.USD, selected *PlannedItems) *PlannedCost {
	if set == nil {
		return nil
	}
	c := &PlannedCost{By: map[string]string{}}
	var perItem, once limit.USD
	itemLimited, onceLimited := true, true
	for at, s := range w.EachStep() {
		name, model, most := workflow.DefaultAgent, "", limit.USD(0)
		switch {
		case s.Agent != nil:
			name, model, most = s.Agent.Preset(), s.Agent.Model, s.Agent.MaxCost
		case s.Claude == nil:
			continue
		}
		p := set[name]
		told := p != nil && p.TellsCost(cmp.Or(model, p.Model))
		switch {
		case !told:
			c.By[name] = "not enforced: the CLI does not report its cost, and its model has no price"
		case p.Options["max_cost"] != nil:
			c.By[name] = "enforced by the CLI, which finishes the call that reaches it"
		case p.AddsUpCost():
			c.By[name] = "enforced by prodigy, which adds up the costs that the CLI reports"
		default:
			c.By[name] = "enforced by prodigy between agents: the CLI reports its cost only at the end"
		}
		limited := most > 0 && told
		if ofItems := at.Section == "map" || at.Section == "workspace.resolve" ||
			(workflow.Section{Name: at.Section}).IsHandler(); ofItems {
			perItem, itemLimited = perItem+most, itemLimited && limited
		} else {
			once, onceLimited = once+most, onceLimited && limited
		}
	}
	if len(c.By) == 0 {
		return nil
	}
	if b := w.Budget.Item; b != nil && (!itemLimited || *b < perItem) {
		perItem, itemLimited = *b, true
	}
	if itemLimited && perItem > 0 {
		c.Item = &perItem
		if selected != nil && selected.Total != nil {
			c.Items = *selected.Total
			c.Map = new(perItem * limit.USD(c.Items))
		}
	}
	if onceLimited && (selected == nil || c.Map != nil || itemLimited && perItem == 0) {
		c.Job = new(once)
		if c.Map != nil {
			c.Job = new(once + *c.Map)
		}
	}
	budget := maxCost
	if budget == 0 && w.Budget.Job != nil {
		budget = *w.Budget.Job
	}
	if budget > 0 && (c.Job == nil || budget < *c.Job) {
		c.Job, c.IsBudget = &budget, true
	}
	return c
}
