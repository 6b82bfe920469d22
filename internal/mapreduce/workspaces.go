package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// clones are those of a job.
type clones struct {
	cloner
	job *owner
}

var _ cloner = (*gitspace.Space)(nil)

func (c clones) Dir() string { return c.job.place.GitDir() }

func (c clones) Setup() *agent.Attempt {
	a, ok := c.job.workspaceSteps["setup"]
	if !ok || len(a.Steps) == 0 {
		return nil
	}
	return &a
}

// gitWorkspaces are the Workspaces of a Config that has none.
type gitWorkspaces struct{}

func (gitWorkspaces) Check(ctx context.Context, c gitspace.Config, allowDirty bool) (gitspace.Start, error) {
	return gitspace.Check(ctx, c, allowDirty)
}

func (gitWorkspaces) Open(ctx context.Context, c gitspace.Config, start gitspace.Start, head string,
	live []gitspace.Work,
) (Space, error) {
	return gitspace.Open(ctx, c, start, head, live)
}

// StartOf returns what a new job of w would begin with, if it has workspaces. It reads the repository and
// changes nothing. The error is a *job.RefusedError when such a job would be refused.
func StartOf(ctx context.Context, c Config, w *workflow.Workflow, slots int) (gitspace.Start, error) {
	if c.OnFleet {
		slots = 0 // they are elsewhere
	}
	start, err := c.workspaces().Check(ctx, gitspace.Config{
		Dir: c.Dir, Environ: c.Environ, Policy: w.Workspace, Slots: slots, Workflow: w.Name, WorkDir: workRoot(c),
	}, c.AllowDirty)
	if err != nil && ctx.Err() == nil {
		err = job.Refusef("workspace: %v", err)
	}
	return start, err
}

func (c Config) workspaces() Workspaces {
	if c.Workspaces != nil {
		return c.Workspaces
	}
	return gitWorkspaces{}
}

// workRoot returns the directory of the workspaces of all jobs.
func workRoot(c Config) string { return cmp.Or(c.WorkRoot, filepath.Join(c.Home.Root, "work")) }

// The names of attempts that are about a workspace, in the place of a phase. Their events are not recorded.
const (
	ofSetup  = "workspace"
	ofVerify = "verify"
)

// isolated reports whether the job has workspaces.
func (j *owner) isolated() bool { return j.workflow.Workspace.Isolated() }

// gitConfig returns the configuration of the job's workspaces.
func (j *owner) gitConfig() gitspace.Config {
	return gitspace.Config{
		JobID: j.place.ID, Workflow: j.workflow.Name, Dir: j.config.Dir, GitDir: j.place.GitDir(),
		WorkDir: j.meta.WorkDir,
		Environ: j.config.Environ, Policy: j.workflow.Workspace, Ignore: j.config.Agents.Ignored(), Slots: j.parallel,
		Register: j.register,
		Run:      j.runInWorkspace,
		Emit:     func(_ int, e events.Event) { j.emit(e) },
	}
}

// openWorkspaces opens the workspaces of the job. It comes before any command of the job runs, and after the
// record of what the job begins with is on disk: start is that of a new job, and empty for one that is
// continued.
func (j *owner) openWorkspaces(ctx context.Context, start gitspace.Start) error {
	if !j.isolated() {
		return nil
	}
	if start.Base == "" {
		start = gitspace.Start{Base: j.Base, Branch: j.TargetBranch}
		if j.Ended == "" { // the run before died, and has not looked at the checkout
			start.Checkout = j.Checkout
		}
	}
	var live []gitspace.Work
	for _, m := range j.Merging {
		live = append(live, workOf(m))
	}
	space, err := j.config.workspaces().Open(ctx, j.gitConfig(), start, j.Head, live)
	if err != nil {
		return fmt.Errorf("open the workspaces: %w", err)
	}
	j.space = space
	j.config.Environ = space.Environ(j.config.Environ)
	j.places = space.Places(j.config.Environ)
	for _, text := range start.Notices {
		j.notice(text)
	}
	return nil
}

