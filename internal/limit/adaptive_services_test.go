package limit

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// service is one that takes calls at a rate, with a bucket, in windows, or so many at once, and gets slower
// with more at once. The zero values are no limit.
type service struct {
	rate, burst float64       // calls in a second, with a bucket
	window      time.Duration // rate is counted in windows of this length, and nothing is carried over
	most        int           // calls at once, beyond which it refuses
	base        time.Duration
	quick       int // calls at once that do not slow it down
	spread      float64
	reach       time.Duration // at most until the service sees a call, as a process has to start first

	at     time.Duration // from then on it is another service
	factor float64       // its rate, most and quick are then so many times what they were

	tokens float64
	seen   time.Time
	busy   int
}

// become makes s the service that it is at a time.
func (s *service) become(now time.Time) {
	if s.factor > 0 && now.Sub(noon) >= s.at {
		s.rate, s.most, s.quick = s.rate*s.factor, int(float64(s.most)*s.factor), int(float64(s.quick)*s.factor)
		s.factor = 0
	}
}

// call answers a call: how long it takes, and, if it is refused, when the service is to be called again.
func (s *service) call(now time.Time, rnd *rand.Rand) (took, asked time.Duration) {
	s.become(now)
	asked = time.Second
	refused := s.most > 0 && s.busy >= s.most
	switch {
	case s.rate == 0:
	case s.window > 0:
		if begin := now.Truncate(s.window); !s.seen.Equal(begin) {
			s.seen, s.tokens = begin, s.rate*s.window.Seconds()
		}
		refused, asked = refused || s.tokens < 1, s.seen.Add(s.window).Sub(now)+time.Millisecond
		s.tokens--
	default:
		if s.seen.IsZero() {
			s.tokens, s.seen = s.burst, now
		}
		s.tokens, s.seen = min(s.burst, s.tokens+now.Sub(s.seen).Seconds()*s.rate), now
		if refused = refused || s.tokens < 1; !refused {
			s.tokens--
		}
	}
	if refused {
		return 2 * time.Millisecond, asked
	}
	s.busy++
	factor := max(1, float64(s.busy)/float64(s.quick)) * (1 + s.spread*(rnd.Float64()-0.5))
	return time.Duration(float64(s.base) * factor), 0
}

// best returns how long n calls take at least, without a bucket, for a client that knows the service and
// makes at most so many calls at once.
func (s service) best(n, most int) time.Duration {
	perSecond := func(s service) float64 {
		least := float64(min(s.quick, most)) / s.base.Seconds() // more do not make it faster
		if s.most > 0 {
			least = min(least, float64(s.most)/s.base.Seconds())
		}
		if s.rate > 0 {
			least = min(least, s.rate)
		}
		return least
	}
	before := perSecond(s)
	if done := before * s.at.Seconds(); s.factor > 0 && done < float64(n) {
		s.become(noon.Add(s.at))
		return s.at + time.Duration((float64(n)-done)/perSecond(s)*float64(time.Second))
	}
	return time.Duration(float64(n) / before * float64(time.Second))
}

// happening is a call that reaches the service or ends, or one that may be made again.
type happening struct {
	at    time.Time
	what  int
	began time.Time
	kind  CallKind
	asked time.Duration
}

const (
	reaches = iota
	ends
	again
)

type timeline []happening

func (t timeline) Len() int           { return len(t) }
func (t timeline) Less(i, k int) bool { return t[i].at.Before(t[k].at) }
func (t timeline) Swap(i, k int)      { t[i], t[k] = t[k], t[i] }
func (t *timeline) Push(x any)        { *t = append(*t, x.(happening)) }
func (t *timeline) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// simulated is what became of calls to a service.
type simulated struct {
	took    time.Duration
	refused []time.Duration // when
	most    int             // at once
	changes []Change
}

// simulate makes n calls, each until it succeeds, as a pool with a limiter does.
func simulate(l *Adaptive, s *service, n int, seed uint64) (r simulated) {
	return simulateBy(func(t time.Time) time.Time { return t }, l, s, n, seed)
}

