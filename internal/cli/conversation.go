package cli

import (
	"bytes"
	"iter"
	"sync"

	"prodigy/internal/ai"
	"prodigy/internal/jobs"
	"prodigy/internal/mask"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

// conversationsOf returns the entries of a job that match a query, as people see them.
func conversationsOf(job jobs.Job, q outputs.Query) iter.Seq2[outputs.Entry, error] {
	q.Render = conversations(job)
	return view.PrintedOf(job, q)
}

// conversations returns how the stdout of AI coding CLIs of a job is shown: as the presets of its workflow say, which
// are read for the first of them. What no preset is known for is shown as it is.
func conversations(job jobs.Job) func(s outputs.Source, first bool) outputs.Renderer {
	set := sync.OnceValue(func() ai.Set {
		home, err := jobs.FromEnv()
		if err != nil {
			return nil
		}
		if w := recordedOrNil(job); w != nil {
			if set, err := loadPresets(home, w); err == nil {
				return set
			}
		}
		set, _ := ai.Load()
		return set
	})
	secrets := sync.OnceValue(func() jobSecrets { return secretsOf(job) })
	return func(s outputs.Source, first bool) outputs.Renderer {
		p := set()[s.Agent]
		if p == nil || len(p.Show) == 0 {
			return nil
		}
		m := &maskedTranscript{Transcript: p.Transcript(!first)}
		m.Apart, m.masker = !secrets().known(), secrets().Mask.Writer(&m.out)
		return m
	}
}

// maskedTranscript hides the secrets that were masked in none of the pieces of which a text is put together.
type maskedTranscript struct {
	*ai.Transcript
	out    bytes.Buffer
	masker *mask.Writer
}

// Write implements outputs.Renderer.
func (m *maskedTranscript) Write(p []byte) []byte {
	m.out.Reset()
	_, _ = m.masker.Write(m.Transcript.Write(p)) // a buffer takes all
	return bytes.Clone(m.out.Bytes())
}

// Close implements outputs.Renderer.
func (m *maskedTranscript) Close() []byte {
	rest := m.Write(m.Transcript.Close())
	m.out.Reset()
	_ = m.masker.Close()
	return append(rest, m.out.Bytes()...)
}
