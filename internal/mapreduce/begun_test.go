package mapreduce

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A command may kill prodigy before anything else happens: the log has said by then that its attempt has begun.
func TestAnAttemptIsInTheLogBeforeItsFirstCommandRuns(t *testing.T) {
	const items = 200
	var c Config
	var missing atomic.Int64
	c = config(t, fake(func(k call) answer {
		if !begun(c.Home.Root, k) {
			missing.Add(1)
		}
		return answer{}
	}))
	source := fmt.Sprintf("map:\n  input: [%s]\n  max_parallel: 8\n  agent_template: [{shell: work}]\n", strings.Repeat("1,", items))
	synctest.Test(t, func(t *testing.T) {
		if r := run(t, c, source); r.Metrics.Successful != items {
			t.Errorf("got %d items done, want %d", r.Metrics.Successful, items)
		}
	})
	if n := missing.Load(); n > 0 {
		t.Errorf("got %d of %d commands that ran before the record that their attempt has begun", n, items)
	}
}

// begun tells whether the one log below a home has the beginning of the attempt that a command belongs to.
func begun(home string, k call) bool {
	logs, err := filepath.Glob(filepath.Join(home, "events", "*", "*", "*.jsonl"))
	if err != nil || len(logs) != 1 {
		return false
	}
	data, err := os.ReadFile(logs[0])
	return err == nil && bytes.Contains(data, fmt.Appendf(nil, `"type":"AgentStarted","item_id":%q`, k.item))
}