// uncommitted says what to do about an input file that the checkout has and the workspaces have not; empty:
// that is not what err is about.
func (j *owner) uncommitted(err error) string {
	var missing *items.NoFileError
	if empty, ok := errors.AsType[*items.EmptyError](err); ok && empty.Glob && j.isolated() {
		return "; workspaces have only committed files, here at " + events.ShortCommit(j.Head)
	}
	if !j.isolated() || !errors.As(err, &missing) {
		return ""
	}
	file := process.Resolve(j.config.Dir, missing.Name)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return fmt.Sprintf("; it is in %s, but not in commit %s, from which workspaces start: commit it and run the workflow again, or use its full path, %s",
		j.config.Dir, events.ShortCommit(j.Head), file)
}

// setSteps takes over what the attempts about workspaces have in common with those of a phase, which is about to begin.
func (j *owner) setSteps(a agent.Attempt) {
	if j.space == nil {
		return
	}
	common := agent.Attempt{
		JobID: a.JobID, Workflow: a.Workflow, CorrelationID: j.place.ID, Env: a.Env, Secrets: a.Secrets,
		Args: a.Args, Earlier: a.Earlier,
	}
	common.Number = 1
	setup, verify := common, common
	setup.Phase, setup.Steps = ofSetup, j.workflow.Workspace.Setup
	// In front of the others, as if the environment had it: they may name it.
	setup.Env = slices.Concat([]workflow.EnvVar{{
		Name: "PRODIGY_CHECKOUT", Value: workflow.Text{Value: j.config.Dir},
		Literal: true,
	}}, a.Env)
	setup.SetSpec()
	verify.Phase = ofVerify
	if v := j.workflow.Workspace.Verify; v != nil {
		verify.Steps, verify.Limits.Agent = v.Commands, v.Timeout
	}
	verify.SetSpec()
	j.workspaceSteps = map[string]agent.Attempt{"setup": setup, "verify": verify}
}

// runInWorkspace runs the steps of workspace.setup or workspace.verify. It is called on the goroutines of
// attempts and of the merger.
func (j *owner) runInWorkspace(ctx context.Context, kind, dir, base string, worker int) (agent.Outcome, error) {
	a := j.workspaceSteps[kind]
	a.ID = j.place.ID + "/" + a.Phase + "/" + filepath.Base(dir)
	a.Dir, a.Base, a.Worker = dir, base, worker
	a.Outputs = outputs.Policy{}
	return j.executor.Execute(ctx, a)
}

// executeAttempt runs an attempt where it belongs: in the workspace of its slot, or that of the phases that run once.
func (j *owner) executeAttempt(ctx context.Context, a agent.Attempt) (agent.Outcome, error) {
	if j.space == nil {
		return j.executor.Execute(ctx, a)
	}
	if a.ItemID != "" {
		return j.space.Execute(ctx, j.executor, a)
	}
	dir, err := j.space.Phase(ctx, a.Base)
	if err != nil {
		return phaseFailure(err)
	}
	a.Dir = dir
	if a.Merge != nil {
		m := *a.Merge
		m.Worktree = dir
		h, err := j.space.History(ctx, j.Base, a.Base)
		if err != nil {
			return agent.Outcome{}, err
		}
		m.Commits, m.Subjects, m.Files = h.Commits, h.Subject, h.Files
		a.Merge = &m
	}
	o, err := j.executor.Execute(ctx, a)
	if err != nil || o.Failure != nil {
		return o, err
	}
	o.Commit, err = j.space.PhaseHead(ctx, j.workflow.Mode == workflow.Standard, j.workflow.Name)
	if err != nil {
		return phaseFailure(err)
	}
	return o, nil
}

