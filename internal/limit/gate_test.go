package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

var zero time.Duration

var exact = QuotaPolicy{Margin: &zero, Jitter: &zero}

var began = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return began.Add(d) }

func admitted(t *testing.T, g *Gate, now time.Time) GateTicket {
	t.Helper()
	ticket, wait := g.Admit(now, false)
	if wait != 0 {
		t.Fatalf("at %s: got a wait of %s, want a start", now.Sub(began), wait)
	}
	return ticket
}

func TestAGateIsClosedUntilTheResetAndOpensByAndBy(t *testing.T) {
	var g Gate
	first, second := admitted(t, &g, at(0)), admitted(t, &g, at(0))
	closed, _, _ := g.Report(first, GateReport{Kind: GateQuota, Reset: at(time.Hour)}, exact, 1, at(time.Minute))
	if closed == nil || !closed.Until.Equal(at(time.Hour)) {
		t.Fatalf("got %+v, want a closing until the reset", closed)
	}
	if again, _, _ := g.Report(second, GateReport{Kind: GateQuota, Reset: at(time.Hour)}, exact, 1, at(2*time.Minute)); again != nil {
		t.Errorf("got %+v, want one closing for all that met the limit", again)
	}
	if _, wait := g.Admit(at(30*time.Minute), false); wait != 30*time.Minute {
		t.Errorf("got a wait of %s, want 30m", wait)
	}
	now := at(time.Hour)
	for _, many := range []int{1, 2, 4, 8} {
		var started []GateTicket
		for range many {
			started = append(started, admitted(t, &g, now))
		}
		if _, wait := g.Admit(now, false); wait == 0 {
			t.Fatalf("got more than %d at once", many)
		}
		// One that comes through doubles what may run.
		_, opened, _ := g.Report(started[0], GateReport{}, exact, 1, now)
		if opened != (many == 1) {
			t.Errorf("after %d: got opened %t", many, opened)
		}
		for _, ticket := range started[1:] {
			g.Release(ticket)
		}
	}
	for range 100 {
		admitted(t, &g, now)
	}
}

func TestAProbeThatMeetsTheLimitClosesTheGateAgain(t *testing.T) {
	var g Gate
	now := began
	var waits []time.Duration
	for range 7 {
		closed, _, _ := g.Report(admitted(t, &g, now), GateReport{Kind: GateQuota}, exact, 1, now)
		waits = append(waits, closed.Until.Sub(now))
		now = closed.Until
	}
	for i, want := range []time.Duration{5, 10, 20, 40, 60, 60, 60} {
		if waits[i] != want*time.Minute {
			t.Errorf("got %s, want %s", waits[i], want*time.Minute)
		}
	}
}

func TestAResetInThePastIsNotAskedForWithoutEnd(t *testing.T) {
	var g Gate
	now, asked := at(24*time.Hour), 0
	for now.Before(at(26 * time.Hour)) {
		asked++
		closed, _, _ := g.Report(admitted(t, &g, now), GateReport{Kind: GateQuota, Reset: began}, exact, 1, now)
		now = closed.Until
	}
	if asked > 8 {
		t.Errorf("got %d requests in two hours", asked)
	}
}

func TestMarginAndJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for seed := range uint64(50) {
		var g Gate
		closed, _, _ := g.Report(admitted(t, &g, began), GateReport{Kind: GateQuota, Reset: at(time.Hour)}, QuotaPolicy{}, seed, began)
		late := closed.Until.Sub(at(time.Hour))
		if late < 10*time.Second || late > 40*time.Second {
			t.Fatalf("got %s after the reset, want 10s to 40s", late)
		}
		seen[late] = true
	}
	if len(seen) < 40 {
		t.Errorf("got %d different times of 50", len(seen))
	}
}

func TestAnItemThatNeedsMoreThanThereIsGivesUp(t *testing.T) {
	var g Gate
	now := began
	for n := 1; ; n++ {
		closed, _, poison := g.Report(admitted(t, &g, now), GateReport{Kind: GateQuota, Reset: now.Add(time.Minute), Item: "big"}, exact, 1, now)
		if poison {
			if n != maxHits {
				t.Errorf("got poison after %d, want %d", n, maxHits)
			}
			return
		}
		now = closed.Until
		g.Report(admitted(t, &g, now), GateReport{Item: "other"}, exact, 1, now)
		if n > 10 {
			t.Fatal("it never gives up")
		}
	}
}

func TestTheSameLimitWithoutASuccessIsNoPoison(t *testing.T) {
	var g Gate
	now := began
	for range 20 {
		closed, _, poison := g.Report(admitted(t, &g, now), GateReport{Kind: GateQuota, Reset: now.Add(time.Minute), Item: "x"}, exact, 1, now)
		if poison {
			t.Fatal("got poison, though nothing else came through")
		}
		now = closed.Until
	}
}

// In any schedule nothing starts while the gate is closed, and the number of those that run after it never
// gets out of step.
func TestRandomSchedules(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var g Gate
		now, until := began, time.Time{}
		running := []GateTicket{}
		for range 300 {
			now = now.Add(time.Duration(rnd.IntN(60)) * time.Second)
			if rnd.IntN(2) == 0 {
				if ticket, wait := g.Admit(now, false); wait == 0 {
					if now.Before(until) {
						t.Fatalf("seed %d: started %s before the end of the pause", seed, until.Sub(now))
					}
					running = append(running, ticket)
				}
			}
			if len(running) == 0 || rnd.IntN(2) == 0 {
				continue
			}
			i := rnd.IntN(len(running))
			ticket := running[i]
			running = append(running[:i], running[i+1:]...)
			switch rnd.IntN(4) {
			case 0:
				closed, _, _ := g.Report(ticket, GateReport{Kind: GateQuota, Reset: now.Add(time.Duration(rnd.IntN(600)) * time.Second)}, exact, seed, now)
				if closed != nil {
					until = closed.Until
				}
			case 1:
				g.Release(ticket)
			default:
				g.Report(ticket, GateReport{}, exact, seed, now)
			}
			if g.running < 0 || g.shut && g.running > len(running) {
				t.Fatalf("seed %d: %d are counted, %d run", seed, g.running, len(running))
			}
		}
	}
}
