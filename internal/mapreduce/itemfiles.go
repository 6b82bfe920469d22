package mapreduce

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"prodigy/internal/agent"
	"prodigy/internal/fingerprint"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// itemFiles finds the files that the items of a job are made from, and those that their agents leave.
type itemFiles struct {
	files    *fingerprint.Files
	fixed    []string // that all items are made from
	uses     pathsOf  // nil: none that depend on the item
	produces pathsOf  // nil: none
}

// pathsOf returns paths that depend on an item.
type pathsOf func(id string, item json.RawMessage) ([]string, error)

// newItemFiles returns nil for a map that names no files. The files that a pattern stands for are looked up
// once for a run.
func newItemFiles(dir string, m *workflow.Map) (*itemFiles, error) {
	if m == nil || len(m.Uses) == 0 && len(m.Produces) == 0 {
		return nil, nil
	}
	f := &itemFiles{files: fingerprint.NewFiles(dir)}
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
	return f, err
}

func dependsOnItem(t workflow.Text) bool { return strings.Contains(t.Value, "$") }

func (f *itemFiles) fixedPaths(pattern string) ([]string, error) {
	if strings.ContainsAny(pattern, wildcards) {
		return f.files.Glob(pattern)
	}
	path, err := f.files.Local(pattern)
	return []string{path}, err
}

// wildcards make a path a pattern.
const wildcards = "*?[{"

// used returns the files that an item is made from, as they are now. Known are what some of them were before.
func (f *itemFiles) used(id string, item json.RawMessage, known []fingerprint.File) ([]fingerprint.File, error) {
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
	found, err := f.files.Of(paths, known)
	if err != nil {
		return nil, fmt.Errorf("uses: %w", err)
	}
	return found, nil
}

// missing returns the first file that the agent of an item leaves and that is not there, or "".
func (f *itemFiles) missing(id string, item json.RawMessage) (string, error) {
	if f == nil || f.produces == nil {
		return "", nil
	}
	paths, err := f.produces(id, item)
	if err != nil {
		return "", fmt.Errorf("produces: %w", err)
	}
	for _, path := range paths {
		local, err := f.files.Local(path)
		if err != nil {
			return "", fmt.Errorf("produces: %w", err)
		}
		if _, err := os.Stat(f.files.Full(local)); err != nil {
			return local, nil
		}
	}
	return "", nil
}

// produced returns the files that the agent of an item leaves, as they are now, without their sums.
func (f *itemFiles) produced(id string, item json.RawMessage) ([]fingerprint.File, error) {
	if f == nil || f.produces == nil {
		return nil, nil
	}
	paths, err := f.produces(id, item)
	if err != nil {
		return nil, err
	}
	all := make([]fingerprint.File, 0, len(paths))
	for _, path := range paths {
		local, err := f.files.Local(path)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(f.files.Full(local))
		if err != nil {
			return nil, err
		}
		all = append(all, fingerprint.File{Path: local, Size: info.Size(), Modified: info.ModTime().UnixNano()})
	}
	return all, nil
}

// beginWith notes the files that an attempt begins with.
func (j *job) beginWith(e *attemptEnd) error {
	if j.files == nil || e.attempt.ItemID == "" {
		return nil
	}
	var err error
	if err := j.beginProducing(e); err != nil || j.config.Simulate != nil {
		return err
	}
	e.uses, err = j.files.used(e.attempt.ItemID, e.attempt.Item, nil)
	if e.attempt.Adopted {
		err = nil // it has begun, and its end is wanted in any case
	}
	for i := range e.uses {
		if e.attempt.Adopted {
			e.uses[i] = fingerprint.File{Path: e.uses[i].Path}
		}
	}
	return err
}

// endWith notes which of the files have changed since an attempt began that has succeeded, and fails it if it
// did not leave what it should.
func (j *job) endWith(e *attemptEnd) {
	a := e.attempt
	if j.files == nil || a.ItemID == "" || e.outcome.Failure != nil || j.config.Simulate != nil {
		return
	}
	e.uses = j.files.files.Since(e.uses)
	if wrong := j.deliverProduced(e); wrong != "" {
		e.fail(wrong)
		return
	}
	switch path, err := j.files.missing(a.ItemID, a.Item); {
	case err != nil:
		e.fail(err.Error())
	case path != "":
		e.fail("it did not leave " + path)
	default:
		if e.produced, err = j.files.produced(a.ItemID, a.Item); err != nil {
			e.fail("it did not leave what it produces: " + err.Error())
		}
	}
}

func (e *attemptEnd) fail(message string) {
	step := ""
	if n := len(e.attempt.Steps); n > 0 {
		step = e.attempt.Steps[n-1].Label(n - 1)
	}
	e.outcome.Failure = &agent.Failure{
		Step: step,
		Failure: retry.Failure{
			Type: retry.TypeMissingOutput, Message: message, ExitCode: e.outcome.ExitCode,
			Exact: true,
		},
	}
}

// checkFiles reports what is wrong with the keys of a map that have to do with taking over results.
func checkFiles(c Config, w *workflow.Workflow) []workflow.Problem {
	m := w.Map
	var problems []workflow.Problem
	report := func(t workflow.Text, key, message string) {
		problems = append(problems, problemAt(w, t.At(1, 1), key+": "+message))
	}
	if w.Workspace.Isolated() && (m.Incremental || len(m.Uses)+len(m.Produces) > 0) {
		problems = append(problems, problemAt(w, m.Pos,
			"incremental, uses and produces are about files of the directory of the run, where no agent works with `workspace: git`"))
	}
	for _, field := range m.Fingerprint {
		if _, err := fingerprint.NewData([]string{field.Value}); err != nil {
			report(field, "fingerprint", err.Error())
		}
	}
	files := fingerprint.NewFiles(c.Dir)
	for _, use := range m.Uses {
		wild := strings.ContainsAny(strings.ReplaceAll(use.Value, "${", "$"), wildcards)
		switch {
		case dependsOnItem(use) && wild:
			report(use, "uses", use.Value+" has wildcards and names the item: write either, or the directory, which is all files in it")
		case dependsOnItem(use):
		case wild && !doublestar.ValidatePattern(filepath.ToSlash(use.Value)):
			report(use, "uses", use.Value+" is not a pattern: a bracket or brace is not closed, or a backslash stands last")
		default:
			path, err := files.Local(use.Value)
			if err != nil {
				report(use, "uses", err.Error())
				continue
			}
			if _, err := os.Stat(files.Full(path)); !wild && err != nil && w.Setup == nil {
				report(use, "uses", use.Value+" does not exist")
			}
		}
	}
	for _, sent := range m.Files {
		_, err := files.Local(sent.Value)
		switch {
		case err != nil:
			report(sent, "files", err.Error())
		case !doublestar.ValidatePattern(filepath.ToSlash(sent.Value)):
			report(sent, "files", sent.Value+" is not a pattern: a bracket or brace is not closed, or a backslash stands last")
		}
	}
	problems = append(problems, checkProduction(w)...)
	for _, product := range m.Produces {
		if dependsOnItem(product) {
			continue
		}
		if _, err := files.Local(product.Value); err != nil {
			report(product, "produces", err.Error())
		}
	}
	return problems
}

// textsOf returns texts of a workflow as they are written.
func textsOf(texts []workflow.Text) []string {
	var all []string
	for _, t := range texts {
		all = append(all, t.Value)
	}
	return all
}
