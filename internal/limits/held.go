package limits

import (
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
)

// What holds starts back, in the events of it.
const (
	byWindows = "windows"
	byGuards  = "guards"
)

// Windows hold back what needs a slot outside of the times of day of a job.
type Windows struct {
	windows limit.Windows
	outside bool      // the log says so
	asked   time.Time // when the clock was looked at last
	open    bool      // what it said then
	until   time.Time // until when that holds
}

// NewWindows returns the limit of a run that has just begun.
func NewWindows(w limit.Windows) *Windows { return &Windows{windows: w} }

// Admit implements Limit. A clock that is set, or a machine that sleeps, is noticed within a minute.
func (w *Windows) Admit(a Ask) Verdict {
	if !w.outside {
		return Verdict{}
	}
	return Verdict{Answer: Wait, Until: w.next(a.Now)}
}

// Reason returns why nothing may start; empty if it may.
func (w *Windows) Reason() string {
	if !w.outside {
		return ""
	}
	return w.text() + ", until " + w.until.Local().Format(time.DateTime)
}

func (w *Windows) text() string { return "outside the windows (" + w.windows.String() + ")" }

// Look returns when to look at the clock again; zero if there is no need to.
func (w *Windows) Look(now time.Time) time.Time {
	if len(w.windows) == 0 {
		return time.Time{}
	}
	if !now.Before(w.until) || now.Before(w.asked) {
		w.open, w.until = w.windows.At(now)
		w.asked = now
	}
	return w.next(now)
}

func (w *Windows) next(now time.Time) time.Time {
	if soon := now.Add(time.Minute); soon.Before(w.until) {
		return soon
	}
	return w.until
}

// Tell implements Teller, with what Look has found.
func (w *Windows) Tell() events.Event {
	switch {
	case len(w.windows) == 0 || w.open == !w.outside:
		return nil
	case w.open:
		return events.StartsAllowed{By: byWindows}
	}
	until := w.until
	return events.StartsHeld{By: byWindows, Reason: w.text(), Until: &until}
}

// Apply implements Limit.
func (w *Windows) Apply(r events.Record, _ Job) {
	if held, by := heldBy(r.Event); by == byWindows {
		w.outside = held != ""
	}
}

// Guards hold back what needs a slot while the machine has too little left.
type Guards struct {
	short string // why they are closed; empty if they are not
}

// Admit implements Limit.
func (g *Guards) Admit(Ask) Verdict { return WaitWhile(g.short != "") }

// Reason returns why nothing may start; empty if it may.
func (g *Guards) Reason() string { return g.short }

// Apply implements Limit.
func (g *Guards) Apply(r events.Record, _ Job) {
	if held, by := heldBy(r.Event); by == byGuards {
		g.short = held
	}
}

// Found returns the event of what the machine lacks; empty for nothing.
func (*Guards) Found(short string) events.Event {
	if short == "" {
		return events.StartsAllowed{By: byGuards}
	}
	return events.StartsHeld{By: byGuards, Reason: short}
}

// heldBy returns what e is about, and why that holds starts back; empty if it does not any more.
func heldBy(e events.Event) (reason, by string) {
	switch e := e.(type) {
	case events.StartsHeld:
		return e.Reason, e.By
	case events.StartsAllowed:
		return "", e.By
	}
	return "", ""
}
