package workflow

import "time"

// Workspace says where the agents work, and what becomes of what they did. The zero Workspace is that of a shared directory.
type Workspace struct {
	Mode    WorkspaceMode // git, or shared or empty
	Base    string        `yaml:"base"`    // the revision that the job begins at; default HEAD
	Take    Take          `yaml:"take"`    // what counts of what an agent did: `all`, also what it has not committed, or only its `commits`; default all
	History History       `yaml:"history"` // what the result has for each item: a `merge` commit, or one `squash` commit; default merge
	Order   Order         `yaml:"order"`   // what is merged first: in the order of `completion`, or of the `items`, so that nothing depends on which agent was faster; default completion
	Setup   []Step        `yaml:"setup"`   // steps that run once in each workspace when it is made
	Keep    []string      `yaml:"keep"`    // patterns, as in a .gitignore, of ignored files that stay in a workspace from one agent to the next; default none
	Sparse  []string      `yaml:"sparse"`  // the directories that a workspace has; default those of the checkout
	Verify  *Verify       `yaml:"verify"`  // steps that what was merged has to pass before it counts
	Into    string        `yaml:"into"`    // the branch that is fast-forwarded to the result when the job has completed; default none
	Resolve []Step        `yaml:"resolve"` // steps that resolve a conflict, in a workspace that has the conflicted merge
	Sign    bool          `yaml:"sign"`    // whether the commits that prodigy makes are signed; default false
	Pos     Pos
}

// WorkspaceMode says where the agents of a job work.
type WorkspaceMode string

const (
	SharedWorkspace WorkspaceMode = "shared" // in the directory that the job was started in
	GitWorkspace    WorkspaceMode = "git"    // each in a repository of its own
)

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
	Commands []Step        `yaml:"commands"`               // the steps, run on the merged tree; required
	Timeout  time.Duration `yaml:"timeout" unit:"seconds"` // of the steps together; default none
	Batch    int           `yaml:"batch"`                  // how many items are verified at once; halved when it fails, until the one is found that is to blame; default 8
}
