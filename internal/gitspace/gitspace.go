// Package gitspace gives each attempt a git workspace of its own, and merges what the attempts did.
//
// A workspace is a repository that borrows objects: one for each slot, used again, and clean for every attempt
// (slot.go). What is in it then is data of a stranger (vet.go). What an attempt did becomes one commit (collect.go)
// in the hub, a bare repository of the job (repository.go), where it is merged without a working tree (merge.go) and
// verified (verify.go). On other machines an attempt works in a clone, which gets and gives packs of objects
// (clone.go). The user's repository gets one hidden ref at the start and one branch at the end (deliver.go). Every
// git command goes through git.go.
//
// What counts is what the caller has recorded: the head of the job and the work that waits are given to each
// call. The refs follow from these.
package gitspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Config describes the workspaces of one job.
type Config struct {
	JobID string
	// Workflow is the name of the workflow, for commit messages.
	Workflow string
	// Dir is where the job was started: a directory in a checkout of the user's repository.
	Dir string
	// GitDir is where the hub and the template are, in the job directory. WorkDir is where the workspaces are.
	GitDir, WorkDir string
	// Environ is the environment of the run.
	Environ []string
	// Policy says how work is merged, verified and delivered. Empty values are the defaults.
	Policy workflow.Workspace
	// Ignore has patterns of files that agents leave and that are not part of their work.
	Ignore []string
	Slots  int
	// Register is that of the job, for the git commands. It may be nil.
	Register *process.Register

	// Run runs the steps of Policy.Setup (kind "setup") or Policy.Verify (kind "verify") in dir, which is in a
	// workspace. Base is the commit that it is at, for Verify the head before the batch. Worker is its slot, 0 for
	// those that are no slot's. A failed step is an Outcome with a Failure.
	Run func(ctx context.Context, kind, dir, base string, worker int) (agent.Outcome, error)

	// Emit is called when a workspace was made or deleted, whose slot that is, and when Policy.Verify begins on a commit
	// and has ended, but not after a stop. It may be nil.
	Emit func(slot int, e events.Event)
}

// Start is what a job with workspaces begins with.
type Start struct {
	// Base is the commit that workspaces begin at.
	Base string
	// Branch is the branch that was checked out, without refs/heads/. It is empty if HEAD was detached.
	Branch string
	// Files and Bytes are how many files a workspace has and about how much of the disk it takes. Bytes is 0 if that
	// is not known without asking a remote.
	Files int
	Bytes int64
	// Notices are for people: what agents will not see.
	Notices []string

	// Checkout is the state of the user's checkout, for Space.Changed. Nil means that it is as it is.
	Checkout []string
}

// Work is what an attempt did.
type Work struct {
	ItemID         string
	Index, Attempt int
	// Base is the commit that the attempt began at.
	Base string
	// Date is that of the commit that merges the work, so that merging it again makes the same commit.
	Date time.Time

	events.Changes
}

// MergedItem is work that was merged.
type MergedItem struct {
	Work
	Merge string // the commit of the job's history that has it
}

// Rejected is work that was not merged.
type Rejected struct {
	Work
	// Type is TypeMergeConflict or TypeVerifyFailed.
	Type    retry.Type
	Message string
	// Conflicts has at most events.MaxConflicts of them.
	Conflicts []events.Conflict
	// Outcome is that of the steps that verify. It is nil for a conflict.
	Outcome *agent.Outcome
}

// Merged is what became of a list of work: each is in one of both lists.
type Merged struct {
	Head   string // with all Items
	Items  []MergedItem
	Failed []Rejected
}

// Delivery is how the result reached the user's repository.
type Delivery struct {
	// Branch has the result, without refs/heads/. It is empty if nothing was merged, or the branch could not be moved.
	Branch string
	// Hidden is the ref that always has the result.
	Hidden  string
	Notices []string
}

// StateError says why what is in a workspace or in the user's repository cannot be used. The reason is a
// sentence for people. Other errors are those of git, the disk, or a stop.
type StateError struct{ Reason string }

func (e *StateError) Error() string { return e.Reason }

// stateErrorf is fmt.Errorf for a StateError.
func stateErrorf(format string, args ...any) error {
	return &StateError{Reason: fmt.Sprintf(format, args...)}
}

// Executor runs attempts. *agent.Executor is one.
type Executor interface {
	Execute(ctx context.Context, a agent.Attempt) (agent.Outcome, error)
	Holds(ctx context.Context, ids []string) ([]string, error)
}

// Space has the workspaces and the hub of one job. Only one process may have it open; the lock of the job sees
// to that. Execute, Phase and Merge may run at once. Merge and Publish may not, nor two of one of them.
type Space struct {
	Config
	git git
	// user is the user's repository as it is now, not as the job began with it.
	user   checkout
	record record
	// umask is what new directories do not get.
	umask fs.FileMode

	// phase is held while the job's own workspace is made or looked at. phaseBase is what Phase was called with last.
	phase     sync.Mutex
	phaseBase string
	// attributesOf is the head whose .gitattributes files are in attributesDir. Only used by the merger.
	attributesOf string
	// unpacked counts the work that was merged since the objects of the hub were packed.
	unpacked atomic.Int64
	// packed is the head at which the objects were packed. It is empty for the base of the job.
	packed string
	// lost says, by commit, why the work that is in it cannot be merged any more.
	lost map[string]string
	// sealed is what is known of the workspaces that this process has sealed, by name.
	sealed sync.Map
	// before is Start.Checkout.
	before []string

	// store is the directory of the objects of a clone. It is empty if this is not a clone.
	store string
	// tips are tags that come with the base, of a clone or of a Space that was asked for its seed.
	tips []string
	// haves are the commits of a clone that are here with all that they contain, the base first. It is empty if nobody
	// knows.
	haves []string
}

