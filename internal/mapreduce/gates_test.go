package mapreduce

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
)

// TestEveryLimitIsAskedAndExplained compares the limits that a pool asks with the types of package limits, and their
// number with the rows of the comment of that package.
func TestEveryLimitIsAskedAndExplained(t *testing.T) {
	w := parse(t, gated(1, ""))
	w.Map.Input.Items = []json.RawMessage{json.RawMessage(`1`)} // whose number people know
	p := &pool{
		owner:  &owner{workflow: w, Opened: &job.Opened{Fold: job.NewFold(w.ErrorPolicy)}},
		source: source{chosen: make(chan struct{})},
	}
	if err := p.openGates(t.Context()); err != nil {
		t.Fatal(err)
	}
	known := p.Fold.Limits
	turn := append([]limits.Limit{p.gates.first, known.Ratio, known.Breaker}, p.gates.paces...)
	asked := map[string]bool{}
	for _, l := range slices.Concat(p.gates.all, p.gates.slot, turn) {
		of := reflect.TypeOf(l)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		asked[of.Name()] = true
	}
	rows, group := map[string]int{}, ""
	files, err := filepath.Glob("../limits/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)\) Admit\(`).FindAllStringSubmatch(string(source), -1) {
			if !asked[m[1]] {
				t.Errorf("%s: no pool asks %s: it has no place in openGates", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^//\t(.{8}) (\S.{11}) .*$`).FindAllStringSubmatch(string(source), -1) {
			group = cmp.Or(strings.TrimSpace(m[1]), group)
			if strings.TrimSpace(m[2]) != "step rate" { // which steps ask, by their positions
				rows[group]++
			}
		}
	}
	delete(rows, "group") // the heading
	want := map[string]int{"all": len(p.gates.all), "slot": len(p.gates.slot), "turn": len(turn)}
	if !maps.Equal(rows, want) {
		t.Errorf("got rows %v in the comment of package limits, want those of the limits that are asked: %v", rows, want)
	}
}

// gated returns a map workflow over n items with these keys of the map.
func gated(n int, more string) string {
	return strings.Replace(rated(1, "1/s", "", slices.Repeat([]string{"a"}, n)...), "max_parallel: 1\n  rate: 1/s", "max_parallel: 1\n  "+more, 1)
}

// TestAJobWaitsOutsideOfItsWindows: time begins at midnight, UTC, in a test.
func TestAJobWaitsOutsideOfItsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(call) answer { return answer{takes: 50 * time.Minute} }))
		r := run(t, c, gated(5, `windows: ["01:00-02:00 UTC", "04:00-05:30 UTC"]`))
		if r.State != jobs.Completed || r.Metrics.Successful != 5 {
			t.Fatalf("got %s, %+v", r.State, r.Metrics)
		}
		all := recordsOf(t, r.Job)
		_, at := told[events.AgentStarted](all)
		for i := range at {
			at[i] = at[i].Round(time.Minute)
		}
		// What began in a window is finished after its end.
		if want := []time.Duration{60, 110, 240, 290, 25 * 60}; !slices.EqualFunc(at, want, func(a, b time.Duration) bool { return a == b*time.Minute }) {
			t.Errorf("starts at %v, want at %v minutes", at, want)
		}
		held, _ := told[events.StartsHeld](all)
		allowed, _ := told[events.StartsAllowed](all)
		if len(held) != 3 || len(allowed) != 3 || held[0].Until == nil || !strings.Contains(held[0].Reason, "01:00-02:00 UTC") {
			t.Errorf("got %+v and %+v", held, allowed)
		}
	})
}

func TestAJobThatIsNotToWaitEndsOutsideOfItsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(call) answer { return answer{takes: 50 * time.Minute} }))
		c.ExitOutside = true
		r := run(t, c, gated(3, `windows: ["00:00-01:00 UTC"]`))
		if r.State != jobs.Stopped || !r.AsAsked || r.Metrics.Successful != 2 {
			t.Fatalf("got %s (%s), outside %v, %+v: want that what ran was finished", r.State, r.Reason, r.AsAsked, r.Metrics)
		}
		time.Sleep(23 * time.Hour)
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 3 {
			t.Errorf("got %s (%s), %v", r.State, r.Reason, err)
		}
		r = run(t, c, gated(1, `windows: ["12:00-13:00 UTC"]`))
		if starts, _ := told[events.AgentStarted](recordsOf(t, r.Job)); r.State != jobs.Stopped || !r.AsAsked || len(starts) > 0 {
			t.Errorf("got %s with %d starts, want none", r.State, len(starts))
		}
	})
}

func TestNothingStartsWhileTheMachineHasTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var load atomic.Int64
		load.Store(4)
		time.AfterFunc(10*time.Second+time.Millisecond, func() { load.Store(1) })
		time.AfterFunc(13*time.Second+time.Millisecond, func() { load.Store(9) })
		time.AfterFunc(31*time.Second+time.Millisecond, func() { load.Store(1) })
		c := config(t, fake(func(call) answer { return answer{takes: 3 * time.Second} }))
		c.Machine = func() (limit.Machine, error) { return limit.Machine{Load: float64(load.Load()), CPUs: 2}, nil }
		r := run(t, c, gated(3, "guards: {load: 0.9}"))
		if r.Metrics.Successful != 3 {
			t.Fatalf("got %+v", r.Metrics)
		}
		all := recordsOf(t, r.Job)
		_, at := told[events.AgentStarted](all)
		for i := range at {
			at[i] = at[i].Round(time.Second)
		}
		if !slices.Equal(at, []time.Duration{12 * time.Second, 32 * time.Second, 35 * time.Second}) {
			t.Errorf("starts at %v", at)
		}
		if held, _ := told[events.StartsHeld](all); len(held) != 2 || !strings.Contains(held[0].Reason, "the load per CPU is 2.00") {
			t.Errorf("got %+v", held)
		}
	})
}
