package reuse

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/workflow"
)

// Files are the files that the items of a job are made from, and those that their agents leave. Nil Files are none.
type Files struct {
	FilesConfig
	dir *Dir

	// fixed are the files that all items are made from. uses returns those that depend on the item, and is nil if none
	// do.
	fixed []string
	uses  pathsOf

	// produces returns the files that an agent leaves. It is nil if the workflow names none. products are the same
	// files, as the workflow writes them.
	produces pathsOf
	products []workflow.Text

	// handled means that something is done with files that agents leave; else they are left as they are.
	handled bool

	// atomic means that the files have other names until the attempt has succeeded.
	atomic bool

	// incomplete is what becomes of files that may not be whole. Empty means that those of an item's own are kept under
	// another name, if they are not directories.
	incomplete workflow.Incomplete
}

// FilesConfig says how Files are handled.
type FilesConfig struct {
	Dir   string // of the job
	JobID string

	// Simulated means that nothing is read or written, and OnFleet that agents run elsewhere.
	Simulated, OnFleet bool

	// Sync means that files are on disk before they get their names.
	Sync bool

	// Notice tells people what could not be done.
	Notice func(text string)
}

// pathsOf returns paths that depend on an item.
type pathsOf func(id string, item json.RawMessage) ([]string, error)

// NewFiles returns nil for a map that names no files. The files that a pattern stands for are looked up
// once for a run.
func NewFiles(m *workflow.Map, c FilesConfig) (*Files, error) {
	if m == nil || len(m.Uses) == 0 && len(m.Produces) == 0 {
		return nil, nil
	}
	f := &Files{FilesConfig: c, dir: NewDir(c.Dir), products: m.Produces}
	var own []workflow.Text
	for _, use := range m.Uses {
		if dependsOnItem(use) {
			own = append(own, use)
			continue
		}
		found, err := f.fixedPaths(use.Value)
		if err != nil {
			return nil, fmt.Errorf("uses: %w", err)
		}
		f.fixed = append(f.fixed, found...)
	}
	slices.Sort(f.fixed)
	f.fixed = slices.Compact(f.fixed)
	var err error
	if len(own) > 0 {
		if f.uses, err = agent.Paths(own); err != nil {
			return nil, err
		}
	}
	if len(m.Produces) > 0 {
		f.produces, err = agent.Paths(m.Produces)
	}
	// With a fleet whose workers are sent files, those have directories of their own, and only whole files come back.
	if len(m.Produces) > 0 && !c.Simulated && !(c.OnFleet && len(m.Files) > 0) {
		f.atomic, f.incomplete = m.Atomic, m.Incomplete
		if f.incomplete == "" && f.atomic {
			f.incomplete = workflow.RemoveIncomplete
		}
		f.handled = f.atomic || f.incomplete != workflow.KeepIncomplete
	}
	return f, err
}

func dependsOnItem(t workflow.Text) bool { return strings.Contains(t.Value, "$") }

// fixedPaths returns the files that a path or pattern stands for, whatever the item is.
func (f *Files) fixedPaths(pattern string) ([]string, error) {
	if strings.ContainsAny(pattern, wildcards) {
		return f.dir.Glob(pattern)
	}
	path, err := f.dir.Local(pattern)
	return []string{path}, err
}

// wildcards make a path a pattern.
const wildcards = "*?[{"

// used returns the files that an item is made from, as they are now. Known are what some of them were before.
func (f *Files) used(id string, item json.RawMessage, known []events.File) ([]events.File, error) {
	if f == nil || len(f.fixed) == 0 && f.uses == nil {
		return nil, nil
	}
	paths := f.fixed
	if f.uses != nil {
		own, err := f.uses(id, item)
		if err != nil {
			return nil, fmt.Errorf("uses: %w", err)
		}
		paths = append(slices.Clip(paths), own...)
	}
	found, err := f.dir.Of(paths, known)
	if err != nil {
		return nil, fmt.Errorf("uses: %w", err)
	}
	return found, nil
}

// produced returns the files that the agent of an item leaves, as they are now, without their sums. Missing is the
// first that is not there.
func (f *Files) produced(id string, item json.RawMessage) (all []events.File, missing string, err error) {
	if f == nil || f.produces == nil {
		return nil, "", nil
	}
	paths, err := f.produces(id, item)
	for i := 0; i < len(paths) && err == nil; i++ {
		paths[i], err = f.dir.Local(paths[i])
	}
	if err != nil {
		return nil, "", fmt.Errorf("produces: %w", err)
	}
	for _, path := range paths {
		info, err := os.Stat(f.dir.Full(path))
		if err != nil {
			return nil, path, nil
		}
		all = append(all, events.File{Path: path, Size: info.Size(), Modified: info.ModTime().UnixNano()})
	}
	return all, "", nil
}

// Check reports what is wrong with the keys of a map that have to do with taking over results, in a directory.
func Check(dir string, w *workflow.Workflow) []workflow.Problem {
	m := w.Map
	var problems []workflow.Problem
	report := func(t workflow.Text, key, message string) {
		problems = append(problems, w.ProblemAt(t.At(1, 1), key+": "+message))
	}
	if w.Workspace.Isolated() && (m.Incremental || len(m.Uses)+len(m.Produces) > 0) {
		problems = append(problems, w.ProblemAt(m.Pos,
			"incremental, uses and produces apply to files in the working directory, which items do not use with `workspace: git`"))
	}
	for _, field := range m.Fingerprint {
		if _, err := newHasher([]string{field.Value}); err != nil {
			report(field, "fingerprint", err.Error())
		}
	}
	files := NewDir(dir)
	// place reports a path or pattern that leads out of the directory, or is not a glob. It returns the path.
	place := func(t workflow.Text, key string, wild bool) (path string, ok bool) {
		path, err := files.Local(t.Value)
		switch {
		case err != nil:
			report(t, key, err.Error())
		case wild && !doublestar.ValidatePattern(filepath.ToSlash(t.Value)):
			report(t, key, t.Value+" is not a valid glob: unclosed bracket or brace, or trailing backslash")
		}
		return path, err == nil
	}
	for _, use := range m.Uses {
		wild := strings.ContainsAny(strings.ReplaceAll(use.Value, "${", "$"), wildcards)
		if dependsOnItem(use) {
			if wild {
				report(use, "uses", use.Value+" has both wildcards and item values: use either, or name the directory, which means all files in it")
			}
			continue
		}
		path, ok := place(use, "uses", wild)
		if _, err := os.Stat(files.Full(path)); ok && !wild && err != nil && w.Setup == nil {
			report(use, "uses", use.Value+" does not exist")
		}
	}
	for _, sent := range m.Files {
		place(sent, "files", true)
	}
	if len(m.Produces) == 0 && (m.Atomic || m.Incomplete != "") {
		problems = append(problems, w.ProblemAt(m.Pos, "atomic and incomplete have no effect without produces"))
	}
	for _, product := range m.Produces {
		if !dependsOnItem(product) {
			place(product, "produces", false)
		}
	}
	return problems
}

// textsOf returns texts of a workflow as they are written.
func textsOf(texts []workflow.Text) []string {
	return check.Each(texts, func(t workflow.Text) string { return t.Value })
}

// fileBefore is a file that an attempt may write, as it was when the attempt began.
type fileBefore struct {
	final, written string // full paths
	info           fs.FileInfo
}
