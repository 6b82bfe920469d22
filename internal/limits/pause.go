package limits

import (
	"time"

	"prodigy/internal/events"
)

// Hold is a pause that somebody asked for.
type Hold struct {
	By    string    `json:"by"`
	Since time.Time `json:"since"`
}

// Pause holds back everything while somebody wants that.
type Pause struct {
	Hold *Hold `json:"hold,omitempty"` // nil: the job is not paused
}

// Admit implements Limit.
func (p *Pause) Admit(Ask) Verdict { return WaitWhile(p.Hold != nil) }

// Apply implements Limit.
func (p *Pause) Apply(r events.Record, _ Job) {
	switch e := r.Event.(type) {
	case events.PauseRequested:
		p.Hold = &Hold{By: e.By, Since: r.Time}
	case events.ContinueRequested, events.JobResumed:
		p.Hold = nil
	}
}
