package ai

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/duration"
)

// Watching says how the output of a CLI shows that it gets on, and how long it may be without that.
type Watching struct {
	Progress []string `yaml:"progress,omitempty"` // picks whose lines are progress; default: every line
	Idle     []string `yaml:"idle,omitempty"`     // picks whose lines say that it tries again, or did nothing; they are no progress
	WaitMS   string   `yaml:"wait_ms,omitempty"`  // a path to the milliseconds that it is going to wait
	Turn     string   `yaml:"turn,omitempty"`     // the pick of the lines that are counted as turns; empty: the CLI counts them itself
	End      []string `yaml:"end,omitempty"`      // picks of the lines after which it has nothing left to do

	ToolBegins []string `yaml:"tool_begins,omitempty"` // paths to the ids of tools that begin
	ToolEnds   []string `yaml:"tool_ends,omitempty"`   // and of those that end

	StallTimeout *Span `yaml:"stall_timeout,omitempty"` // how long without progress; 0s: without end; default 10m
	ToolTimeout  *Span `yaml:"tool_timeout,omitempty"`  // the same while a tool runs; default 15m
	Linger       *Span `yaml:"linger,omitempty"`        // how long it may live after its end; default 30s
	Loop         int   `yaml:"loop,omitempty"`          // how many idle lines without progress are a loop; default 20
}

const (
	defaultStall  = 10 * time.Minute
	defaultTool   = 15 * time.Minute
	defaultLinger = 30 * time.Second
	defaultLoop   = 20

	maxTools = 1000 // that are known to run; a CLI has a few
)

// Span is a duration as it is written in YAML.
type Span time.Duration

// MarshalYAML implements yaml.Marshaler.
func (s Span) MarshalYAML() (any, error) { return duration.Format(time.Duration(s)), nil }

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Span) UnmarshalYAML(decode func(any) error) error {
	var text string
	if err := decode(&text); err != nil {
		return err
	}
	d, err := duration.Parse(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	*s = Span(d)
	return err
}

// Signs are what the output so far says of how a run gets on.
type Signs struct {
	Known    bool          // it has printed a line that the preset knows
	Progress int           // lines that are progress
	Idle     int           // idle lines since the last of them
	Waits    int           // lines that announce a wait
	Wait     time.Duration // what the last of them announces
	Tools    int           // that run
	Turns    int
	Ended    bool // its last line of these was that of the end
	Sessions int  // lines that name its session
}

// Signs returns the signs so far.
func (r *Reading) Signs() Signs {
	s := r.signs
	s.Tools = len(r.tools)
	return s
}

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
	l := Limits{Stall: defaultStall, Tool: defaultTool, Linger: defaultLinger, Loop: cmp.Or(p.Watch.Loop, defaultLoop)}
	for _, set := range []struct {
		to      *time.Duration
		preset  *Span
		setting *time.Duration
	}{{&l.Stall, p.Watch.StallTimeout, stall}, {&l.Tool, p.Watch.ToolTimeout, tool}, {&l.Linger, p.Watch.Linger, nil}} {
		switch {
		case set.setting != nil:
			*set.to = *set.setting
		case set.preset != nil:
			*set.to = time.Duration(*set.preset)
		}
	}
	if p.Watch.Turn != "" {
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
		return &Stall{RuleLoop, Stalled, fmt.Sprintf("it went round %d times without getting on", s.Idle)}
	case w.limits.Turns > 0 && s.Turns > w.limits.Turns:
		return &Stall{
			RuleMaxTurns, Incomplete, fmt.Sprintf("it was not done after %d turns (max_turns)", w.limits.Turns),
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
	silent := duration.Format(now.Sub(w.last).Truncate(time.Millisecond))
	switch {
	case !w.ended.IsZero():
		return &Stall{Rule: RuleLingers, Message: "it lived on after its end"}
	case w.signs.Tools > 0:
		return &Stall{RuleToolTimeout, Stalled, "a tool ran, and nothing was heard for " + silent + " (tool_timeout)"}
	}
	return &Stall{RuleNoProgress, Stalled, "it made no progress for " + silent + " (stall_timeout)"}
}

// sign is what a line says of how a run gets on.
type sign uint8

const (
	progress sign = 1 << iota
	idle
	turn
	end
)

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
			pick := p.pick(name)
			if pick == nil {
				return fmt.Errorf("watch.%s: there is no pick %q", list.name, name)
			}
			pick.sign |= list.sign
		}
	}
	p.toolBegins, p.toolEnds, p.waits = nil, nil, nil
	for _, list := range []struct {
		name    string
		paths   []string
		sources *[]*source
	}{
		{"tool_begins", w.ToolBegins, &p.toolBegins},
		{"tool_ends", w.ToolEnds, &p.toolEnds},
		{"wait_ms", names(w.WaitMS), &p.waits},
	} {
		for _, written := range list.paths {
			s := new(source)
			if s.pick, s.path = splitPath(written); p.pick(s.pick) == nil {
				return fmt.Errorf("watch.%s: there is no pick %q", list.name, s.pick)
			}
			*list.sources = append(*list.sources, s)
		}
	}
	return nil
}

// names returns a list with name, unless that is empty.
func names(name string) []string {
	return slices.DeleteFunc([]string{name}, func(s string) bool { return s == "" })
}

// watch takes what a line of a pick says of tools and waits.
func (r *Reading) watch(p *Pick, doc []byte) {
	if p.session {
		r.signs.Sessions++
	}
	for _, s := range r.preset.toolBegins {
		if s.pick != p.name {
			continue
		}
		for id := range s.path.all(doc) {
			if len(r.tools) < maxTools {
				r.tools[string(id)] = struct{}{}
			}
		}
	}
	for _, s := range r.preset.toolEnds {
		if s.pick != p.name {
			continue
		}
		for id := range s.path.all(doc) {
			delete(r.tools, string(id))
		}
	}
	for _, s := range r.preset.waits {
		if s.pick != p.name {
			continue
		}
		if d := seconds(textOf(s.path.in(doc)), time.Millisecond); d > 0 {
			r.signs.Waits++
			r.signs.Wait = d
		}
	}
}

// sawLine takes what a whole line says.
func (r *Reading) sawLine(says sign) {
	if len(r.preset.Watch.Progress) == 0 && says&idle == 0 {
		says |= progress
	}
	switch {
	case says&idle != 0:
		r.signs.Idle++
	case says&progress != 0:
		r.signs.Progress++
		r.signs.Idle, r.signs.Ended = 0, false
	}
	if says&turn != 0 {
		r.signs.Turns++
	}
	if says&end != 0 {
		r.signs.Ended = true
	}
}
