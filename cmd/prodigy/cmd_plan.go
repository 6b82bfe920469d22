package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

type planOptions struct {
	path     string
	format   format
	maxDelay time.Duration
}

func newPlanCommand(con *console) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan <workflow>",
		Short: "Show what a run would do, and run nothing",
		Long: `Show what a run would do, and run nothing: the items, the commands as for the first of them, how often each may be run, the
delays before its retries at most, and how long an item waits in all of them.`,
		Example:           "  prodigy plan workflow.yml",
		Args:              exactly("workflow"),
		ValidArgsFunction: completeWorkflow,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.path = args[0]
			return runPlan(cmd.Context(), con, o)
		},
	}
	addFormat(cmd, &o.format, asJSON)
	addMaxDelay(cmd, &o.maxDelay)
	return cmd
}

// plan is what a run would do.
type plan struct {
	Workflow     string        `json:"workflow"`
	Mode         workflow.Mode `json:"mode"`
	Items        *planItems    `json:"items,omitempty"` // with a map phase
	Steps        []planStep    `json:"steps"`
	ItemRuns     int           `json:"item_runs,omitempty"` // with a map phase
	ItemDelays   []millis      `json:"item_delays_ms,omitempty"`
	WorstWaiting *millis       `json:"worst_waiting_per_item_ms,omitempty"` // with a map phase
}

// millis is a delay, in milliseconds.
type millis = events.Millis

// planItems are the items that a run would start with.
type planItems struct {
	Source string       `json:"source"`
	Total  *int         `json:"total,omitempty"` // absent when a command or a terminal would have to be asked
	First  []items.Item `json:"first"`
}

// planStep is what would be run for one step.
type planStep struct {
	Section string   `json:"section"`
	Step    string   `json:"step"`
	Command string   `json:"command"` // for the first item, in the map phase; of a handler of failures: as it is written
	Runs    int      `json:"runs"`
	Delays  []millis `json:"delays_ms"` // before each retry, at most
}

func runPlan(ctx context.Context, con *console, o planOptions) error {
	limit, err := delayCap(o.maxDelay)
	if err != nil {
		return err
	}
	w, err := load(o.path, mapreduce.Config{MaxDelay: limit})
	if err != nil {
		return err
	}
	p, err := makePlan(ctx, w)
	if err != nil {
		return err
	}
	printProblems(con.err, w.warnings, "warning: ")
	if o.format == asJSON {
		return printJSON(con.out, p)
	}
	p.print(con.out)
	return nil
}

