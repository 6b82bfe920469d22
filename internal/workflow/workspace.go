package workflow

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
)

// Workspace says where the agents work, and what becomes of what they did. The zero Workspace is that of a
// shared directory.
type Workspace struct {
	Mode WorkspaceMode `short:"true"`                // git, or shared or empty
	Base string        `yaml:"base" text:"revision"` // the revision that the job begins at; default HEAD

	// what counts of what an agent did: `all`, also what it has not committed, or only its `commits`; default
	// all
	Take Take `yaml:"take"`

	// what the result has for each item: a `merge` commit, or one `squash` commit; default merge
	History History `yaml:"history"`

	// what is merged first: in the order of `completion`, or of the `items`, so that nothing depends on which
	// agent was faster: with several slots all begin at the same commit; default completion
	Order Order `yaml:"order"`

	Setup []Step `yaml:"setup"` // steps that run once in each workspace when it is made

	// patterns, as in a .gitignore, of ignored files that stay in a workspace from one agent to the next;
	// default none
	Keep []string `yaml:"keep" text:"filled"`

	// the directories that a workspace has; default those of the checkout
	Sparse []string `yaml:"sparse" text:"filled"`

	Verify *Verify `yaml:"verify"` // steps that what was merged has to pass before it counts

	// the branch that is fast-forwarded to the result when the job has completed; default none
	Into string `yaml:"into" text:"revision"`

	// steps that resolve a conflict: they run instead of the agent's, in a workspace that has the conflicted
	// merge, once for each conflict; what they leave is merged. When they fail, the conflict stands
	Resolve []Step `yaml:"resolve"`

	// whether the commits that prodigy makes are signed, as git is set up to; default false
	Sign bool `yaml:"sign"`

	Pos Pos
}

// WorkspaceMode says where the agents of a job work.
type WorkspaceMode string

const (
	SharedWorkspace WorkspaceMode = "shared" // in the directory that the job was started in
	GitWorkspace    WorkspaceMode = "git"    // each in a repository of its own
)

// Words returns what can be written.
func (WorkspaceMode) Words() []string { return check.Words(GitWorkspace, SharedWorkspace) }

// Sharing says whether agents are meant to edit one directory at once.
type Sharing string

// SharingOK is the only Sharing that can be written.
const SharingOK Sharing = "ok"

// Words returns what can be written.
func (Sharing) Words() []string { return check.Words(SharingOK) }

// Isolated reports whether each agent has a workspace of its own.
func (w Workspace) Isolated() bool { return w.Mode == GitWorkspace }

// Take says what of the work of an agent counts.
type Take string

const (
	TakeAll     Take = "all"
	TakeCommits Take = "commits"
)

// Words returns what can be written.
func (Take) Words() []string { return check.Words(TakeAll, TakeCommits) }

// History says what the result has for each item.
type History string

const (
	HistoryMerge  History = "merge"
	HistorySquash History = "squash"
)

// Words returns what can be written.
func (History) Words() []string { return check.Words(HistoryMerge, HistorySquash) }

// Order says in which order work is merged.
type Order string

const (
	OrderCompletion Order = "completion"
	OrderItems      Order = "items"
)

// Words returns what can be written.
func (Order) Words() []string { return check.Words(OrderCompletion, OrderItems) }

// Verify is how what was merged is verified.
type Verify struct {
	Commands []Step        `yaml:"commands" required:"true"` // the steps, run on the merged tree; required
	Timeout  time.Duration `yaml:"timeout" unit:"seconds"`   // of the steps together; default none

	// how many items are verified at once; halved when it fails, until the one is found that is to blame;
	// default 8
	Batch int `yaml:"batch" least:"1"`
}

// verifyBatch is how many items are verified at once when the workflow does not say it.
const verifyBatch = 8

// withDefaults returns w with the default of each key that was not written.
func (w Workspace) withDefaults() Workspace {
	w.Base = cmp.Or(w.Base, "HEAD")
	w.Take = cmp.Or(w.Take, TakeAll)
	w.History = cmp.Or(w.History, HistoryMerge)
	w.Order = cmp.Or(w.Order, OrderCompletion)
	if w.Verify != nil && w.Verify.Batch == 0 {
		w.Verify.Batch = verifyBatch
	}
	return w
}

// read reads where the agents work: a word, or a mapping with the keys of workspaces that are git repositories.
func (w *Workspace) read(r *reader, e entry) bool {
	if e.value.Kind == yaml.MappingNode {
		w.Mode = GitWorkspace
	}
	if b := r.readWith(e, w, r.fields(w)); b != nil && b.has("setup") && !b.has("keep") {
		r.warn(b.written["setup"].key, `what "setup" makes in a workspace is deleted before the next agent gets it, unless "keep" names it`)
	}
	return true
}

// revision reads the name of a commit or of a branch.
func (r *reader) revision(e entry) (string, bool) {
	s, ok := r.nonBlank(e)
	if ok && (strings.HasPrefix(s, "-") || strings.ContainsAny(s, " \n\t")) {
		r.fail(e.value, "%s: %q is not a commit or branch", e.name, s)
		return "", false
	}
	return s, ok
}

