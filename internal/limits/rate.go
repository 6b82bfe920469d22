package limits

import (
	"encoding/json"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Rate holds back items and tries, so that no more start in a time than the workflow says, in all or of each key.
type Rate struct{ limit.RateLimiter }

// Admit implements Limit.
func (l *Rate) Admit(a Ask) Verdict {
	if !l.Limits() {
		return Verdict{}
	}
	return WaitUntil(l.Next(a.Key, a.Now), a.Now)
}

// Apply implements Limit.
func (l *Rate) Apply(r events.Record, was Job) {
	if !l.Limits() {
		return
	}
	switch e := r.Event.(type) {
	case events.AgentStarted:
		l.Start(e.Key, r.Time)
	case events.AgentDuplicated:
		l.Start(e.Key, r.Time)
	case events.StepRetried:
		if it := was.Item(e.ItemIndex); !it.Began.IsZero() {
			l.Start(it.Key, r.Time)
		}
	}
}

// StepRates hold back steps, by the position of the step in agent_template.
type StepRates map[int]*limit.RateLimiter

func newStepRates(p errorpolicy.Policy) StepRates {
	if len(p.StepRates) == 0 {
		return nil
	}
	s := StepRates{}
	for position, l := range p.StepRates {
		s[position] = limit.NewRateLimiter(l)
	}
	return s
}

// UnmarshalJSON restores what limiters of the same limits remembered.
func (s *StepRates) UnmarshalJSON(data []byte) error {
	var all map[int]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	for position, one := range all {
		if *s == nil {
			*s = StepRates{}
		}
		if (*s)[position] == nil {
			(*s)[position] = &limit.RateLimiter{}
		}
		if err := json.Unmarshal(one, (*s)[position]); err != nil {
			return err
		}
	}
	return nil
}

// Apply takes note of a record.
func (s StepRates) Apply(r events.Record, _ Job) {
	if e, ok := r.Event.(events.StepTurn); ok && s[e.Position] != nil {
		s[e.Position].Start(e.Key, r.Time)
	}
}

func (s StepRates) keys() (n int) {
	for _, l := range s {
		n += l.Keys()
	}
	return n
}

// Ratio holds back retries while there are too many of them for each first attempt.
type Ratio struct {
	Throttle *retry.Throttle `json:"throttle"`
	Told     bool            `json:"told,omitempty"` // the log says that it holds retries back
	ratio    retry.Ratio
}

func newRatio(p errorpolicy.Policy) *Ratio {
	l := &Ratio{Throttle: retry.NewThrottle(p.RetryRatio)}
	if p.RetryRatio != nil {
		l.ratio = *p.RetryRatio
	}
	return l
}

// Admit implements Limit.
func (l *Ratio) Admit(a Ask) Verdict {
	if a.Class != Retry && a.Class != Try {
		return Verdict{}
	}
	return WaitUntil(l.Throttle.Next(a.Now), a.Now)
}

// Holds returns the event that retries are held back from now on.
func (l *Ratio) Holds(now time.Time) events.Event {
	first, retries := l.Throttle.Counts(now)
	return events.RetriesHeld{First: first, Retries: retries, Ratio: l.ratio.Ratio}
}

// Apply implements Limit.
func (l *Ratio) Apply(r events.Record, was Job) {
	if !l.Throttle.Limits() {
		return
	}
	switch e := r.Event.(type) {
	case events.AgentStarted:
		l.Throttle.Start(was.Item(e.ItemIndex).Failed, r.Time)
	case events.StepRetried:
		if !was.Item(e.ItemIndex).Began.IsZero() {
			l.Throttle.Start(true, r.Time)
		}
	case events.RetriesHeld:
		l.Told = true
	case events.RetriesAllowed, events.JobResumed:
		l.Told = false
	}
}
