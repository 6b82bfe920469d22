package cli

import (
	"iter"
	"sync"

	"prodigy/internal/aicli"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
)

// conversationsOf returns the entries of a job that match a query, as people see them.
func conversationsOf(job jobs.Job, q outputs.Query) iter.Seq2[outputs.Entry, error] {
	q.Render = conversations(job)
	return entriesOf(job, q)
}

// conversations returns how the stdout of AI coding CLIs of a job is shown: as the presets of its workflow say, which are read for the first of
// them. What no preset is known for is shown as it is.
func conversations(job jobs.Job) func(s outputs.Source, first bool) outputs.Renderer {
	set := sync.OnceValue(func() aicli.Set {
		home, err := jobs.FromEnv()
		if err != nil {
			return nil
		}
		if w, err := loadRecorded(job); err == nil {
			if set, err := loadPresets(home, w); err == nil {
				return set
			}
		}
		set, _ := aicli.Load()
		return set
	})
	return func(s outputs.Source, first bool) outputs.Renderer {
		if p := set()[s.Agent]; p != nil && len(p.Show) > 0 {
			return p.Transcript(!first)
		}
		return nil
	}
}
