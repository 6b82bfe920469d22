package limit

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"prodigy/internal/check"
)

// OnQuota is what a used-up limit does.
type OnQuota string

const (
	QuotaPause OnQuota = "pause" // agents wait for the reset; nothing is charged
	QuotaStop  OnQuota = "stop"  // the job stops, and can be resumed
	QuotaFail  OnQuota = "fail"  // it is a failure like any other
)

// QuotaPolicy is the block quota of an error_policy.
type QuotaPolicy struct {
	OnQuota OnQuota `yaml:"on_quota" words:"pause stop fail"` // what happens when a limit is reached; default pause

	// maximum pause: if the limit resets later, the job stops and can be resumed; default 6h
	MaxPause *time.Duration `yaml:"max_pause"`

	Margin *time.Duration `yaml:"margin"` // delay after the reset before the first agent runs; default 10s

	// used fraction of a limit at which agents already wait for its reset, if the CLI reports it; more than 0,
	// at most 1; default off
	PauseAt *float64 `yaml:"pause_at"`

	// maximum random extra delay, since others may use the same plan; default 30s
	Jitter *time.Duration `yaml:"jitter"`
}

// Check finds what is wrong with p as a block of a workflow file.
func (p QuotaPolicy) Check(found *check.Findings) {
	share := p.PauseAt
	found.Require(share == nil || *share > 0 && *share <= 1, "pause_at", "pause_at must be more than 0 and at most 1")
}

func orElse(d *time.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return *d
}

// GateKind is why a gate closes.
type GateKind string

const (
	GateQuota GateKind = "quota"
	GateAuth  GateKind = "auth" // somebody has to log in or to pay
)

const (
	firstBackoff = 5 * time.Minute // where the CLI does not say when the limit resets
	maxBackoff   = time.Hour
	authWait     = 15 * time.Second // before it is tried once more whether somebody is logged in
	wide         = 16               // agents at once from which on the gate is open

	// an item that meets the limit so often while others succeed needs more than there is
	maxHits = 5
)

// GateReport is how an agent ended.
type GateReport struct {
	Kind  GateKind  // of an agent that came through the gate it is empty
	Reset time.Time // of the limit, if it is known
	Item  string
}

// GateTicket is a start that was admitted.
type GateTicket struct{ Closings int }

// GateClosing says that a gate has closed.
type GateClosing struct {
	Kind    GateKind
	Until   time.Time // when the probe may run
	ResetAt time.Time // what the CLI said, if it did
	Near    bool      // the limit was not reached yet
}

// Gate holds back agents while the limit of the plan that they share is used up. It is a pure state machine:
// outcomes and the clock go in, decisions come out. A limit closes it until the limit resets. Then one agent is the
// probe; as long as agents come through, twice as many may run, until the gate is open again. The zero Gate is open.
// It is not safe for concurrent use.
type Gate struct {
	until    time.Time
	closings int  // so far
	shut     bool // closed, or opening
	misses   int  // closings since an agent came through
	running  int  // agents started since it closed
	allowed  int  // at once

	hits map[string]gateHit
	done int // agents that came through
}

type gateHit struct{ n, done int }

// Restore closes a gate as an earlier run left it.
func (g *Gate) Restore(until time.Time) {
	g.shut, g.until, g.closings, g.misses, g.allowed = true, until, 1, 1, 1
}

// EndWait says of a wait that it is over when an agent ends. If that is not heard of, the agent asks again after it.
const EndWait = 15 * time.Second

// Admit asks for a start. Without one it says how long to wait before asking again. An agent inside another one, which
// may be the one that all wait for, does not wait until others come through.
func (g *Gate) Admit(now time.Time, inside bool) (t GateTicket, wait time.Duration) {
	switch {
	case !g.shut:
		return GateTicket{g.closings}, 0
	case now.Before(g.until):
		return GateTicket{}, g.until.Sub(now)
	case g.running >= g.allowed && !inside:
		return GateTicket{}, EndWait
	}
	g.running++
	return GateTicket{g.closings}, 0
}

