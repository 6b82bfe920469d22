package mapreduce

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// rated returns a map workflow over items with hosts, and this rate.
func rated(slots int, rate, step string, hosts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: w\nmode: mapreduce\nmap:\n  max_parallel: %d\n  rate: %s\n  input:\n", slots, rate)
	for _, host := range hosts {
		fmt.Fprintf(&b, "    - {host: %q}\n", host)
	}
	b.WriteString("  agent_template:\n    - shell: work\n" + step)
	return b.String()
}

// turnsOf returns the turns that a log says were taken, as "time item".
func turnsOf(all []events.Record) (turns []string, at []time.Duration) {
	for _, r := range all {
		id := ""
		switch e := r.Event.(type) {
		case events.AgentStarted:
			id = e.ItemID
		case events.StepRetried:
			id = e.ItemID + " again"
		default:
			continue
		}
		since := r.Time.Sub(all[0].Time).Round(time.Millisecond)
		turns, at = append(turns, since.String()+" "+id), append(at, since)
	}
	return turns, at
}

func TestStartsComeAtTheRateWhateverTheSlotsAre(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"one limit": {
			rated(3, "{limit: 2/s, burst: 1}", "", "a", "a", "a", "a"),
			[]string{"0s item_0", "500ms item_1", "1s item_2", "1.5s item_3"},
		},
		"a burst": {
			rated(3, "{limit: 1/s, burst: 2}", "", "a", "a", "a", "a"),
			[]string{"0s item_0", "0s item_1", "1s item_2", "2s item_3"},
		},
		"those of another key go before": {
			rated(2, `{limit: 1/10s, per: "${item.host}"}`, "", "a", "a", "a", "b", "b"),
			[]string{"0s item_0", "0s item_3", "10s item_1", "10s item_4", "20s item_2"},
		},
		"items without the key have one limit": {
			rated(2, `{limit: 1/10s, per: "${item.port}"}`, "", "a", "b"),
			[]string{"0s item_0", "10s item_1"},
		},
		"a try of a step takes a turn, and has one slot of two": {
			rated(2, "{limit: 1/10s, burst: 1}", "      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1s}\n", "bad", "a", "a"),
			[]string{"0s item_0", "10s item_0 again", "20s item_1", "30s item_2"},
		},
		"a try that keeps the one slot": {
			rated(1, "{limit: 1/10s, burst: 1}", "      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1s}\n", "bad", "a"),
			[]string{"0s item_0", "10s item_0 again", "20s item_1"},
		},
		"a try that has left its slot": {
			rated(2, `{limit: 1/10s, per: "${item.host}"}`, "      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1s}\n  park_after: 0\n", "bad", "bad", "a", "b"),
			[]string{"0s item_0", "0s item_2", "100ms item_3", "10s item_0 again", "20s item_1", "30s item_1 again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c1 := config(t, fake(func(k call) answer {
					if strings.Contains(c.source, "bad") && (k.item == "item_0" || strings.Contains(name, "left") && k.item == "item_1") {
						return answer{takes: 100 * time.Millisecond, code: 1}
					}
					return answer{takes: time.Second}
				}))
				r := run(t, c1, c.source)
				got, _ := turnsOf(recordsOf(t, r.Job))
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("turns (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestARateHoldsOverResumes stops a job again and again, and looks at all its runs together.
func TestARateHoldsOverResumes(t *testing.T) {
	for name, source := range map[string]string{
		"one limit":  rated(8, "{limit: 1/s, burst: 2}", "", slices.Repeat([]string{"a"}, 30)...),
		"one a key":  rated(8, `{limit: 1/s, burst: 2, per: "${item.host}"}`, "", slices.Repeat([]string{"a"}, 30)...),
		"of retries": rated(8, "{limit: 1/s, burst: 2}", "      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1s}\n", slices.Repeat([]string{"a"}, 12)...),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(t, fake(func(call) answer { return answer{takes: 300 * time.Millisecond, code: 1} }))
				r := run(t, stopAfter(t, c, 2500*time.Millisecond), source)
				for n := 0; r.State == jobs.Stopped; n++ {
					if n > 100 {
						t.Fatal("the job does not come to an end")
					}
					var err error
					if r, err = Resume(t.Context(), stopAfter(t, c, 2500*time.Millisecond), r.Job); err != nil {
						t.Fatal(err)
					}
				}
				_, at := turnsOf(recordsOf(t, r.Job))
				for i := range at {
					for k := i; k < len(at); k++ {
						if n, most := k-i+1, 2+int((at[k]-at[i]+time.Millisecond)/time.Second); n > most {
							t.Fatalf("%d starts in %s, want at most %d", n, at[k]-at[i], most)
						}
					}
				}
			})
		})
	}
}

// TestKeysAreBoundedAndKeepSecrets: a key is written into the log.
func TestKeysAreBoundedAndKeepSecrets(t *testing.T) {
	long := strings.Repeat("é", 300)
	for name, key := range map[string]string{"long": long, "broken": "\xff\xfe", "controls": "\x1b[31m\n"} {
		got := bounded(key)
		if len(got) > maxKey || got != bounded(got) || got != strings.ToValidUTF8(got, "") {
			t.Errorf("%s: got %q of %d bytes", name, got, len(got))
		}
	}
	if bounded(long+"a") == bounded(long+"b") {
		t.Error("two long keys are one")
	}
}