// Check returns what is wrong with w.
func (w *Workspace) Check() []check.Finding {
	var found check.Findings
	for i, dir := range w.Sparse {
		w.Sparse[i] = path.Clean(dir)
		inside := !path.IsAbs(dir) && w.Sparse[i] != ".." && !strings.HasPrefix(w.Sparse[i], "../")
		found.Require(inside, "sparse", "sparse: %q is not a directory of the repository", dir)
	}
	return found
}

// warnOfSharing warns of what reads as if each agent had a workspace of its own, in a file that does not say
// where agents work.
func (r *reader) warnOfSharing() {
	w := r.w
	if w.Workspace.Mode != "" || w.Map == nil {
		return
	}
	if w.Merge != nil && mentionGit(w.Merge.Commands) {
		r.warnAt(w.Merge.Pos,
			`merge: nothing was merged before these steps, since agents share a directory; "workspace: git" gives each a git workspace, and merges what it did (prodigy validate --fix writes that line)`)
	}
	if at, ok := commits(w.Map.AgentTemplate); ok {
		r.warnAt(at,
			`commit_required: the commits of agents are made in your checkout; "workspace: git" gives each agent a git workspace, and merges its commits (prodigy validate --fix writes that line)`)
	}
}

// mentionGit reports whether steps are about commits: an AI or git has work to do, or they name what was
// merged. Others may send a message.
func mentionGit(steps []Step) bool {
	for _, s := range (Section{Steps: steps}).EachStep() {
		if s.Claude != nil || s.Agent != nil || s.CommitRequired || s.Shell != nil &&
			(strings.Contains(s.Shell.Value, "git ") || strings.Contains(s.Shell.Value, "${merge.")) {
			return true
		}
	}
	return false
}

// commits returns where the first of the steps with commit_required is.
func commits(steps []Step) (Pos, bool) {
	for _, s := range (Section{Steps: steps}).EachStep() {
		if s.CommitRequired {
			return s.Pos, true
		}
	}
	return Pos{}, false
}

// Edits returns what in a step changes the files or commits of its directory, in words: an AI that may do more than
// read, or git. Empty: nothing does, as far as one can see, or it happens in a directory of its own.
func (s Step) Edits() string {
	switch {
	case s.Claude != nil:
		return "a claude step"
	case s.Agent != nil && s.Agent.May != MayRead:
		return "an agent step"
	case s.Shell != nil:
		return gitEdit(s.Shell.Value)
	}
	return ""
}

// gitEdits matches a command of git that changes a checkout.
var gitEdits = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[\n;&|(){}!]|\b(?:if|then|else|do|while|until|exec|time)\s)\s*` +
		`git(?: -c \S+)* (commit|add|checkout|stash|rebase|merge)\b`)
})

// gitEdit returns the first command of git in a script that changes a checkout, as in "git commit", or ""
// if there is none or the script works elsewhere.
func gitEdit(script string) string {
	found := gitEdits().FindStringSubmatch(script)
	if found == nil || strings.Contains(script, "cd ") {
		return ""
	}
	return "git " + found[1]
}

// edit reports whether any of the steps edits the directory that it is in.
func edit(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		if s.WorkingDir == nil && s.Edits() != "" {
			return true
		}
		for _, nested := range s.NestedSteps() {
			if s.WorkingDir == nil && edit(nested) {
				return true
			}
		}
		return false
	})
}

// AddWorkspace returns source with the line "workspace: git", if it is a workflow that reads as if each agent had a
// workspace and does not say where agents work, or whose agents edit one checkout at once. It reports false if there
// is nothing to add, or no place for a line.
func AddWorkspace(file string, source []byte, checkout bool) ([]byte, bool) {
	r := newReader(file, source, ParseOptions{})
	root := r.load(source)
	if root == nil || !r.inspect(root) {
		return nil, false
	}
	if root = resolveAlias(root); root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 {
		return nil, false
	}
	r.root(entry{name: "workflow", value: root})
	wants := r.w.Merge != nil && (r.w.Map == nil || mentionGit(r.w.Merge.Commands))
	if r.w.Map != nil && !wants {
		_, wants = commits(r.w.Map.AgentTemplate)
		alone := r.w.Map.MaxParallel.Var == "" && r.w.Map.MaxParallel.Value == 1
		wants = wants || checkout && !alone && r.w.SharedDirectory == "" && edit(r.w.Map.AgentTemplate)
	}
	if !wants || find(root, "workspace") != nil {
		return nil, false
	}
	for key := range Pairs(root) {
		if key.Value != "map" && key.Value != "commands" && key.Value != "setup" || key.Column < 1 {
			continue
		}
		lines := strings.SplitAfter(string(source), "\n")
		at := key.Line - 1
		for at > 0 && strings.HasPrefix(strings.TrimSpace(lines[at-1]), "#") {
			at-- // the comment stays with its key
		}
		end := "\n"
		if strings.HasSuffix(lines[at], "\r\n") {
			end = "\r\n"
		}
		lines[at] = strings.Repeat(" ", key.Column-1) + "workspace: git" + end + lines[at]
		return []byte(strings.Join(lines, "")), true
	}
	return nil, false
}