func makePlan(ctx context.Context, w checked) (plan, error) {
	p := plan{Workflow: w.Name, Mode: w.Mode, Steps: []planStep{}}
	sample := agent.Attempt{Workflow: w.Name, Number: 1, Dir: w.dir, Env: w.Env}
	if w.Map != nil {
		selected, err := planSelection(ctx, w)
		if err != nil {
			return plan{}, err
		}
		p.Items = &selected
		p.ItemRuns = itemRuns(w.ErrorPolicy)
		p.ItemDelays = delays(itemPolicy(w.ErrorPolicy))
		p.WorstWaiting = new(worstWaiting(w))
	}
	for _, s := range sectionsOf(w.Workflow) {
		a := sample
		a.Phase, a.Steps = s.phase(), s.steps
		if s.handler() {
			a = handling(a, w.Workflow)
		}
		if a.Phase == "map" {
			a = withFirst(a, *p.Items)
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

// handling returns a, whose steps are those of a handler, as an attempt that has it.
func handling(a agent.Attempt, w *workflow.Workflow) agent.Attempt {
	a.Phase, a.Handler, a.Steps = "", a.Steps, w.Commands
	if w.Map != nil {
		a.Phase, a.Steps = "map", w.Map.AgentTemplate
	}
	return a
}

// withFirst gives a the first item, if it is known.
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
	eachStep(place{section: s.name, handler: s.handler()}, s.steps, func(at place, step workflow.Step) bool {
		next := planStep{Section: s.name, Step: at.label, Command: commands[0], Runs: runs(step), Delays: delays(step.Retry)}
		commands = commands[1:]
		all = append(all, next)
		return true
	})
	return all, nil
}

// captures returns what the steps of a phase capture, so far as it can be known before they have run: the names.
func captures(s section) []events.StepCompleted {
	var names []events.StepCompleted
	for _, step := range s.steps {
		if step.Capture != "" {
			names = append(names, events.StepCompleted{Phase: s.name, Kind: step.Kind(), Capture: step.Capture})
		}
	}
	return names
}

// firstItems is how many items a plan shows.
const firstItems = 5

func planSelection(ctx context.Context, w checked) (planItems, error) {
	source, free := items.Source(w.Map.Input, w.dir)
	selected := planItems{Source: source, First: []items.Item{}}
	if !free || w.Map.Input.Stdin && term.IsTerminal(int(os.Stdin.Fd())) {
		return selected, nil
	}
	total := 0
	for it, err := range items.Select(ctx, w.Map, items.Env{Dir: w.dir, Environ: os.Environ(), Stdin: os.Stdin}) {
		if err != nil {
			return planItems{}, planError(err)
		}
		if total++; total <= firstItems {
			it.Data = bytes.Clone(it.Data)
			selected.First = append(selected.First, it)
		}
	}
	selected.Total = &total
	return selected, nil
}

// planError is the error of a selection, for which the caller is to blame when it is about the key.
func planError(err error) error {
	var bad *items.KeyError
	if errors.As(err, &bad) {
		return refusef("select the items: %w", err)
	}
	return fmt.Errorf("select the items: %w", err)
}

// itemPolicy returns how failed items are tried again, or nil.
func itemPolicy(p errorpolicy.Policy) *retry.Policy {
	if p.OnItemFailure.Kind != errorpolicy.Retry {
		return nil
	}
	if p.RetryConfig == nil {
		return new(retry.Default())
	}
	return p.RetryConfig
}

// itemRuns returns how often an item is run at most.
func itemRuns(p errorpolicy.Policy) int {
	if r := itemPolicy(p); r != nil {
		return max(r.Attempts, 1)
	}
	return 1
}

// delays returns the longest delays before each retry of p.
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

// worstWaiting returns how long one item waits in all its retries, at most.
func worstWaiting(w checked) millis {
	handled := stepsWaiting(w.Handlers[w.ErrorPolicy.OnItemFailure.Handler])
	return sum(delays(itemPolicy(w.ErrorPolicy))) + millis(itemRuns(w.ErrorPolicy))*stepsWaiting(w.Map.AgentTemplate) + handled
}

// stepsWaiting adds up the delays of steps and of what handles their failures.
func stepsWaiting(steps []workflow.Step) millis {
	var total millis
	for _, s := range steps {
		own := sum(delays(s.Retry))
		total += own + stepsWaiting(s.OnSuccess)
		for _, steps := range s.OnExitCode {
			total += stepsWaiting(steps)
		}
		if h := s.OnFailure; h != nil {
			total += millis(max(h.MaxAttempts, 1))*stepsWaiting(h.Steps) + millis(h.MaxAttempts)*own
		}
	}
	return total
}

func sum(all []millis) millis {
	var total millis
	for _, d := range all {
		total += d
	}
	return total
}

func (p plan) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "workflow: %s (mode %s)\n", p.Workflow, p.Mode)
	if p.Items != nil {
		p.Items.print(w)
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
		_, _ = fmt.Fprintf(w, "worst-case waiting per item: %s\n", exact(time.Duration(*p.WorstWaiting)))
	}
	_, _ = fmt.Fprintln(w, "nothing was run")
}

// heading names a section, and in the map phase the item its commands are shown for.
func (p plan) heading(section string) string {
	if section == "map" && len(p.Items.First) > 0 {
		return "map, as for " + p.Items.First[0].ID
	}
	return section
}

func (p planItems) print(w io.Writer) {
	if p.Total == nil && p.Source == items.Stdin {
		_, _ = fmt.Fprintln(w, "items: come from standard input, which is a terminal and was not read")
		return
	}
	if p.Total == nil {
		_, _ = fmt.Fprintf(w, "items: come from a command, which was not run: %s\n", p.Source)
		return
	}
	_, _ = fmt.Fprintf(w, "items: %d from %s\n", *p.Total, p.Source)
	if *p.Total == 0 {
		_, _ = fmt.Fprintln(w, "  a run would warn that there is nothing to do, and skip reduce")
	}
	for _, it := range p.First {
		_, _ = fmt.Fprintf(w, "  %s  %s\n", it.ID, shorten(string(it.Data), 100))
	}
	if more := *p.Total - len(p.First); more > 0 {
		_, _ = fmt.Fprintf(w, "  and %d more\n", more)
	}
}

func (s planStep) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "  %s: %s%s\n", s.Step, upTo(s.Runs), schedule(s.Delays))
	for line := range strings.SplitSeq(strings.TrimRight(s.Command, "\n"), "\n") {
		_, _ = fmt.Fprintf(w, "      %s\n", line)
	}
}

// scheduleShown is how many delays of a schedule are spelled out.
const scheduleShown = 10

// schedule spells out delays before retries.
func schedule(all []millis) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(", waiting at most")
	for _, d := range all[:min(len(all), scheduleShown)] {
		b.WriteString(" " + exact(time.Duration(d)))
	}
	if len(all) > scheduleShown {
		b.WriteString(" …")
	}
	return b.String() + fmt.Sprintf(" (in all %s)", exact(time.Duration(sum(all))))
}
