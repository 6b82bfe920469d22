package jobs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Find returns the job with this id or unique prefix, of whatever project, or the newest one of h.Project for
// "latest". The prefix may also be that of the time in the id, without the mode before it.
func (h Home) Find(id string) (Job, error) {
	all, err := h.all()
	if err != nil {
		return Job{}, err
	}
	if id == "latest" {
		wanted := func(Job) bool { return true }
		if h.Project != "" {
			wanted = belongs(h.Project)
		}
		if i := slices.IndexFunc(all, wanted); i >= 0 {
			return all[i], nil
		}
	}
	if id == "" || id == "latest" || !safe(id) {
		return Job{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	var found []Job
	for _, job := range all {
		switch {
		case job.ID == id:
			return job, nil
		case strings.HasPrefix(job.ID, id), strings.HasPrefix(sortKey(job.ID), id):
			found = append(found, job)
		}
	}
	switch len(found) {
	case 0:
		return Job{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	case 1:
		return found[0], nil
	}
	return Job{}, fmt.Errorf("%w: %q fits %s", ErrAmbiguous, id, some(found))
}

// some lists the first few jobs.
func some(jobs []Job) string {
	const few = 3
	var ids []string
	for _, job := range jobs[:min(few, len(jobs))] {
		ids = append(ids, job.ID)
	}
	if len(jobs) > few {
		ids = append(ids, fmt.Sprintf("%d more", len(jobs)-few))
	}
	return strings.Join(ids, ", ")
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
	root := filepath.Join(h.Root, "state")
	repos, err := subdirs(root)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var all []Job
	for _, repo := range repos {
		ids, err := subdirs(filepath.Join(root, repo))
		if err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		for _, id := range ids {
			if sortKey(id) != "" {
				all = append(all, Job{ID: id, Repo: repo, home: h})
			}
		}
	}
	slices.SortFunc(all, func(a, b Job) int {
		return cmp.Or(cmp.Compare(sortKey(b.ID), sortKey(a.ID)), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}
