package ai

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/duration"
)

const (
	defaultStall  = 10 * time.Minute
	defaultTool   = 15 * time.Minute
	defaultLinger = 30 * time.Second
	defaultLoop   = 20
)

// Limits are how long a run may go without progress. A zero one does not hold.
type Limits struct {
	Stall  time.Duration // without progress
	Tool   time.Duration // the same while a tool runs
	Linger time.Duration // after its end
	Loop   int           // idle lines without progress
	Turns  int
}

// Limits returns the limits of p, with those that a step has set and how many turns it allows.
func (p *Preset) Limits(stall, tool *time.Duration, turns int) Limits {
	w := p.Watch
	l := Limits{
		Stall:  *cmp.Or(stall, (*time.Duration)(w.StallTimeout), new(defaultStall)),
		Tool:   *cmp.Or(tool, (*time.Duration)(w.ToolTimeout), new(defaultTool)),
		Linger: *cmp.Or((*time.Duration)(w.Linger), new(defaultLinger)),
		Loop:   cmp.Or(w.Loop, defaultLoop),
	}
	if w.Turn != "" {
		l.Turns = turns
	}
	return l
}

// Stall is why a watchdog ends a run.
type Stall struct {
	Rule    string
	Outcome Outcome // empty: the run had ended in order, and what it printed decides
	Message string
}

// The rules of a watchdog.
const (
	RuleNoProgress  = "no_progress"
	RuleToolTimeout = "tool_timeout"
	RuleLoop        = "loop"
	RuleMaxTurns    = "max_turns"
	RuleLingers     = "lingers"
)

// Watchdog decides when a run does not get on. It is a pure state machine: signs and the time go in. It is for
// one goroutine at a time.
type Watchdog struct {
	limits Limits
	last   time.Time // of progress
	until  time.Time // it has announced to wait so long
	ended  time.Time // zero: it has not printed its end, or went on after it
	signs  Signs
}

// NewWatchdog returns a Watchdog for a run that begins now.
func NewWatchdog(l Limits, now time.Time) *Watchdog { return &Watchdog{limits: l, last: now} }

// Observe takes the signs of a run. It returns why the run is to be ended at once, or nil.
func (w *Watchdog) Observe(s Signs, now time.Time) *Stall {
	if s.Progress > w.signs.Progress {
		w.last = now
	}
	if s.Waits > w.signs.Waits {
		w.until = now.Add(s.Wait)
	}
	switch {
	case !s.Ended:
		w.ended = time.Time{}
	case w.ended.IsZero():
		w.ended = now
	}
	w.signs = s
	switch {
	case w.limits.Loop > 0 && s.Idle >= w.limits.Loop && !s.Ended:
		return &Stall{RuleLoop, Stalled, fmt.Sprintf("it repeated itself %d times without progress", s.Idle)}
	case w.limits.Turns > 0 && s.Turns > w.limits.Turns:
		return &Stall{
			RuleMaxTurns, Incomplete, fmt.Sprintf("it did not finish within %d turns (max_turns)", w.limits.Turns),
		}
	}
	return nil
}

// Ended reports whether the run has printed its end, and nothing after it.
func (w *Watchdog) Ended() bool { return !w.ended.IsZero() }

// Due returns when the run is to be ended if no other signs come until then; zero means never.
func (w *Watchdog) Due() time.Time {
	from, limit := w.last, w.limits.Stall
	switch {
	case !w.ended.IsZero():
		from, limit = w.ended, w.limits.Linger
	case w.signs.Tools > 0:
		limit = w.limits.Tool
	}
	if limit <= 0 {
		return time.Time{}
	}
	due := from.Add(limit)
	if w.ended.IsZero() && !w.until.IsZero() {
		// What it does after the wait takes time as well.
		if after := w.until.Add(min(limit, time.Minute)); after.After(due) {
			due = after
		}
	}
	return due
}

// Check returns why the run is to be ended now, or nil.
func (w *Watchdog) Check(now time.Time) *Stall {
	due := w.Due()
	if due.IsZero() || now.Before(due) {
		return nil
	}
	silent := duration.Format(now.Sub(w.last).Truncate(100 * time.Millisecond))
	switch {
	case !w.ended.IsZero():
		return &Stall{Rule: RuleLingers, Message: "the CLI did not exit after its final message"}
	case w.signs.Tools > 0:
		return &Stall{RuleToolTimeout, Stalled, "a tool was running, and the CLI printed nothing for " + silent + " (tool_timeout)"}
	}
	return &Stall{RuleNoProgress, Stalled, "it made no progress for " + silent + " (stall_timeout)"}
}

// compileWatch checks p.Watch, and notes in the picks what their lines say.
func (p *Preset) compileWatch() error {
	w := p.Watch
	if w.Loop < 0 {
		return errors.New("watch.loop must not be negative")
	}
	for _, list := range []struct {
		name  string
		picks []string
		sign  sign
	}{{"progress", w.Progress, progress}, {"idle", w.Idle, idle}, {"end", w.End, end}, {"turn", names(w.Turn), turn}} {
		for _, name := range list.picks {
			pick, err := p.need("watch."+list.name, name)
			if err != nil {
				return err
			}
			pick.sign |= list.sign
		}
	}
	for _, list := range []struct {
		name  string
		paths []string
		in    func(*Pick) *[]path
	}{
		{"tool_begins", w.ToolBegins, func(p *Pick) *[]path { return &p.begins }},
		{"tool_ends", w.ToolEnds, func(p *Pick) *[]path { return &p.ends }},
		{"wait_ms", names(w.WaitMS), func(p *Pick) *[]path { return &p.waits }},
	} {
		for _, written := range list.paths {
			name, rest := splitPath(written)
			pick, err := p.need("watch."+list.name, name)
			if err != nil {
				return err
			}
			paths := list.in(pick)
			*paths = append(*paths, rest)
		}
	}
	return nil
}

// names returns a list with name, unless that is empty.
func names(name string) []string {
	return slices.DeleteFunc([]string{name}, func(s string) bool { return s == "" })
}
