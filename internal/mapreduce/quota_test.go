package mapreduce

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

// plan is a service with a limit: 8 agents, and after the reset as many as come. It notes when it was asked.
type plan struct {
	mu       sync.Mutex
	used     int
	reset    time.Time     // zero: the limit was not met yet
	window   time.Duration // how long after the limit is met it is reset
	asked    []time.Time
	rejected int
}

func (p *plan) run(ctx context.Context, c process.Command) (process.Exit, error) {
	p.mu.Lock()
	now := time.Now()
	p.asked = append(p.asked, now)
	p.used++
	limited := p.used > 8 && (p.reset.IsZero() || now.Before(p.reset))
	if limited && p.reset.IsZero() {
		p.reset = now.Add(p.window).Truncate(time.Second)
	}
	if limited {
		p.rejected++
	}
	reset := p.reset.Unix()
	p.mu.Unlock()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return process.Exit{Code: -1, Signal: "SIGTERM"}, context.Cause(ctx)
	}
	if limited {
		_, err := fmt.Fprintf(c.Stdout, `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"}}`+"\n"+
			`{"type":"result","subtype":"success","is_error":true,"api_error":"usage_limit_reached","result":"You've hit your limit"}`+"\n", reset)
		return process.Exit{Code: 1}, err
	}
	_, err := fmt.Fprintln(c.Stdout, `{"type":"result","subtype":"success","is_error":false,"result":"Done."}`)
	return process.Exit{}, err
}

// between returns how often the service was asked in a period.
func (p *plan) between(from, to time.Time) (n int) {
	for _, at := range p.asked {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

const ofPlan = `
map:
  input: {command: "x"}
  max_parallel: 4
  agent_template: [{agent: "do ${item_id}"}]
error_policy: {max_failures: 1, quota: {margin: 0s, jitter: 0s}}
`

func limitedJob(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	return strings.Replace(ofPlan, `{command: "x"}`, "["+strings.Join(items, ", ")+"]", 1)
}

// checkPause checks that nobody was asked while the gate was closed, one at the reset, and that nothing was charged.
func checkPause(t *testing.T, r Result, p *plan, closed time.Time) {
	t.Helper()
	if r.State != jobs.Completed || r.Metrics.Successful != 40 || r.Metrics.Failed != 0 {
		t.Fatalf("got %s (%s) with %+v, want 40 successful", r.State, r.Reason, r.Metrics)
	}
	if n := p.between(closed, p.reset); n != 0 {
		t.Errorf("the service was asked %d times while the gate was closed", n)
	}
	if n := p.between(p.reset, p.asked[len(p.asked)-1].Add(1)); n == 0 {
		t.Fatal("nobody came after the reset")
	}
	first := time.Time{}
	for _, at := range p.asked {
		if !at.Before(p.reset) {
			first = at
			break
		}
	}
	if n := p.between(first, first.Add(time.Second)); n != 1 {
		t.Errorf("%d agents came at the reset, want 1", n)
	}
	if failed, _ := told[events.AgentFailed](recordsOf(t, r.Job)); len(failed) != 0 {
		t.Errorf("%d attempts were charged", len(failed))
	}
}

func withAgents(t *testing.T, c Config) Config {
	t.Helper()
	set, err := ai.Load()
	if err != nil {
		t.Fatal(err)
	}
	c.Agents = set
	return c
}

// untilNow lets the years since 2000 pass, at which the clock of a bubble begins: a time of then is not taken for that of a reset.
func untilNow() { time.Sleep(time.Until(time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC))) }

// closedAt returns when the gate was closed.
func closedAt(t *testing.T, r Result) time.Time {
	t.Helper()
	for _, rec := range recordsOf(t, r.Job) {
		if _, ok := rec.Event.(events.QuotaPaused); ok {
			return rec.Time.Add(time.Second) // agents that ran then met the limit too
		}
	}
	t.Fatal("the gate was not closed")
	return time.Time{}
}

func TestALimitOfAPlanIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		untilNow()
		p := &plan{window: time.Hour}
		c := withAgents(t, config(t, p.run))
		r := run(t, c, limitedJob(40))
		checkPause(t, r, p, closedAt(t, r))
		completed, _ := told[events.AgentCompleted](recordsOf(t, r.Job))
		for _, e := range completed {
			if e.Attempt != 1 {
				t.Errorf("%s was charged %d attempts", e.ItemID, e.Attempt)
			}
		}
		if p.rejected > 4 {
			t.Errorf("%d agents met the limit, want no more than there are slots", p.rejected)
		}
	})
}

// The job is killed in the pause, and resumed before the reset or after it.
func TestAPauseSurvivesAKill(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before the reset": 10 * time.Minute, "after the reset": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				untilNow()
				p := &plan{window: time.Hour}
				c := withAgents(t, config(t, p.run))
				ctx, kill := context.WithCancel(t.Context())
				time.AfterFunc(20*time.Minute, kill)
				source := limitedJob(40)
				r, err := Run(ctx, c, parse(t, source), []byte(source))
				if err != nil || r.State != jobs.Stopped {
					t.Fatalf("got %s (%s), %v, want a run that was ended in the pause", r.State, r.Reason, err)
				}
				closed := closedAt(t, r)
				killed := copyJob(t, c, r.Job, upTo(readLog(t, r.Job), `"type":"QuotaPaused"`)) // the rest was never written
				time.Sleep(wait)
				var notices []string
				again := withHome(c, killed)
				again.Notice = func(text string) { notices = append(notices, text) }
				resumed := time.Now()
				r, err = Resume(t.Context(), again, killed.job)
				if err != nil {
					t.Fatal(err)
				}
				if after := !resumed.Before(p.reset); after {
					p.reset = resumed
				} else if !slices.ContainsFunc(notices, func(s string) bool {
					return strings.HasPrefix(s, "still paused: claude, five_hour limit, continues at ") && strings.Contains(s, "(in 30m")
				}) {
					t.Errorf("got %q, want how long is left", notices)
				}
				checkPause(t, r, p, closed)
			})
		})
	}
}
