package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/settings"
	"prodigy/internal/simulate"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	settings settingOptions
	// strict counts warnings as errors.
	strict bool
	// fix adds "workspace: git" to files that need it, before they are checked.
	fix bool
}

// newValidateCommand returns the command that checks workflow files without running anything.
func newValidateCommand(con *console) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate <workflow>...",
		Short: "Validate workflow files",
		Long: `Validate workflow files and report all problems: errors with their position, and warnings about
settings that have no effect or an unexpected one. A missing input file is only a warning, as
another program may create it.

Exit codes: 0 if all files are valid, 2 otherwise. With --strict, warnings count as errors.`,
		Example: `  prodigy validate workflow.yml
  prodigy validate --strict workflows/*.yml`,
		Args:              atLeastOne("workflow"),
		ValidArgsFunction: completeWorkflows,
	}
	onArgs(con, cmd, o.run)
	addFormat(con, cmd, term.JSON)
	addFlag(cmd, &o.strict, "strict", "treat warnings as errors")
	addFlag(cmd, &o.fix, "fix",
		"add \"workspace: git\" to files whose agents edit one directory or commit, or whose changes are merged, "+
			"before validation")
	o.settings.add(cmd)
	return cmd
}

// verdicts is what validate --json prints.
type verdicts struct {
	// Valid is set if all files are valid, and with --strict if none has a warning.
	Valid bool      `json:"valid"`
	Files []verdict `json:"files"`
}

// verdict is the result for one file.
type verdict struct {
	File  string `json:"file"`
	Valid bool   `json:"valid"`
	// Mode is empty for an invalid file.
	Mode     workflow.Mode      `json:"mode,omitempty"`
	Problems []workflow.Problem `json:"problems"`
	Warnings []workflow.Problem `json:"warnings"`
	// Steps are those of a valid file, with an entry for each item if items are retried.
	Steps []simulate.StepRuns `json:"steps"`
}

// run checks all files, and exits with 2 if one is invalid. A file that cannot be read is reported as an
// invalid one.
func (o *validateOptions) run(ctx context.Context, con *console, paths []string) error {
	if _, err := delayCap(0); err != nil {
		return err // a mistake in no file
	}
	all := verdicts{Valid: true, Files: []verdict{}}
	for _, path := range paths {
		if o.fix {
			if err := fixWorkspace(con, path); err != nil {
				return err
			}
		}
		v, err := judge(ctx, path, mapreduce.Config{InputMayCome: true}, o.settings)
		if err != nil {
			return err
		}
		all.Files = append(all.Files, v)
		all.Valid = all.Valid && v.Valid && (!o.strict || len(v.Warnings) == 0)
	}
	err := con.print(all, func(l term.Lines) {
		for _, v := range all.Files {
			v.print(con, l)
		}
	})
	if err == nil && !all.Valid {
		err = status(exitUsage)
	}
	return err
}

// fixWorkspace writes "workspace: git" into a workflow file that was written for agents with workspaces.
func fixWorkspace(con *console, path string) error {
	source, err := readNamed(path)
	if err != nil {
		return err
	}
	dir, err := currentDir()
	if err != nil {
		return err
	}
	fixed, ok := workflow.AddWorkspace(path, source, jobs.IsCheckout(dir))
	if !ok {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil {
		err = os.WriteFile(path, fixed, info.Mode().Perm())
	}
	if err != nil {
		return fmt.Errorf("write the workflow: %w", err)
	}
	con.sayf("%s: added \"workspace: git\"", path)
	return nil
}

// judge checks the file at path. Problems of the file are in the verdict; the error is for everything else.
func judge(ctx context.Context, path string, c mapreduce.Config, o settingOptions) (verdict, error) {
	v := verdict{
		File: path, Problems: []workflow.Problem{}, Warnings: []workflow.Problem{}, Steps: []simulate.StepRuns{},
	}
	w, err := load(ctx, path, c, o, settings.ToCheck)
	problems, invalid := problemsOf(err)
	switch {
	case invalid:
		v.Problems = problems
	case isA[*usageError](err):
		message := strings.TrimPrefix(err.Error(), path+": ")
		v.Problems = append(v.Problems, workflow.Problem{File: path, Message: message})
	case err != nil:
		return v, err
	default:
		v.Valid, v.Mode, v.Steps = true, w.Mode, simulate.RunsOf(w.Workflow)
		v.Warnings = append(v.Warnings, w.warnings...)
	}
	return v, nil
}

// print prints problems and warnings on stderr, and on stdout how often the steps of a valid file may run.
func (v verdict) print(con *console, l term.Lines) {
	printProblems(con, v.Problems, "")
	printProblems(con, v.Warnings, "warning: ")
	if !v.Valid {
		return
	}
	warned := ""
	if n := len(v.Warnings); n > 0 {
		warned = ", " + check.Counted(n, "warning")
	}
	l.Printf("%s: valid, mode %s%s", v.File, v.Mode, warned)
	for _, s := range v.Steps {
		l.Printf("  %s", s)
	}
}
