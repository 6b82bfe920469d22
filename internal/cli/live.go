package cli

import (
	"fmt"
	"io"
	"time"

	"prodigy/internal/limit"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// newProgress returns what formats the live lines of a job on con. A nil w is a workflow that cannot be read.
func newProgress(con *console, w *workflow.Workflow) view.Progress {
	g := view.Progress{Look: term.Look{Colours: con.colours()}}
	if w != nil {
		g.Waits, g.Steps = breakerWaits(w), map[string]int{"": len(w.Commands)} // those of a standard workflow
		for name, p := range map[string]*workflow.Phase{"setup": w.Setup, "reduce": w.Reduce, "merge": w.Merge} {
			if p != nil {
				g.Steps[name] = len(p.Commands)
			}
		}
		if w.Budget.Job != nil {
			g.Budget = *w.Budget.Job
		}
	}
	return g
}

// breakerWaits reports whether items wait while the circuit breaker over them is open.
func breakerWaits(w *workflow.Workflow) bool {
	c := w.ErrorPolicy.CircuitBreaker
	return c != nil && c.OnOpen == limit.Wait
}

// jobScreen is a screen that shows the progress of a job.
type jobScreen struct {
	*term.Screen

	// said is when the last line was printed off a terminal.
	said time.Time
	// last is the time of the last record by then.
	last time.Time
}

// newJobScreen returns a screen on w, which redraws its lines if live is set.
func newJobScreen(w io.Writer, live bool, size func() (width, height int)) *jobScreen {
	return &jobScreen{Screen: term.NewScreen(w, live, size)}
}

// The intervals at which the progress of a job is shown.
const (
	redrawEvery = 100 * time.Millisecond
	// reportEvery is the interval off a terminal.
	reportEvery = 10 * time.Second
	// pausedEvery is the interval off a terminal while agents wait for a plan and nothing else happens.
	pausedEvery = 15 * time.Minute
)

// every returns the interval at which progress is shown.
func (s *jobScreen) every() time.Duration {
	if s.Live {
		return redrawEvery
	}
	return reportEvery
}

// progress shows the progress of a job, redrawn in place or as another line.
func (s *jobScreen) progress(g view.Progress, j *view.Job, now time.Time) {
	if !s.Live {
		if (len(j.Paused()) > 0 || j.Hold() != nil) && j.Last.Equal(s.last) && now.Sub(s.said) < pausedEvery {
			return
		}
		s.said, s.last = now, j.Last
		_, _ = fmt.Fprintln(s, g.StatusLine(j, now))
		return
	}
	width, height := s.Size()
	s.Draw(g.Lines(j, now, width, height))
}
