package mapreduce

import (
	"context"
	"fmt"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
)

// gates hold back all starts of a pool: outside of the windows of the job, and while the machine has too little left. What runs goes on.
type gates struct {
	windows limit.Windows
	outside bool
	asked   time.Time // when the windows were looked at last
	until   time.Time // what they said then holds until then

	short   string        // why the guards are closed; empty: they are not
	changed <-chan string // what short becomes; nil: there are no guards
}

// What holds starts back, in the events of it.
const (
	byWindows = "windows"
	byGuards  = "guards"
)

// guardPause is how long there is between two looks at the machine.
const guardPause = 2 * time.Second

// openGates returns what the workflow says. The guards are looked at before it returns, and then until ctx ends.
func (p *pool) openGates(ctx context.Context) error {
	j, m, g := p.job, p.job.workflow.Map, &p.gates
	g.windows = m.Windows
	if !m.Guards.Any() {
		return nil
	}
	guards := m.Guards
	if j.config.OnFleet { // workers look at their machines; here the log is written
		guards = limit.Guards{MinFreeDisk: guards.MinFreeDisk}
	}
	look := func(was bool) (string, error) {
		now, err := j.machine()
		return guards.Closed(now, was), err
	}
	first, err := look(false)
	if err != nil {
		return fmt.Errorf("guards: %w", err)
	}
	p.guarded(first)
	changed := make(chan string, 1)
	g.changed = changed
	j.agents.Go(func() error {
		tick := time.NewTicker(guardPause)
		defer tick.Stop()
		for last := first; ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			short, err := look(last != "")
			if err != nil || (short == "") == (last == "") {
				continue // what cannot be measured now closes nothing and opens nothing
			}
			last = short
			select {
			case changed <- short:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return nil
}

// machine measures what this machine has left.
func (j *job) machine() (limit.Machine, error) {
	if j.config.Machine != nil {
		return j.config.Machine()
	}
	return limit.MachineNow(j.config.Dir, j.place.EventsDir())
}

// guarded records that the guards have closed or opened.
func (p *pool) guarded(short string) {
	if p.gates.short == short {
		return
	}
	if p.gates.short = short; short == "" {
		p.job.record(events.StartsAllowed{By: byGuards})
		return
	}
	p.job.record(events.StartsHeld{By: byGuards, Reason: short})
}

// watchWindows notes whether now is in the windows of the job, and records when that changes. Outside of them a run ends that is not to wait.
func (p *pool) watchWindows(now time.Time) {
	g := &p.gates
	if len(g.windows) == 0 || p.halted != nil {
		return
	}
	if now.Before(g.until) && !now.Before(g.asked) {
		p.exitOutside()
		return
	}
	open, until := g.windows.At(now)
	g.asked, g.until = now, until
	if open == !g.outside {
		return
	}
	g.outside = !open
	if open {
		p.job.record(events.StartsAllowed{By: byWindows})
		return
	}
	p.job.record(events.StartsHeld{By: byWindows, Reason: "it is outside of the windows (" + g.windows.String() + ")", Until: &until})
	p.exitOutside()
}

// exitOutside ends a run that is not to wait for the next window, once there is something that would have to wait.
func (p *pool) exitOutside() {
	if !p.gates.outside || !p.job.config.ExitOutside || p.exhausted() && len(p.suspects) == 0 {
		return
	}
	p.halt(runResult{state: Paused, reason: p.gates.reason(), outside: true}, untilTheyEnd)
}

// reason returns why nothing may start; "" if it may.
func (g *gates) reason() string {
	if g.outside {
		return "it is outside of the windows (" + g.windows.String() + "), the next begins at " + g.until.Local().Format(time.DateTime)
	}
	return g.short
}

// closed reports whether nothing may start.
func (g *gates) closed() bool { return g.outside || g.short != "" }

// next returns when to look again, or latest if that is sooner. A clock that is set, or a machine that sleeps, is noticed within a minute.
func (g *gates) next(now, latest time.Time) time.Time {
	if len(g.windows) == 0 {
		return latest
	}
	for _, at := range []time.Time{g.until, now.Add(time.Minute)} {
		if at.Before(latest) {
			latest = at
		}
	}
	return latest
}