// TestLanesServeEachKeyInOrderAndNoKeyWaitsForAnother compares lanes with a list that is searched from its beginning.
func TestLanesServeEachKeyInOrderAndNoKeyWaitsForAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lanes[string, int]
		queues, until := map[string][]int{}, map[string]time.Time{}
		limit := func(key string, _ time.Time) time.Time { return until[key] }
		now := time.Unix(0, 0)
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")) * time.Second)
			if rapid.Bool().Draw(t, "add") {
				key := strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "key"))
				l.add(key, i)
				queues[key] = append(queues[key], i)
				continue
			}
			key, v, ok := l.next(now, limit)
			may := false
			for key, queue := range queues {
				may = may || len(queue) > 0 && !until[key].After(now)
			}
			if ok != may {
				t.Fatalf("at %v: got one %v, want %v", now, ok, may)
			}
			if !ok {
				if at := l.due(); l.len() > 0 && !at.After(now) {
					t.Fatalf("at %v: asks again at %v", now, at)
				}
				continue
			}
			if queues[key][0] != v || until[key].After(now) {
				t.Fatalf("key %s: got %d of %v, which may go on at %v", key, v, queues[key], until[key])
			}
			l.pop()
			queues[key] = queues[key][1:]
			until[key] = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "interval")) * time.Second)
		}
		n := 0
		for _, queue := range queues {
			n += len(queue)
		}
		if got := len(slices.Collect(l.all())); got != n || l.len() != n {
			t.Fatalf("got %d and %d left, want %d", got, l.len(), n)
		}
	})
}

// TestServingManyKeysAsksFewLimits: of 10,000 keys that wait, none is looked at again for each start of another.
func TestServingManyKeysAsksFewLimits(t *testing.T) {
	const keys, each = 10_000, 3
	var l lanes[string, int]
	until, asked := map[string]time.Time{}, 0
	limit := func(key string, _ time.Time) time.Time { asked++; return until[key] }
	for i := range keys * each {
		l.add(strconv.Itoa(i%keys), i)
	}
	now, served := time.Unix(0, 0), 0
	for l.len() > 0 {
		key, _, ok := l.next(now, limit)
		if !ok {
			now = l.due()
			continue
		}
		l.pop()
		served++
		until[key] = now.Add(time.Minute)
	}
	if served != keys*each || asked > 3*served {
		t.Errorf("served %d, asked %d times, want %d and at most three times as many", served, asked, keys*each)
	}
}

// rationed is a service that takes so many calls in a second, and keeps them waiting when there are more than ten at once.
type rationed struct {
	mu     sync.Mutex
	perSec float64
	tokens float64
	at     time.Time
	calls  int
	asked  int
	no     int
}

func (s *rationed) answer() (takes time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.at.IsZero() {
		s.at, s.tokens = now, 5
	}
	s.tokens = min(5, s.tokens+now.Sub(s.at).Seconds()*s.perSec)
	s.at = now
	if s.asked++; s.tokens < 1 {
		s.no++
		return 2 * time.Millisecond, false
	}
	s.tokens--
	s.calls++
	time.AfterFunc(100*time.Millisecond, func() {
		s.mu.Lock()
		s.calls--
		s.mu.Unlock()
	})
	return 100 * time.Millisecond * time.Duration(max(10, s.calls)) / 10, true
}

// TestAJobFindsTheRateOfAService: hardly a call is refused, nothing is lost, and the time is close to the best. Retries are of the step or of the item.
func TestAJobFindsTheRateOfAService(t *testing.T) {
	for name, more := range map[string]string{
		"retries of the step": "      retry_config: {attempts: 20, initial_delay: 1s, retry_after: true}\n",
		"retries of the item": "error_policy:\n  on_item_failure: retry\n  retry_config: {attempts: 20, initial_delay: 1s, retry_after: true}\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 600
				s := &rationed{perSec: 50}
				c := config(t, fake(func(call) answer {
					takes, ok := s.answer()
					if ok {
						return answer{takes: takes}
					}
					return answer{takes: takes, code: 22, stdout: "HTTP/1.1 429\r\nRetry-After: 1\r\n"}
				}))
				source := strings.Replace(rated(1, "1/s", more, slices.Repeat([]string{"a"}, n)...), "max_parallel: 1\n  rate: 1/s", "concurrency: {min: 2, max: 64, adapt: true}", 1)
				began := time.Now()
				r := run(t, c, source)
				took := time.Since(began)
				if r.Metrics.Successful != n {
					t.Errorf("%d of %d succeeded", r.Metrics.Successful, n)
				}
				if best := time.Duration(float64(n) / s.perSec * float64(time.Second)); took > best*11/10+time.Second || s.no > n/50 {
					t.Errorf("took %s with %d refused, want about %s and few", took, s.no, best)
				}
				if told, _ := told[events.ConcurrencyChanged](recordsOf(t, r.Job)); len(told) == 0 || len(told) > 10 {
					t.Errorf("got changes %+v", told)
				}
			})
		})
	}
}

func TestAnAdaptedJobBeginsWithTheLeastAndStaysWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most, now := 0, 0
		var mu sync.Mutex
		c := config(t, fake(func(call) answer {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.AfterFunc(999*time.Millisecond, func() { mu.Lock(); now--; mu.Unlock() }) // before the pool can know
			return answer{takes: time.Second}
		}))
		source := strings.Replace(rated(1, "1/s", "", slices.Repeat([]string{"a"}, 60)...), "max_parallel: 1\n  rate: 1/s", "concurrency: {min: 1, max: 6, adapt: true}", 1)
		r := run(t, c, source)
		if r.Metrics.Successful != 60 || most != 6 {
			t.Errorf("%d succeeded, %d at once, want 60 and 6", r.Metrics.Successful, most)
		}
		_, at := turnsOf(recordsOf(t, r.Job))
		if at[1] < time.Second {
			t.Errorf("the second starts after %s, want one at first", at[1])
		}
	})
}
