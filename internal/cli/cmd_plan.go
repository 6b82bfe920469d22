package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/mapreduce"
	"prodigy/internal/reuse"
	"prodigy/internal/settings"
	"prodigy/internal/simulate"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
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
		ValidArgsFunction: completeWorkflows,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.path = args[0]
			if err := o.fleet.brokerOptions.find(); err != nil {
				return err
			}
			return runPlan(cmd.Context(), con, o)
		},
	}
	addFormat(con, cmd, term.JSON)
	addMaxDelay(cmd, &o.MaxDelay)
	addMaxParallel(cmd, &o.MaxParallel)
	addMaxCost(cmd, &o.MaxCost)
	o.settings.add(cmd)
	o.settings.addWorkspace(cmd)
	addSince(cmd, &o.Since)
	o.fleet.addWorkers(cmd, "plan for the workers of this broker")
	return cmd
}

// runPlan prints the plan of a run with these options. It reads the items and asks the broker, but runs no command and
// creates no job.
func runPlan(ctx context.Context, con *console, o runOptions) error {
	c := o.checkedAs()
	c.Environ = os.Environ()
	w, err := load(ctx, o.path, c, o.settings, settings.ToPlan)
	if err != nil {
		con.note(w.elsewhere()) // where files were looked for
		return err
	}
	o.fleet = o.fleet.forWorkflow(w.Workflow)
	if c.OnFleet = o.fleet.wanted(); c.OnFleet {
		if err := o.fleet.check(con, w.Workflow, true); err != nil {
			return err
		}
	}
	con.hide(w.settings.Mask)
	c.Settings, c.Dir, c.WorkRoot = w.settings, w.dir, workRoot()
	slots := mapreduce.Slots(c, w.Workflow)
	space, err := simulate.PlanWorkspace(ctx, c, w.Workflow, slots)
	if err != nil {
		return err
	}
	t, err := findTools(w.Workflow, noSteps)
	if err != nil {
		return err
	}
	c.Home = t.home
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
	if !term.Is(os.Stdin) {
		c.Stdin = os.Stdin
	}
	p, warnings, err := simulate.MakePlan(ctx, simulate.PlanInput{
		Workflow: w.Workflow, Config: c, Space: space, Slots: slots, Earlier: earlier, From: in,
	})
	if err != nil {
		return selectionError(err)
	}
	if p.Fleet = workers; p.Items != nil {
		p.Requires = o.fleet.labels(w.Workflow)
	}
	if isRefused {
		p.Items.Refused = strings.TrimPrefix(refused.Reason, "input: ")
	}
	p.Cost = simulate.PlanCost(w.Workflow, t.agents, o.MaxCost, p.Items)
	printProblems(con, slices.Concat(w.warnings, warnings,
		t.agents.WarnOfPermissions(w.Workflow, t.claude, agent.ReadsPrompt(t.claude[0]))), "warning: ")
	con.note(w.elsewhere())
	con.note(note)
	return con.print(p, p.Print)
}

// selectionError returns an error of the selection. A bad key is a usage error, and so is a path with one that is not there.
func selectionError(err error) error {
	if items.Mistaken(err) {
		return refusef("%w", err)
	}
	return err
}

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
			Unfit: n.Unfit(fleet.Job{V: fleet.Protocol, Version: versionText(), Requires: o.labels(w)}),
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
