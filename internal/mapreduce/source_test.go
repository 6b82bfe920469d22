package mapreduce

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/items"
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
