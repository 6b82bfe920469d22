package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/simulate"
	"prodigy/internal/term"
	"prodigy/internal/web"
	"prodigy/internal/workflow"
)

// testSuffix ends the name of a test file, before its extension.
const testSuffix = "_test"

type testOptions struct {
	format term.Format
	// run is a regular expression for the names of cases. Empty matches all.
	run string
	// quiet prints only the cases that failed.
	quiet bool
}

// newTestCommand returns the command test. Its file cannot be called cmd_test.go, which would be a test.
func newTestCommand(con *console) *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test [workflow or directory]...",
		Short: "Test workflows against scripted outcomes",
		Long: `Test workflows against scripted outcomes. NAME_test.yml holds the test cases for NAME.yml in the same
directory. Each case is a simulated job (see simulate) with expected item results, dead letters,
events and exit code.

A directory stands for all test files in it and below; the default is the current directory. As with
run, relative paths in a workflow start at the current directory.

Exit codes: 0 all cases passed, 1 a case failed, 2 a file is invalid, or there are no cases.`,
		Example: `  prodigy test
  prodigy test night.yml --run outage
  prodigy test workflows --output junit > report.xml`,
		ValidArgsFunction: completeWorkflow,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTest(cmd.Context(), con, o, args)
		},
	}
	o.format = term.Human
	addChoice(cmd, &o.format, "output", "output format", term.Human, asJUnit)
	cmd.Flags().StringVar(&o.run, "run", "", "run only cases matching this regular expression")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print only failed cases")
	return cmd
}