// simulateBy is simulate with a clock that says what time it is.
func simulateBy(clock func(time.Time) time.Time, l *Adaptive, s *service, n int, seed uint64) (r simulated) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	now, ready, running, left := noon, n, 0, n
	var line timeline
	for left > 0 {
		for ready > 0 && running < l.AtOnce() && !l.Next(clock(now)).After(clock(now)) {
			l.Start(clock(now))
			ready--
			running++
			r.most = max(r.most, running)
			reach := time.Duration(rnd.Float64() * float64(s.reach))
			heap.Push(&line, happening{at: now.Add(reach), what: reaches, began: now})
		}
		next := now.Add(time.Hour)
		if ready > 0 && running < l.AtOnce() {
			next = now.Add(l.Next(clock(now)).Sub(clock(now)))
		}
		if len(line) == 0 || line[0].at.After(next) {
			now = next
			continue
		}
		h := heap.Pop(&line).(happening)
		now = h.at
		switch h.what {
		case reaches:
			took, asked := s.call(now, rnd)
			end := happening{at: now.Add(took), what: ends, began: h.began, kind: CallGood}
			if asked > 0 {
				end.kind, end.asked = CallRefused, asked
			}
			heap.Push(&line, end)
		case again:
			ready++
		case ends:
			e := CallEnd{Kind: h.kind, Began: clock(h.began), Calls: running, Asked: h.asked}
			if running--; h.kind == CallRefused {
				r.refused = append(r.refused, now.Sub(noon))
				heap.Push(&line, happening{at: now.Add(h.asked), what: again})
			} else {
				e.Took = now.Sub(h.began)
				s.busy--
				left--
			}
			if c := l.End(e, clock(now)); c != nil {
				r.changes = append(r.changes, *c)
			}
		}
	}
	r.took = now.Sub(noon)
	return r
}

