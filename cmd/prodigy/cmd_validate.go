package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

type validateOptions struct {
	path   string
	format format
}

func newValidateCommand(con *console) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:               "validate <workflow>",
		Short:             "Check a workflow file and tell everything that is wrong with it",
		Example:           "  prodigy validate workflow.yml",
		Args:              exactly("workflow"),
		ValidArgsFunction: completeWorkflow,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = args[0]
			return runValidate(con, o)
		},
	}
	addFormat(cmd, &o.format, asJSON)
	return cmd
}

// verdict is what validate --json prints.
type verdict struct {
	Valid    bool               `json:"valid"`
	Problems []workflow.Problem `json:"problems"`
	Warnings []workflow.Problem `json:"warnings"`
	Steps    []stepRuns         `json:"steps"`
}

// stepRuns tells how often a step is run at most.
type stepRuns struct {
	Section string `json:"section"`
	Step    string `json:"step"`
	Kind    string `json:"kind"`
	Runs    int    `json:"runs"`
}

func runValidate(con *console, o validateOptions) error {
	limit, err := delayCap(0)
	if err != nil {
		return err
	}
	w, err := load(o.path, mapreduce.Config{MaxDelay: limit})
	if problems, invalid := problemsOf(err); invalid && o.format == asJSON {
		v := verdict{Problems: problems, Warnings: []workflow.Problem{}, Steps: []stepRuns{}}
		if err := printJSON(con.out, v); err != nil {
			return err
		}
		return status(exitUsage)
	}
	if err != nil {
		return err
	}
	if o.format == asJSON {
		v := verdict{Valid: true, Problems: []workflow.Problem{}, Warnings: w.warnings, Steps: allRuns(w.Workflow)}
		return printJSON(con.out, v)
	}
	printProblems(con.err, w.warnings, "warning: ")
	_, _ = fmt.Fprintf(con.out, "%s: valid, mode %s\n", o.path, w.Mode)
	for _, s := range allRuns(w.Workflow) {
		_, _ = fmt.Fprintf(con.out, "  %s: %s: %s\n", s.Section, s.Step, upTo(s.Runs))
	}
	return nil
}

func allRuns(w *workflow.Workflow) []stepRuns {
	all := []stepRuns{}
	for at, step := range stepsOf(w) {
		all = append(all, stepRuns{Section: at.section, Step: at.label, Kind: step.Kind(), Runs: runs(step)})
	}
	if p := w.ErrorPolicy; itemRuns(p) > 1 {
		all = append(all, stepRuns{Section: "map", Step: "item", Kind: "item", Runs: itemRuns(p)})
	}
	return all
}
