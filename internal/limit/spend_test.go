package limit

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
)

func usd(f float64) *USD { return new(FromFloat(f)) }

func TestAmountsForPeople(t *testing.T) {
	for want, f := range map[string]float64{
		"$0.00": 0, "$12.40": 12.4, "$0.50": 0.5, "$0.058": 0.058, "$0.0025": 0.00252, "<$0.0001": 0.00004, "$1000.00": 1000, "$0.9999": 0.9999,
	} {
		if got := FromFloat(f).String(); got != want {
			t.Errorf("%g: got %s, want %s", f, got, want)
		}
	}
}

func TestAmountsComeBackFromJSON(t *testing.T) {
	for _, f := range []float64{0, 0.00252, 12.4, 0.1 + 0.2, 1e6} {
		data, err := json.Marshal(FromFloat(f))
		var back USD
		if err := errors.Join(err, json.Unmarshal(data, &back)); err != nil || back != FromFloat(f) {
			t.Errorf("%g: %s came back as %d, %v", f, data, back, err)
		}
	}
}

func TestLimits(t *testing.T) {
	for text, want := range map[string]string{"25": "$25.00", "$0.5": "$0.50", "0": "", "-1": "", "NaN": "", "1e9": "", "x": "", "": "", "0.0000001": ""} {
		u, err := ParseUSD(text)
		if got := u.String(); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: got %s, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]Count{"20M": 20_000_000, "500k": 500_000, "7": 7, "0": 0, "1.5M": 0, "M": 0, "-1": 0, "": 0} {
		if n, err := ParseCount(text); n != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d, %v, want %d", text, n, err, want)
		}
	}
}

