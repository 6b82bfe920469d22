package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"prodigy/internal/agent"
	"prodigy/internal/jobs"
	"prodigy/internal/spend"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// planCost is what the AI agents of a run may cost at most. A limit that is not there is absent.
type planCost struct {
	Item *spend.USD        `json:"item_usd,omitempty"`
	Map  *spend.USD        `json:"map_usd,omitempty"`
	Job  *spend.USD        `json:"job_usd,omitempty"`
	By   map[string]string `json:"held_by"` // by preset: who holds an agent to its limit

	budget bool // Job is the budget
	items  int
}

// planCostOf returns what the agents of w may cost, or nil if it has none. maxCost goes before its budget; 0: there is none.
func planCostOf(w *workflow.Workflow, maxCost spend.USD, selected *planItems) (*planCost, error) {
	home, err := jobs.FromEnv()
	if err != nil {
		return nil, err
	}
	set, err := agentsOf(home, w)
	if err != nil || set == nil {
		return nil, err
	}
	c := &planCost{By: map[string]string{}}
	var perItem, once spend.USD
	itemLimited, onceLimited := true, true
	for at, s := range stepsOf(w) {
		name, model, most := workflow.DefaultAgent, "", spend.USD(0)
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
			c.By[name] = "nobody: it does not say what it costs, and its model has no price"
		case p.Options["max_cost"] != nil:
			c.By[name] = "itself, to the end of the call that reaches the limit"
		case p.AddsUpCost():
			c.By[name] = "prodigy, which adds up what it says and ends it at the limit"
		default:
			c.By[name] = "prodigy, which knows what an agent has cost when it has ended, and starts no other at the limit"
		}
		limited := most > 0 && told
		if ofItems := at.section == "map" || at.section == "workspace.resolve" || (section{name: at.section}).handler(); ofItems {
			perItem, itemLimited = perItem+most, itemLimited && limited
		} else {
			once, onceLimited = once+most, onceLimited && limited
		}
	}
	if len(c.By) == 0 {
		return nil, nil
	}
	if b := w.Budget.Item; b != nil && (!itemLimited || *b < perItem) {
		perItem, itemLimited = *b, true
	}
	if itemLimited && perItem > 0 {
		c.Item = &perItem
		if selected != nil && selected.Total != nil {
			c.items = *selected.Total
			c.Map = new(perItem * spend.USD(c.items))
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
		c.Job, c.budget = &budget, true
	}
	return c, nil
}

func (c planCost) print(w io.Writer) {
	line := func(what string, u *spend.USD, of string) {
		if u != nil {
			_, _ = fmt.Fprintf(w, "worst cost of %s: %s%s\n", what, *u, of)
		}
	}
	line("an item", c.Item, "")
	line("the map", c.Map, " ("+term.Counted(c.items, "item")+")")
	switch {
	case c.Job == nil:
		_, _ = fmt.Fprintln(w, "worst cost of the job: no limit (budget, max_cost and --max-cost set some)")
	case c.budget && c.Item == nil:
		line("the job", c.Job, ", its budget; without a limit for each item, agents that run may pass it")
	case c.budget:
		line("the job", c.Job, ", its budget")
	default:
		line("the job", c.Job, "")
	}
	for _, name := range slices.Sorted(maps.Keys(c.By)) {
		_, _ = fmt.Fprintf(w, "  %s is held to a limit by %s\n", term.Visible(name), c.By[name])
	}
}

// warnOfPermissions returns a warning for each step whose CLI may do less than its agent may try, where nobody has
// said what it may.
func (t tools) warnOfPermissions(w *workflow.Workflow) []workflow.Problem {
	var warnings []workflow.Problem
	for _, s := range stepsOf(w) {
		name, argv, at := workflow.DefaultAgent, t.claude, workflow.Pos{}
		switch {
		case s.Agent != nil && s.Agent.May == "":
			name, at = s.Agent.Preset(), s.Agent.Prompt.Pos
			argv = slices.Concat(t.agents[name].Argv, s.Agent.Args)
		case s.Claude != nil && agent.ReadsPrompt(t.claude[0]):
			at = s.Claude.Pos
		default:
			continue
		}
		p := t.agents[name]
		if edit, _, _ := p.May.Of(workflow.MayEdit); len(edit) == 0 || p.May.Said(slices.Concat(argv, p.Args)) != "" {
			continue
		}
		message := `without "may" in the agent step, %s changes no files and runs no commands but as its own settings allow; write may: read, may: edit or may: all`
		if w.Workspace.Isolated() && (s.WorkingDir == nil || !filepath.IsAbs(s.WorkingDir.Value)) {
			message = `without "may" in the agent step, %s may edit files, but do no more than that and what its own settings allow; if it is to run tests or other commands, write may: all, else may: edit`
		}
		warnings = append(warnings, workflow.Problem{File: w.File, Line: at.Line, Col: at.Col, Message: fmt.Sprintf(message, name)})
	}
	return warnings
}
