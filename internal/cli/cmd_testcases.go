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
	"prodigy/internal/process"
	"prodigy/internal/simulate"
	"prodigy/internal/term"
	"prodigy/internal/web"
	"prodigy/internal/workflow"
)

// testSuffix ends the name of a test file, before its extension.
const testSuffix = "_test"

type testOptions struct {
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
		ValidArgsFunction: completeWorkflows,
	}
	onArgs(con, cmd, o.test)
	addChoice(cmd, &con.format, "output", "output format", term.Human, asJUnit)
	addFlag(cmd, &o.run, "run", "run only cases matching this regular expression")
	addFlag(cmd, &o.quiet, "quiet,q", "print only failed cases")
	return cmd
}

func (o *testOptions) test(ctx context.Context, con *console, args []string) error {
	chosen, err := regexp.Compile(o.run)
	if err != nil {
		return usagef("--run: %w", err)
	}
	files, err := testFiles(args)
	if err != nil {
		return err
	}
	var all []web.Suite
	broken := false
	err = untilSignal(ctx, func(ctx context.Context) error {
		for _, file := range files {
			suite, err := o.testFile(ctx, con, file, chosen)
			if len(suite.Cases) > 0 {
				all = append(all, suite)
			}
			if err != nil {
				broken = true
				explain(con, nil, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	cases, failed := 0, 0
	for _, suite := range all {
		cases += len(suite.Cases)
		failed += suite.Count("failure")
	}
	switch {
	case len(all) == 0 && !broken:
		return refusef("no test case matches --run %s", o.run)
	case con.format == asJUnit:
		err = web.WriteJUnit(con.out, all...)
	case cases > 0:
		_, err = fmt.Fprintf(con.out, "%d of %s passed\n", cases-failed, check.Counted(cases, "case"))
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
		root := arg
		if isFile(arg) && !isTestFile(arg) {
			ext := filepath.Ext(arg)
			root = strings.TrimSuffix(arg, ext) + testSuffix + ext
			if !isFile(root) {
				return nil, refusef("%s has no tests: %s not found", arg, root)
			}
		}
		before := len(files)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case !d.IsDir() && isTestFile(path):
				files = append(files, path)
			}
			return nil
		})
		if err == nil && len(files) == before {
			err = fmt.Errorf("%s: no *%s.yml files found", root, testSuffix)
		}
		if err != nil {
			return nil, refusef("%w", err)
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
func (o *testOptions) testFile(ctx context.Context, con *console, file string, chosen *regexp.Regexp) (
	suite web.Suite, err error,
) {
	suite.Name = file
	data, err := readNamed(file)
	if err != nil {
		return suite, err
	}
	cases, err := simulate.ParseCases(file, data)
	if err != nil {
		return suite, err
	}
	ext := filepath.Ext(file)
	path := process.Resolve(filepath.Dir(file),
		cmp.Or(cases.Workflow, strings.TrimSuffix(filepath.Base(file), testSuffix+ext)+ext))
	for i := range cases.Cases {
		c := &cases.Cases[i]
		if !chosen.MatchString(c.Name) {
			continue
		}
		began := time.Now()
		wrong, virtual, err := testCase(ctx, con, path, file, c)
		if err != nil || ctx.Err() != nil {
			return suite, err
		}
		one := web.Case{Name: c.Name, Took: time.Since(began)}
		if len(wrong) > 0 {
			one.Bad, one.Message, one.Type, one.Text = "failure", wrong[0], "expectation", strings.Join(wrong, "\n")
		}
		suite.Took += one.Took
		suite.Cases = append(suite.Cases, one)
		if con.format != term.Human || o.quiet && len(wrong) == 0 {
			continue
		}
		l, where, name := con.lines(), term.Visible(file), term.Visible(c.Name)
		if len(wrong) == 0 {
			l.Printf("%s    %s: %s (%s)", l.Paint(term.Green, "ok"), where, name, duration.Format(virtual))
		} else {
			l.Printf("%s  %s:%d: %s", l.Paint(term.Red, "FAIL"), where, c.Pos.Line, name)
		}
		for _, line := range wrong {
			l.Printf("      %s", term.Visible(line))
		}
	}
	return suite, nil
}

// testCase simulates the job of one case. It returns how that differs from what is expected, and how long it took in
// virtual time. The error says that there can be no such job.
func testCase(ctx context.Context, con *console, path, file string, c *simulate.Case) (
	wrong []string, virtual time.Duration, err error,
) {
	restore, err := setEnviron(c.Env.Assignments())
	defer restore()
	if err != nil {
		return nil, 0, err
	}
	o := simulateOptions{at: c.At, chosen: c.Items}
	o.path, o.Seed = path, uint64(c.Seed)
	o.quiet, o.Grace, o.MaxRetries, o.MaxParallel = true, defaultGrace, defaultMaxRetries, c.MaxParallel
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
			return nil, 0, err
		}
		return nil, 0, refusef("%s:%d: %s: %w", file, c.Pos.Line, c.Name, err)
	}
	defer cleanup()
	var seen simulate.Observer
	var broken error
	tally := simulate.NewTally()
	job.Observe = func(records []events.Record) {
		tally.Observe(records)
		broken = errors.Join(broken, seen.Watch(c, records))
	}
	result, err := simulate.Run(ctx, job)
	if err = errors.Join(err, broken); err != nil {
		if isA[*workflow.InvalidError](err) {
			return nil, 0, err
		}
		return nil, 0, fmt.Errorf("%s:%d: %s: %w", file, c.Pos.Line, c.Name, err)
	}
	return seen.Check(c, resultCode(result, nil, false), result, tally), result.Duration, nil
}

// setEnviron sets variables, and returns what sets the environment back.
func setEnviron(vars []string) (restore func(), err error) {
	before := os.Environ()
	set := func(vars []string) (err error) {
		for _, v := range vars {
			name, value, _ := strings.Cut(v, "=")
			if failed := os.Setenv(name, value); failed != nil {
				err = refusef("env: %s: %w", name, failed)
			}
		}
		return err
	}
	return func() {
		os.Clearenv()
		_ = set(before) // as it was
	}, set(vars)
}
