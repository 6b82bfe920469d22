package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/check"
)

// Find returns the job with this name: its id, of whatever project, any part of the id that no other id has and that is
// long enough, the name of a workflow of h.Project for its newest job, or "latest" for the newest job of h.Project. A
// part that is the beginning of an id, with or without the mode, may be short, and goes before the name of a workflow.
func (h Home) Find(name string) (Job, error) {
	all, err := h.all()
	if err != nil {
		return Job{}, err
	}
	if i := slices.IndexFunc(all, func(job Job) bool { return job.ID == name }); i >= 0 {
		return all[i], nil
	}
	missing := fmt.Errorf("%w: %q", ErrNotFound, name)
	if name == "" || sortKey(name) != "" {
		return Job{}, missing // a whole id is not a part of another one, and no workflow is meant by it
	}
	if name == "latest" {
		return h.newest(all, func(Job) bool { return true }, missing)
	}
	fitting := having(all, func(id string) bool {
		return strings.HasPrefix(id, name) || strings.HasPrefix(sortKey(id), name)
	})
	if len(fitting) != 1 {
		if job, err := h.newest(all, isOf(name), missing); err == nil {
			return job, nil
		}
	}
	if len(fitting) == 0 && len(name) >= shortestPart {
		fitting = having(all, func(id string) bool { return strings.Contains(id, name) })
	}
	switch len(fitting) {
	case 0:
		return Job{}, missing
	case 1:
		return fitting[0], nil
	}
	return Job{}, fmt.Errorf("%w %q: %s", ErrAmbiguous, name, some(fitting))
}

// shortestPart is the least length of a part from within an id: a shorter one would fit a random ending by chance.
const shortestPart = suffixSize

// LatestOf returns the newest job of the workflow with this name in h.Project.
func (h Home) LatestOf(workflow string) (Job, error) {
	all, err := h.all()
	if err != nil {
		return Job{}, err
	}
	return h.newest(all, isOf(workflow), ErrNotFound)
}

// newest returns the first of jobs that is wanted and belongs to h.Project, or else the error. With h.Running one that
// runs comes before all others.
func (h Home) newest(all []Job, wanted func(Job) bool, missing error) (Job, error) {
	here := belongs(h.Project)
	fits := func(job Job) bool { return wanted(job) && (h.Project == "" || here(job)) }
	i := -1
	if h.Running {
		i = slices.IndexFunc(all, func(job Job) bool { return job.Running() && fits(job) })
	}
	if i < 0 {
		i = slices.IndexFunc(all, fits)
	}
	if i < 0 {
		return Job{}, missing
	}
	return all[i], nil
}

// isOf returns a function that reports whether a job is one of the workflow with this name. Simulated jobs are not.
func isOf(workflow string) func(Job) bool {
	return func(job Job) bool {
		meta, err := job.ReadMeta()
		return err == nil && meta.Workflow == workflow && !meta.Simulated
	}
}

// having returns the jobs with such an id.
func having(all []Job, fits func(id string) bool) []Job {
	var found []Job
	for _, job := range all {
		if fits(job.ID) {
			found = append(found, job)
		}
	}
	return found
}

// some lists the first few jobs, with the names of their workflows.
func some(jobs []Job) string {
	return check.Few(check.Each(jobs, func(job Job) string {
		meta, err := job.ReadMeta()
		if err != nil || meta.Workflow == "" {
			return job.ID
		}
		return job.ID + " (" + meta.Workflow + ")"
	}), 5)
}

// List returns the jobs of h.Project, newest first.
func (h Home) List() ([]Job, error) {
	all, err := h.all()
	if err != nil || h.Project == "" {
		return all, err
	}
	wanted := belongs(h.Project)
	return slices.DeleteFunc(all, func(j Job) bool { return !wanted(j) }), nil
}

// all returns all jobs, newest first. It ignores directories whose names are not ids.
func (h Home) all() ([]Job, error) {
	all, err := h.stateDirs()
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	all = slices.DeleteFunc(all, func(j Job) bool { return sortKey(j.ID) == "" })
	slices.SortFunc(all, func(a, b Job) int {
		return cmp.Or(cmp.Compare(sortKey(b.ID), sortKey(a.ID)), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}
