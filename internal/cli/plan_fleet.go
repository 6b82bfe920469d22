package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/simulate"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// planFleetOf asks the broker for the workers that a job of w could run on. It returns nil for a job without a fleet.
func planFleetOf(ctx context.Context, con *console, o fleetOptions, w *workflow.Workflow,
	t tools,
) *simulate.PlannedFleet {
	if !o.wanted() {
		return nil
	}
	p := &simulate.PlannedFleet{Broker: fleet.ShownURL(o.found.URL), Workers: []simulate.PlannedWorker{}}
	nodes, err := con.backend.Nodes(ctx, o.found, t.agents.Programs(w, t.claude, workflow.StepRef.RunsOnWorkers)...)
	if err != nil {
		p.Unreachable = err.Error()
		return p
	}
	for _, n := range nodes {
		one := simulate.PlannedWorker{
			Name: n.Name, Slots: n.Slots, Busy: n.Busy,
			Unfit: n.Unfit(versionText(), o.labels(w)),
		}
		if p.Workers = append(p.Workers, one); one.Unfit == "" {
			p.Slots += n.Slots
		}
	}
	slices.SortFunc(p.Workers, func(a, b simulate.PlannedWorker) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Slots, b.Slots))
	})
	return p
}

// plannedWorkers is how many workers of a kind a plan names.
const plannedWorkers = 10

// printPlannedFleet prints the slots of the workers that could take part, and why others would not.
func printPlannedFleet(p *simulate.PlannedFleet, l term.Lines, slots int) {
	var fit, unfit []string
	for _, n := range p.Workers {
		if n.Unfit != "" {
			unfit = append(unfit, term.Visible(n.Name+": "+n.Unfit))
			continue
		}
		text := term.Visible(n.Name) + " " + check.Counted(n.Slots, "slot")
		if n.Busy > 0 {
			text += fmt.Sprintf(" (%d busy)", n.Busy)
		}
		fit = append(fit, text)
	}
	switch {
	case p.OfWorkers && len(fit) == 0:
		l.Print("slots: those of the workers, which may change")
	case p.OfWorkers:
		l.Printf("slots: those of the workers, which may change; now %d", slots)
	case len(fit) > 0 && p.Slots < p.Max:
		l.Printf("slots: %d, of which the workers now provide %d", p.Max, p.Slots)
	default:
		l.Printf("slots: %d", p.Max)
	}
	switch {
	case p.Unreachable != "":
		l.Printf("fleet: %s (the run would fail)", term.Visible(p.Unreachable))
	case len(fit) == 0:
		l.Printf("fleet: %s, no matching worker: the run would wait for one", term.Visible(p.Broker))
	default:
		l.Printf("fleet: %s: %s", term.Visible(p.Broker), firstOf(fit))
	}
	if len(unfit) > 0 {
		l.Printf("workers that would not take part: %s", firstOf(unfit))
	}
}

// firstOf joins the first of a list, and says how many more there are.
func firstOf(list []string) string {
	text := strings.Join(list[:min(len(list), plannedWorkers)], "; ")
	if more := len(list) - plannedWorkers; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