// TestAServiceThatNobodyHasDescribedIsFoundOut makes calls to services of many kinds. The time is close to
// the best that there is, and hardly a call is refused. -v prints what came of each.
func TestAServiceThatNobodyHasDescribedIsFoundOut(t *testing.T) {
	ms := time.Millisecond
	var table strings.Builder
	for _, c := range []struct {
		name    string
		service service
		calls   int
		most    int     // at once; 0: 64
		slower  float64 // than the best, at most; 0: 1.25
		refused float64 // of the calls, at most; 0: 0.02
	}{
		{name: "50/s, bucket 10, processes", service: service{rate: 50, burst: 10, base: 50 * ms, quick: 10, reach: 30 * ms}, calls: 1000},
		{name: "50/s, bucket 10, busy machine", service: service{rate: 50, burst: 10, base: 50 * ms, quick: 10, reach: 120 * ms}, calls: 1000},
		{name: "50/s, bucket 5", service: service{rate: 50, burst: 5, base: 100 * ms, quick: 10}, calls: 1000},
		{name: "50/s, bucket of a second", service: service{rate: 50, burst: 50, base: 100 * ms, quick: 10}, calls: 1000},
		{name: "50/s, no bucket", service: service{rate: 50, burst: 1, base: 100 * ms, quick: 10}, calls: 1000, slower: 2},
		{name: "50/s, unequal calls", service: service{rate: 50, burst: 10, base: 200 * ms, quick: 20, spread: 1}, calls: 1000},
		{name: "50/s, slow calls", service: service{rate: 50, burst: 10, base: time.Second, quick: 100, spread: 0.5}, calls: 3000},
		{name: "50/s, in windows of 1s", service: service{rate: 50, window: time.Second, base: 50 * ms, quick: 10, reach: 30 * ms}, calls: 1000, refused: 0.03},
		{name: "3000 in a minute, in windows", service: service{rate: 50, window: time.Minute, base: 50 * ms, quick: 20, reach: 30 * ms}, calls: 9000},
		{name: "5/s, bucket 10", service: service{rate: 5, burst: 10, base: 50 * ms, quick: 10, reach: 30 * ms}, calls: 1000},
		{name: "0.5/s, bucket 2", service: service{rate: 0.5, burst: 2, base: time.Second, quick: 100, spread: 0.5}, calls: 1000},
		{name: "0.1/s, agents of a minute", service: service{rate: 0.1, burst: 1, base: time.Minute, quick: 200, reach: 30 * ms}, calls: 300, slower: 2.5},
		{name: "500/s, bucket 100", service: service{rate: 500, burst: 100, base: 50 * ms, quick: 40, reach: 5 * ms}, calls: 6000},
		{name: "500/s, bucket 10", service: service{rate: 500, burst: 10, base: 50 * ms, quick: 40, reach: 5 * ms}, calls: 6000},
		{name: "8 at once, refuses more", service: service{most: 8, base: 100 * ms, quick: 100, reach: 10 * ms}, calls: 2000, slower: 1.4},
		{name: "8 at once, unequal calls", service: service{most: 8, base: 100 * ms, quick: 100, spread: 1, reach: 10 * ms}, calls: 2000, slower: 1.7},
		{name: "50/s, then 100/s", service: service{rate: 50, burst: 10, base: 50 * ms, quick: 20, reach: 30 * ms, at: 20 * time.Second, factor: 2}, calls: 3000},
		{name: "50/s, then 500/s", service: service{rate: 50, burst: 10, base: 50 * ms, quick: 40, reach: 5 * ms, at: 20 * time.Second, factor: 10}, calls: 12000},
		{name: "50/s, then 25/s", service: service{rate: 50, burst: 10, base: 50 * ms, quick: 10, reach: 30 * ms, at: 10 * time.Second, factor: 0.5}, calls: 1000},
		{name: "50/s, then 5/s", service: service{rate: 50, burst: 10, base: 50 * ms, quick: 10, reach: 30 * ms, at: 10 * time.Second, factor: 0.1}, calls: 1000},
		{name: "never refuses, 64 at once", service: service{base: 100 * ms, quick: 64, spread: 0.3}, calls: 3000},
		{name: "never refuses, 10 at once", service: service{base: 100 * ms, quick: 10, spread: 0.3}, calls: 2000},
		{name: "never refuses, one at once", service: service{base: 100 * ms, quick: 1, spread: 0.3}, calls: 500},
		{name: "never refuses, quick calls", service: service{base: 3 * ms, quick: 32, spread: 0.3}, calls: 9000},
		{name: "never refuses, agents of a minute", service: service{base: time.Minute, quick: 200, spread: 1}, calls: 3000},
		{name: "never refuses, 8 and then 40", service: service{base: 100 * ms, quick: 8, spread: 0.3, at: 10 * time.Second, factor: 5}, calls: 3000},
	} {
		most := cmp.Or(c.most, 64)
		var slower, refused, changes float64
		var when []time.Duration
		const seeds = 3
		for seed := range uint64(seeds) {
			s := c.service
			r := simulate(NewAdaptive(AdaptiveConfig{Min: 2, Max: most}), &s, c.calls, seed)
			slower = max(slower, float64(r.took-max(10*c.service.base, time.Second))/float64(c.service.best(c.calls, most))) // to learn takes the time of some calls
			refused = max(refused, float64(len(r.refused))/float64(c.calls))
			changes = max(changes, float64(len(r.changes)))
			if few := 14 + int(r.took/changePause); len(r.changes) > few {
				t.Errorf("%s: %d changes are told, want %d at most", c.name, len(r.changes), few)
			}
			when = r.refused
		}
		fmt.Fprintf(&table, "| %-34s | %6.2f | %6.2f %% | %3.0f |", c.name, slower, refused*100, changes)
		for _, w := range when[:min(len(when), 14)] {
			fmt.Fprintf(&table, " %.2f", w.Seconds())
		}
		table.WriteByte('\n')
		if limit := cmp.Or(c.slower, 1.25); slower > limit {
			t.Errorf("%s: took %.2f times the best time, want %.2f at most", c.name, slower, limit)
		}
		if limit := cmp.Or(c.refused, 0.02); refused > limit {
			t.Errorf("%s: %.2f %% refused, want %.2f %% at most", c.name, refused*100, limit*100)
		}
	}
	t.Logf("time of the best, refused, changes: the worst of the seeds\n%s", table.String())
}