func TestWhatIsNotKnownIsNeverShownAsNothing(t *testing.T) {
	known := Use{Preset: "claude", Outcome: "success", Cost: usd(1.5)}
	unknown := Use{Preset: "codex", Outcome: "failed"}
	for want, uses := range map[string][]Use{
		"$0.00": nil, "unknown": {unknown}, "$1.50": {known}, "at least $1.50": {known, unknown},
		"at least $3.00": {known, {Preset: "opencode", Outcome: "interrupted", Cost: usd(1.5), Partial: true}},
	} {
		var total Total
		for _, u := range uses {
			total.Add(u)
		}
		if got := total.CostText(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestALimitOfAnItemCountsOverItsAttempts(t *testing.T) {
	l := NewLedger(Budget{Item: usd(0.5)}, Account{})
	ask := Ask{Item: 3, Step: "fix", Max: FromFloat(0.3)}
	g, _, err := l.Admit(ask)
	if err != nil || g.Cap != FromFloat(0.3) {
		t.Fatalf("got %+v, %v, want the cap of the step", g, err)
	}
	l.Add(3, "fix", Use{Cost: usd(0.2)})
	l.Release(g.ID)
	g, _, _ = l.Admit(ask)
	if g.Cap != FromFloat(0.1) {
		t.Errorf("second attempt: got a cap of %s, want what is left of the step, $0.10", g.Cap)
	}
	l.Add(3, "fix", Use{Cost: usd(0.12)})
	l.Release(g.ID)
	var spent *ItemSpent
	if _, _, err = l.Admit(ask); !errors.As(err, &spent) || spent.What != "max_cost" {
		t.Errorf("third attempt: got %v, want max_cost to be spent", err)
	}
	if g, _, err = l.Admit(Ask{Item: 3, Step: "review"}); err != nil || g.Cap != FromFloat(0.18) {
		t.Errorf("another step: got %+v, %v, want what is left of the item, $0.18", g, err)
	}
	if g, _, err = l.Admit(Ask{Item: 4, Step: "fix"}); err != nil || g.Cap != FromFloat(0.5) {
		t.Errorf("another item: got %+v, %v", g, err)
	}
}

func TestAnAgentOfUnknownCostCountsAsWhatItMayHaveCost(t *testing.T) {
	l := NewLedger(Budget{Job: usd(1), Item: usd(0.6)}, Account{})
	g, _, _ := l.Admit(Ask{Item: 0, Step: "s"})
	l.Add(0, "s", Use{Assumed: g.Assumed})
	l.Release(g.ID)
	g, _, err := l.Admit(Ask{Item: 1, Step: "s"})
	if err != nil || g.Cap != FromFloat(0.4) || !g.Rest {
		t.Errorf("got %+v, %v, want the rest, $0.40", g, err)
	}
}

func TestTokensHaveALimitToo(t *testing.T) {
	l := NewLedger(Budget{Tokens: new(Count(1000))}, Account{})
	starts := 0
	for {
		g, wait, err := l.Admit(Ask{Item: starts})
		var spent *JobSpent
		if errors.As(err, &spent) {
			break
		}
		if err != nil || wait {
			t.Fatalf("got %t, %v", wait, err)
		}
		starts++
		l.Add(starts, "s", Use{Cost: usd(0), Tokens: &Tokens{Input: 100, Cached: 100, Output: 100}})
		l.Release(g.ID)
	}
	if starts != 3 {
		t.Errorf("got %d agents of 300 tokens, want 3 of 1000", starts)
	}
}

// Each CLI ends after the call that reaches its cap. Whatever the schedule, the job is over its budget by no more than one call of each agent that
// runs, what the ledger has added up is what was spent, and nobody waits for ever.
func TestRandomSchedulesKeepTheBudget(t *testing.T) {
	schedules(t, 1000, func(rnd *rand.Rand) (b Budget, max USD) {
		b.Job = new(USD(rnd.Int64N(int64(20*Dollar))) + Dollar/10)
		if rnd.IntN(2) == 0 {
			b.Item = new(USD(rnd.Int64N(int64(3*Dollar))) + Dollar/100)
			if rnd.IntN(2) == 0 {
				return b, 0
			}
		}
		return b, USD(rnd.Int64N(int64(2*Dollar))) + Dollar/100
	}, false)
}

// Where nothing limits one agent, the stream of its output does: all of them end when together they have reached the budget.
func TestRandomSchedulesOfStreamsKeepTheBudget(t *testing.T) {
	schedules(t, 300, func(rnd *rand.Rand) (b Budget, max USD) {
		return Budget{Job: new(USD(rnd.Int64N(int64(20*Dollar))) + Dollar/10)}, 0
	}, true)
}

func schedules(t *testing.T, n uint64, limits func(*rand.Rand) (Budget, USD), streams bool) {
	t.Helper()
	for seed := range n {
		rnd := rand.New(rand.NewPCG(seed, 14))
		b, most := limits(rnd)
		l := NewLedger(b, Account{})
		call := USD(rnd.Int64N(int64(Dollar/5))) + 1 // the dearest
		type agent struct {
			grant     Grant
			item      int
			cost      USD
			callsLeft int
		}
		var running []*agent
		var spent, recorded USD
		parallel, item, stopped, together := 1+rnd.IntN(12), 0, false, 0
		for round := 0; round < 3000 && !(stopped && len(running) == 0); round++ {
			if !stopped && len(running) < parallel && rnd.IntN(2) == 0 {
				g, wait, err := l.Admit(Ask{Item: item, Step: "s", Max: most})
				var job *JobSpent
				switch {
				case errors.As(err, &job):
					stopped = true
				case err != nil:
					item++ // it may cost no more
				case wait && len(running) == 0:
					t.Fatalf("seed %d: it waits for nobody", seed)
				case !wait:
					running = append(running, &agent{grant: g, item: item, callsLeft: 1 + rnd.IntN(40)})
					together = len(running)
					if rnd.IntN(4) > 0 { // else the item comes again
						item++
					}
				}
			}
			if len(running) == 0 {
				continue
			}
			i := rnd.IntN(len(running))
			a := running[i]
			cost := USD(rnd.Int64N(int64(call))) + 1
			a.cost += cost
			spent += cost
			a.callsLeft--
			over := a.grant.Cap > 0 && a.cost >= a.grant.Cap
			if streams {
				own, job := l.Live(a.grant.ID, a.cost)
				over = own || job
			}
			if spent > *b.Job+USD(together)*call { // those that have ended since the last start may have passed their caps too
				t.Fatalf("seed %d: %s are spent of %s, with %d running and calls of up to %s", seed, spent, *b.Job, together, call)
			}
			if !over && a.callsLeft > 0 {
				continue
			}
			running = append(running[:i], running[i+1:]...)
			l.Add(a.item, "s", Use{Preset: "p", Outcome: "success", Cost: &a.cost})
			l.Release(a.grant.ID)
			recorded += a.cost
			if got := l.account.Total.Cost; got != recorded {
				t.Fatalf("seed %d: the ledger has %s, the agents have cost %s", seed, got, recorded)
			}
		}
	}
}