// Report takes how an admitted agent ended. closed is set when the gate closes by it, opened when it is the
// first that comes through again. poison says that the item is not to try again: it met the limit again and
// again while others came through.
func (g *Gate) Report(t GateTicket, r GateReport, p QuotaPolicy, seed uint64, now time.Time) (closed *GateClosing, opened, poison bool) {
	current := t.Closings == g.closings
	if current && g.shut {
		g.running--
	}
	if r.Kind == "" {
		g.done++
		if !current || !g.shut {
			return nil, false, false
		}
		g.misses = 0
		opened = g.allowed == 1
		if g.allowed *= 2; g.allowed >= wide {
			g.shut = false
		}
		return nil, opened, false
	}
	poison = r.Kind == GateQuota && g.hit(r.Item)
	if !current {
		return nil, false, poison // the limit was met by others before: it is closed already
	}
	g.closings++
	g.misses++
	g.shut, g.running, g.allowed = true, 0, 1
	c := &GateClosing{Kind: r.Kind, ResetAt: r.Reset}
	switch {
	case r.Kind == GateAuth:
		c.Until = now.Add(authWait)
	case !r.Reset.IsZero():
		c.Until = r.Reset
		if c.Until.Before(now) {
			c.Until = now
		}
		if g.misses > 2 { // the time that it says is not right
			c.Until = later(c.Until, now.Add(gateBackoff(g.misses-2)))
		}
		c.Until = g.after(c.Until, p, seed)
	default:
		c.Until = now.Add(gateBackoff(g.misses) + gateJitter(orElse(p.Jitter, 30*time.Second), seed, g.closings))
	}
	g.until = c.Until
	return c, false, poison
}

// Near closes the gate before the limit is reached, until its reset. It returns nil if the gate is closed
// already, or the reset is over.
func (g *Gate) Near(reset time.Time, p QuotaPolicy, seed uint64, now time.Time) *GateClosing {
	if g.shut && now.Before(g.until) || !reset.After(now) {
		return nil
	}
	g.closings++
	g.shut, g.running, g.allowed, g.misses = true, 0, 1, 0
	g.until = g.after(reset, p, seed)
	return &GateClosing{Kind: GateQuota, Until: g.until, ResetAt: reset, Near: true}
}

// after returns when the probe runs for a limit that ends at reset.
func (g *Gate) after(reset time.Time, p QuotaPolicy, seed uint64) time.Time {
	return reset.Add(orElse(p.Margin, 10*time.Second) + gateJitter(orElse(p.Jitter, 30*time.Second), seed, g.closings))
}

// Release takes a start back whose agent was stopped.
func (g *Gate) Release(t GateTicket) {
	if g.shut && t.Closings == g.closings {
		g.running--
	}
}

// hit notes that an item met the limit, and reports whether it did so too often.
func (g *Gate) hit(item string) bool {
	h, known := g.hits[item]
	if !known || g.done > h.done { // others have come through since the last time
		h.n++
	}
	h.done = g.done
	if g.hits == nil {
		g.hits = map[string]gateHit{}
	}
	g.hits[item] = h
	return h.n >= maxHits
}

// gateBackoff returns 5m, 10m, 20m … 1h.
func gateBackoff(n int) time.Duration {
	return min(firstBackoff<<min(max(n-1, 0), 10), maxBackoff)
}

// gateJitter draws from [0, most], the same for the same closing of a job.
func gateJitter(most time.Duration, seed uint64, closings int) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, seed, closings)
	return time.Duration(rand.New(rand.NewPCG(seed, h.Sum64())).Int64N(int64(most) + 1))
}

// TooLong returns how long the longest pause is, if a closing is longer.
func (p QuotaPolicy) TooLong(c GateClosing, now time.Time) (most time.Duration, tooLong bool) {
	most = orElse(p.MaxPause, 6*time.Hour)
	return most, c.Until.Sub(now) > most
}