// record is what a job keeps of its start.
type record struct {
	Base     string   `json:"base"`
	Prefix   string   `json:"prefix"`
	Format   string   `json:"format"` // of object names: sha1 or sha256
	Identity identity `json:"identity"`
	Sparse   bool     `json:"sparse,omitempty"`
}

// identity is the author of a commit.
type identity struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// environ is what commands get that look at objects as they are, and commit as somebody.
func (i identity) environ() []string {
	return []string{
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_AUTHOR_NAME=" + i.Name, "GIT_AUTHOR_EMAIL=" + i.Email,
		"GIT_COMMITTER_NAME=" + i.Name, "GIT_COMMITTER_EMAIL=" + i.Email,
	}
}

func (s *Space) hubDir() string      { return filepath.Join(s.GitDir, "hub") }
func (s *Space) templateDir() string { return filepath.Join(s.GitDir, "template") }
func (c Config) recordFile() string  { return filepath.Join(c.GitDir, "start.json") }

// hub is the place of commands that work on the objects of the job.
func (s *Space) hub() place {
	p := s.git.bare(s.hubDir())
	p.env = append(p.env, s.record.Identity.environ()...)
	return p
}

// bare is the place of commands that work on a repository without a working tree.
func (g *git) bare(dir string) place { return place{git: g, dir: dir, env: []string{"GIT_DIR=" + dir}} }

const headRef = "refs/heads/job" // in the hub

// itemRef is the ref of work in the hub.
func itemRef(index, attempt int) string { return fmt.Sprintf("refs/items/%d/%d", index, attempt) }

// ref returns the ref of the hub that has the work of an attempt.
func (w Work) ref() string { return itemRef(w.Index, w.Attempt) }

// hiddenRef is the ref in the user's repository that keeps what the job needs. It is not refs/prodigy/<job>:
// with that, the name of the result branch would be ambiguous for git.
func (c Config) hiddenRef() string { return "refs/prodigy/jobs/" + c.JobID }

// ResultBranch returns the branch that the result is delivered as.
func (c Config) ResultBranch() string { return "prodigy/" + c.JobID }

// Branch returns the branch that is checked out for an item. It is not below ResultBranch: both can be in one
// repository.
func (c Config) Branch(index int) string { return c.ResultBranch() + "-" + strconv.Itoa(index) }

// Open makes the hub of a new job, or restores that of a job that is resumed: locks that a killed git left are
// removed, and the refs are set from what the caller has recorded. Head is the recorded head, and live the work
// that waits to be merged.
func Open(ctx context.Context, c Config, start Start, head string, live []Work) (*Space, error) {
	s, err := newSpace(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.user, err = s.git.inspect(ctx, c.Dir); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(s.recordFile())
	if errors.Is(err, fs.ErrNotExist) {
		err = s.makeHub(ctx, start)
	} else if err == nil {
		if err = json.Unmarshal(data, &s.record); err != nil {
			err = fmt.Errorf("read %s: %w", s.recordFile(), err)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := s.restore(ctx, head, live); err != nil {
		return nil, err
	}
	if s.before = start.Checkout; s.before == nil {
		head, changes, err := s.user.state(ctx)
		if err != nil {
			return nil, err
		}
		s.before = kept(head, changes)
	}
	return s, nil
}

// newSpace makes the directories of a Space, and looks for git.
func newSpace(ctx context.Context, c Config) (s *Space, err error) {
	// The workspaces are compared with paths that the system reports, which have no symbolic links in them.
	for _, dir := range []*string{&c.GitDir, &c.WorkDir} {
		if *dir, err = madeDir(*dir); err != nil {
			return nil, err
		}
	}
	if c.Emit == nil {
		c.Emit = func(int, events.Event) {}
	}
	s = &Space{Config: c}
	if s.git, err = newGit(ctx, c); err != nil {
		return nil, err
	}
	s.umask, err = probeUmask(c.WorkDir)
	return s, err
}

// madeDir makes a directory and returns its path without symbolic links.
func madeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("create the workspace directory: %w", err)
	}
	return dir, nil
}

// probeUmask returns the permissions that new directories do not get.
func probeUmask(dir string) (fs.FileMode, error) {
	probe, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return 0, err
	}
	inside := filepath.Join(probe, "d")
	err = os.Mkdir(inside, 0o777)
	info, statErr := os.Stat(inside)
	if err := errors.Join(err, statErr, os.RemoveAll(probe)); err != nil {
		return 0, err
	}
	return 0o777 &^ info.Mode().Perm(), nil
}

// Environ returns the environment for the commands of the job: environ without what would lead git to another
// repository than that of the directory it is in, or a program back to the checkout, and with what keeps git from
// leaving the workspaces and from asking questions.
func (s *Space) Environ(environ []string) []string {
	ceilings := []string{s.WorkDir}
	env := make([]string, 0, len(environ)+3)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "OLDPWD":
		case name == "GIT_CEILING_DIRECTORIES" && value != "":
			ceilings = append(ceilings, value)
		case !check.Among(repositoryVars, name):
			env = append(env, kv)
		}
	}
	ceiling := strings.Join(ceilings, string(filepath.ListSeparator))
	return append(env, "GIT_CEILING_DIRECTORIES="+ceiling, "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true")
}

// Places returns the variables of environ that name the user's checkout, or the directory in it that the job was
// started in, each with the path to the same place from where commands begin in a workspace. HOME stays the home,
// even if that is a checkout.
func (s *Space) Places(environ []string) map[string]string {
	known, named := s.user.places(), make(map[string]string)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if path, is := known[filepath.Clean(value)]; is && name != "HOME" && !strings.HasPrefix(name, "PRODIGY_") {
			named[name] = path
		}
	}
	return named
}