// phaseFailure makes a failure of the phase of what is wrong with its workspace. Other errors are prodigy's own.
func phaseFailure(err error) (agent.Outcome, error) {
	var state *gitspace.StateError
	if !errors.As(err, &state) {
		return agent.Outcome{}, err
	}
	return agent.Outcome{ExitCode: -1, Failure: &agent.Failure{Failure: retry.Failure{
		Type:    retry.TypeWorkspace,
		Message: state.Reason, ExitCode: -1,
	}}}, nil
}

// base returns the commit at which an attempt at an item begins: the head of now. With `order: items` and several
// slots the first attempts of all begin at the same commit, so that what they do does not depend on who was faster.
func (j *owner) base(index int) string {
	if j.workflow.Workspace.Order == workflow.OrderItems && (j.parallel > 1 || j.elastic) && j.Failures[index] == 0 &&
		!j.Dead(index) {
		return j.MapBase
	}
	return j.Head
}

// deliver brings the result of the run into the user's repository, whatever the run came to: nothing is to be
// only in prodigy's home. It returns what the run has come to then.
func (j *owner) deliver(ctx context.Context, v Result) Result {
	m := v.Merge
	m.Head = cmp.Or(v.head, j.Head) // that of a standard workflow is in no record before the last
	fail := func(what string, err error) Result {
		failed := Result{State: jobs.Failed, Reason: what + ": " + err.Error(), Merge: m}
		var state *gitspace.StateError
		if !errors.As(err, &state) {
			failed.Cause = err
		}
		if v.State != jobs.Completed { // what the run itself came to says more
			j.notice(failed.Reason)
			return v
		}
		failed.Reprocessed, failed.Recovered = v.Reprocessed, v.Recovered
		return failed
	}
	d, err := j.space.Deliver(ctx, m.Head)
	if m.Branch, m.Hidden = d.Branch, d.Hidden; err != nil {
		return fail("deliver the result", err)
	}
	for _, text := range d.Notices {
		j.notice(text)
	}
	if paths := j.space.Changed(ctx); len(paths) > 0 {
		j.notice("the working directory has changed since the job started, by you or by an agent that left its workspace: " +
			check.Few(paths, 5))
	}
	if v.State != jobs.Completed {
		return v
	}
	if into := j.workflow.Workspace.Into; into != "" && m.Head != j.Base {
		if err := j.space.Into(ctx, into, m.Head); err != nil {
			return fail("into "+into, err)
		}
		m.Into = into
	}
	if err := j.space.Clean(ctx); err != nil {
		j.notice("could not delete the workspaces: " + err.Error())
		return v
	}
	j.Record(events.WorktreeCleaned{Reason: "the job has completed"})
	if j.Policy.Metrics().Unsuccessful() == 0 { // else the hub alone has the work of those
		if err := j.space.Forget(); err != nil {
			j.notice(err.Error())
		}
	}
	return v
}

// RemoveWorkspaces deletes what a job with workspaces has outside of its own directories: the workspaces, and
// the hidden ref in the user's repository. The branch that was delivered stays.
func RemoveWorkspaces(ctx context.Context, place jobs.Job, environ []string) error {
	meta, err := place.ReadMeta()
	if err != nil || meta.WorkDir == "" {
		return nil // it has none, or nobody can say where
	}
	if err := gitspace.Remove(ctx, gitspace.Config{
		JobID: place.ID, Dir: meta.Dir, GitDir: place.GitDir(),
		WorkDir: meta.WorkDir, Environ: environ,
	}); err != nil {
		return fmt.Errorf("remove the workspaces of %s: %w", place.ID, err)
	}
	_ = os.Remove(filepath.Dir(meta.WorkDir)) // of the last job of its repository
	return nil
}

// workOf returns the work of an item for the merger.
func workOf(m job.Merging) gitspace.Work {
	return gitspace.Work{
		ItemID: m.ItemID, Index: m.ItemIndex, Attempt: m.Attempt, Base: m.Base, Date: m.Done, Changes: m.Changes,
	}
}
