package workflow

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
)

// Workspace says where the agents work, and what becomes of what they did. The zero Workspace is that of a
// shared directory.
type Workspace struct {
	Mode WorkspaceMode `short:"true" words:"git shared"` // git, or shared or empty
	Base string        `yaml:"base" text:"revision"`     // revision from which the job starts; default HEAD

	// which changes of an item to use: `all`, including uncommitted ones, or only its `commits`; default all
	Take Take `yaml:"take" words:"all commits"`

	// what the result has for each item: a `merge` commit or a single `squash` commit; default merge
	History History `yaml:"history" words:"merge squash"`

	// merge order: `completion`, or `items`, so that the result does not depend on timing: with several slots,
	// all items start from the same commit; default completion
	Order Order `yaml:"order" words:"completion items"`

	Setup []Step `yaml:"setup"` // steps to run once in each new workspace

	// patterns, as in .gitignore, of ignored files that are kept in a workspace from one item to the next;
	// default none
	Keep []string `yaml:"keep" text:"filled"`

	// directories to include in a workspace; default those of the checkout
	Sparse []string `yaml:"sparse" text:"filled"`

	Verify *Verify `yaml:"verify"` // steps that verify merged changes; changes that fail are rejected

	// branch to fast-forward to the result when the job completes; default none
	Into string `yaml:"into" text:"revision"`

	// steps to resolve a conflict: they run once per conflict, instead of the item's steps, in a workspace with
	// the conflicted merge, and their result is merged. If they fail, the conflict remains
	Resolve []Step `yaml:"resolve"`

	// whether to sign the commits made by prodigy, as configured in git; default false
	Sign bool `yaml:"sign"`

	Pos Pos
}

// WorkspaceMode says where the agents of a job work.
type WorkspaceMode string

const (
	SharedWorkspace WorkspaceMode = "shared" // in the directory that the job was started in
	GitWorkspace    WorkspaceMode = "git"    // each in a repository of its own
)

// Sharing says whether agents are meant to edit one directory at once.
type Sharing string

// SharingOK is the only Sharing that can be written.
const SharingOK Sharing = "ok"

// Isolated reports whether each agent has a workspace of its own.
func (w Workspace) Isolated() bool { return w.Mode == GitWorkspace }

// Take says what of the work of an agent counts.
type Take string

const (
	TakeAll     Take = "all"
	TakeCommits Take = "commits"
)

// History says what the result has for each item.
type History string

const (
	HistoryMerge  History = "merge"
	HistorySquash History = "squash"
)

// Order says in which order work is merged.
type Order string

const (
	OrderCompletion Order = "completion"
	OrderItems      Order = "items"
)

// Verify is how what was merged is verified.
type Verify struct {
	Commands []Step        `yaml:"commands" required:"true"` // the steps to run on the merged tree; required
	Timeout  time.Duration `yaml:"timeout" unit:"seconds"`   // timeout of all these steps; default none

	// number of items to verify together; a batch that fails is halved until the failing item is found; default
	// 8
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
		r.warn(b.written["setup"].key, `files created by "setup" in a workspace are deleted before the next item, unless listed in "keep"`)
	}
	return true
}

// revision reads the name of a commit or of a branch.
func (r *reader) revision(e entry) (string, bool) {
	s, ok := r.nonBlank(e)
	if ok && (strings.HasPrefix(s, "-") || strings.ContainsAny(s, " \n\t")) {
		return "", r.fail(e.value, "%s: %q is not a commit or branch", e.name, s)
	}
	return s, ok
}

// Check finds what is wrong with w.
func (w *Workspace) Check(found *check.Findings) {
	for i, dir := range w.Sparse {
		w.Sparse[i] = path.Clean(dir)
		inside := !path.IsAbs(dir) && w.Sparse[i] != ".." && !strings.HasPrefix(w.Sparse[i], "../")
		found.Require(inside, "sparse", "sparse: %q is not a directory of the repository", dir)
	}
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
			`merge: nothing is merged before these steps, because items share a directory; with "workspace: git" each item gets a git workspace, and its changes are merged (prodigy validate --fix adds it)`)
	}
	if at, ok := commits(w.Map.AgentTemplate); ok {
		r.warnAt(at,
			`commit_required: items commit in your own checkout; with "workspace: git" each item gets a git workspace, and its commits are merged (prodigy validate --fix adds it)`)
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
	case s.Shell == nil:
		return ""
	}
	// The first command of git that changes a checkout, unless the script works elsewhere.
	found := gitEdits().FindStringSubmatch(s.Shell.Value)
	if found == nil || strings.Contains(s.Shell.Value, "cd ") {
		return ""
	}
	return "git " + found[1]
}

// gitEdits matches a command of git that changes a checkout.
var gitEdits = check.Regexp(`(?:^|[\n;&|(){}!]|\b(?:if|then|else|do|while|until|exec|time)\s)\s*` +
	`git(?: -c \S+)* (commit|add|checkout|stash|rebase|merge)\b`)

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
	if root == nil || root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 {
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
