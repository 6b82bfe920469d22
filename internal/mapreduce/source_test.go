package mapreduce

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

// However far the selection could go, it waits for the pool when it is too many items or bytes ahead of it.
func TestASelectionDoesNotRunFarAheadOfThePool(t *testing.T) {
	for _, c := range []struct {
		name         string
		items, bytes int64
		want         int // how many items are recorded before the first has had its turn
	}{
		{"items", 3, 1 << 20, 4},
		{"bytes", 100, 250, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, err := items.CreateStore(filepath.Join(t.TempDir(), "items.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			ctx, cancel := context.WithCancel(t.Context())
			a := ahead{items: c.items, bytes: c.bytes, moved: make(chan struct{}, 1)}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; ; i++ {
					it := items.Item{ID: "x", Index: i, Data: json.RawMessage(`"` + strings.Repeat("x", 66) + `"`)} // a line of 100 bytes
					if store.Append(it) != nil || !a.wait(ctx, int64(i), store.Size()) {
						return
					}
				}
			}()
			cursor := store.Cursor()
			for turn := range 5 {
				synctest.Wait()
				if got := store.Len(); got != c.want+turn {
					t.Errorf("%s: got %d items in turn %d, want %d", c.name, got, turn, c.want+turn)
				}
				if err := cursor.Skip(); err != nil {
					t.Fatal(err)
				}
				a.move(cursor)
			}
			cancel()
			<-done
		})
	}
}

// The first agent waits for the end of a selection that takes a moment, whatever the machine does at that time.
func TestTheFirstAgentKnowsHowManyItemsThereAre(t *testing.T) {
	for _, input := range []string{"[a, b]", "two.json"} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			c := config(t, func(_ context.Context, c process.Command) (process.Exit, error) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, variable(c, "TOTAL"))
				return process.Exit{}, nil
			})
			if err := os.WriteFile(filepath.Join(c.Dir, "two.json"), []byte(`["a", "b"]`), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, c, "map:\n  input: "+input+"\n  json_path: \"$[*]\"\n  max_parallel: 1\n  agent_template:\n    - shell: work\n      env: {TOTAL: \"${item_total}\"}\n")
			if diff := cmp.Diff([]string{"2", "2"}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", input, diff)
			}
		})
	}
}

// A job that was interrupted while it read standard input runs all of what it had read, and then says that the rest is missing: what workers still had, what was given
// back and what waits for its next attempt too.
func TestAllThatWasReadOfAnInputThatIsGoneIsRun(t *testing.T) {
	const source = "name: t\nmode: mapreduce\nmap:\n  input: {stdin: true}\n  max_parallel: 3\n  agent_template:\n    - shell: x\n" +
		"error_policy: {on_item_failure: retry, retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 30s}}\n"
	onFleet := func(t *testing.T) Config {
		var returned atomic.Bool
		return newCrew(func(a agent.Attempt) fate {
			switch {
			case a.ItemID == "item_7" && returned.CompareAndSwap(false, true):
				return fate{err: fmt.Errorf("its disk is full: %w", agent.ErrReturned)}
			case a.ItemID == "item_6" && a.Number == 1:
				return fate{fails: true}
			}
			return fate{takes: 20 * time.Second} // longer than the grace
		}).config(t)
	}
	here := func(t *testing.T) Config {
		return config(t, fake(func(c call) answer {
			if c.item == "item_6" && c.attempt == "1" {
				return answer{code: 3}
			}
			return answer{takes: 20 * time.Second}
		}))
	}
	for name, config := range map[string]func(*testing.T) Config{"on a fleet": onFleet, "here": here} {
		synctest.Test(t, func(t *testing.T) {
			c := config(t)
			in, out := io.Pipe()
			go func() { _, _ = io.WriteString(out, "0\n1\n2\n3\n4\n5\n6\n7\n") }()
			c.Stdin = in
			ctx, kill := context.WithCancelCause(t.Context())
			time.AfterFunc(500*time.Millisecond, func() {
				kill(process.ErrKill)
				time.AfterFunc(time.Second, func() { _ = out.CloseWithError(process.ErrKill) })
			})
			r, err := Run(ctx, c, parse(t, source), []byte(source))
			if err != nil || r.State != jobs.Stopped {
				t.Fatalf("%s: got %s (%s), %v, want a pause", name, r.State, r.Reason, err)
			}
			for range 2 { // the next resume has nothing to run
				r, err = Resume(t.Context(), c, r.Job)
				if err != nil || r.State != jobs.Failed || !strings.Contains(r.Reason, "so far (8) have run") || r.Metrics.Successful != 8 {
					t.Fatalf("%s: got %s (%s) with %+v, %v, want 8 successful and a failure for what is missing", name, r.State, r.Reason, r.Metrics, err)
				}
			}
		})
	}
}