func runTest(ctx context.Context, con *console, o testOptions, args []string) error {
	chosen, err := regexp.Compile(o.run)
	if err != nil {
		return usagef("--run: %w", err)
	}
	files, err := testFiles(args)
	if err != nil {
		return err
	}
	var all []web.TestCase
	broken := false
	err = untilSignal(ctx, func(ctx context.Context) error {
		for _, file := range files {
			results, err := o.testFile(ctx, con, file, chosen)
			all = append(all, results...)
			if err != nil {
				broken = true
				explain(con.say(), nil, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range all {
		if len(r.Wrong) > 0 {
			failed++
		}
	}
	switch {
	case len(all) == 0 && !broken:
		return refusef("no test case matches --run %s", o.run)
	case o.format == asJUnit:
		err = web.WriteTestCases(con.out, all)
	case len(all) > 0:
		_, err = fmt.Fprintf(con.out, "%d of %s passed\n", len(all)-failed, check.Counted(len(all), "case"))
	}
	switch {
	case err != nil:
		return unlessClosed(err)
	case broken:
		return status(exitUsage)
	case failed > 0:
		return status(exitFailed)
	}
	return nil
}

// testFiles returns the test files that arguments stand for.
func testFiles(args []string) ([]string, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, refusef("%w", err)
		}
		if !info.IsDir() {
			file := arg
			if !isTestFile(arg) {
				ext := filepath.Ext(arg)
				file = strings.TrimSuffix(arg, ext) + testSuffix + ext
				if !isFile(file) {
					return nil, refusef("%s has no tests: %s not found", arg, file)
				}
			}
			files = append(files, file)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && isTestFile(path) {
				files = append(files, path)
			}
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 1 && path != arg {
				return fs.SkipDir
			}
			return err
		})
		if err != nil {
			return nil, refusef("%w", err)
		}
		if len(files) == before {
			return nil, refusef("%s: no *%s.yml files found", arg, testSuffix)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func isTestFile(path string) bool {
	ext := filepath.Ext(path)
	return (ext == ".yml" || ext == ".yaml") && strings.HasSuffix(strings.TrimSuffix(path, ext), testSuffix)
}

// testFile runs the chosen cases of a file.
func (o testOptions) testFile(ctx context.Context, con *console, file string, chosen *regexp.Regexp) (
	[]web.TestCase, error,
) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, refusef("%w", err)
	}
	cases, err := simulate.ParseCases(file, data)
	if err != nil {
		return nil, err
	}
	ext := filepath.Ext(file)
	path := cmp.Or(cases.Workflow, strings.TrimSuffix(filepath.Base(file), testSuffix+ext)+ext)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	var results []web.TestCase
	for i := range cases.Cases {
		c := &cases.Cases[i]
		if !chosen.MatchString(c.Name) {
			continue
		}
		r, err := testCase(ctx, con, path, file, c)
		if err != nil || ctx.Err() != nil {
			return results, err
		}
		results = append(results, r)
		if o.format == term.Human {
			printCase(r, con, o.quiet)
		}
	}
	return results, nil
}

// testCase simulates the job of one case. The error says that there can be none.
func testCase(ctx context.Context, con *console, path, file string, c *simulate.Case) (web.TestCase, error) {
	restore, err := setEnviron(c.Env.Assignments())
	if err != nil {
		return web.TestCase{}, err
	}
	defer restore()
	o := simulateOptions{at: c.At, chosen: c.Items}
	o.path, o.seed = path, uint64(c.Seed)
	o.quiet, o.grace, o.maxRetries, o.maxParallel = true, defaultGrace, defaultMaxRetries, c.MaxParallel
	o.settings.params, o.settings.args, o.settings.profile = c.Params.Assignments(), c.Args, c.Profile
	if o.at == "" {
		o.at = "2030-01-01"
	}
	if c.ItemsFile != "" {
		o.items = filepath.Join(filepath.Dir(file), c.ItemsFile)
	}
	own := *con // each job has secrets of its own
	job, cleanup, err := o.prepare(ctx, &own, func(begin time.Time) (simulate.Model, error) {
		c.Script.Seed, c.Script.Begin = uint64(c.Seed), begin
		return c.Script, nil
	})
	if err != nil {
		if _, is := problemsOf(err); is {
			return web.TestCase{}, err
		}
		return web.TestCase{}, refusef("%s:%d: %s: %w", file, c.Pos.Line, c.Name, err)
	}
	defer cleanup()
	var seen simulate.Observer
	var broken error
	tally := simulate.NewTally()
	job.Observe = func(records []events.Record) {
		for _, r := range records {
			tally.Apply(r)
		}
		broken = errors.Join(broken, seen.Watch(c, records))
	}
	began := time.Now()
	result, err := simulate.Run(ctx, job)
	if err = errors.Join(err, broken); err != nil {
		if isA[*workflow.InvalidError](err) {
			return web.TestCase{}, err
		}
		return web.TestCase{}, fmt.Errorf("%s:%d: %s: %w", file, c.Pos.Line, c.Name, err)
	}
	return web.TestCase{
		File: file, Name: c.Name, Line: c.Pos.Line, Wrong: seen.Check(c, resultCode(result, nil, false), result,
			tally), Took: time.Since(began), Virtual: result.Duration,
	}, nil
}

// setEnviron sets variables, and returns what sets them back.
func setEnviron(vars []string) (restore func(), err error) {
	var undo []func() error
	restore = func() {
		for _, one := range slices.Backward(undo) {
			_ = one()
		}
	}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		if before, had := os.LookupEnv(name); had {
			undo = append(undo, func() error { return os.Setenv(name, before) })
		} else {
			undo = append(undo, func() error { return os.Unsetenv(name) })
		}
		if err := os.Setenv(name, value); err != nil {
			restore()
			return nil, refusef("env: %s: %w", name, err)
		}
	}
	return restore, nil
}

func printCase(r web.TestCase, con *console, quiet bool) {
	k := con.look()
	if len(r.Wrong) == 0 {
		if !quiet {
			_, _ = fmt.Fprintf(con.out, "%s    %s: %s (%s)\n", k.Paint(term.Green, "ok"), term.Visible(r.File),
				term.Visible(r.Name), duration.Format(r.Virtual))
		}
		return
	}
	_, _ = fmt.Fprintf(con.out, "%s  %s:%d: %s\n", k.Paint(term.Red, "FAIL"), term.Visible(r.File), r.Line,
		term.Visible(r.Name))
	for _, line := range r.Wrong {
		_, _ = fmt.Fprintf(con.out, "      %s\n", term.Visible(line))
	}
}
