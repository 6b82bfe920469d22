package mapreduce

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
)

// An agent whose time is up while it waits outside the slots must not take one later: nobody would ever give it back.
func TestAnAgentWhoseTimeIsUpWhileItWaitsTakesNoSlotAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(c call) answer {
			if c.item == "item_0" {
				return answer{takes: time.Second, code: 1, stderr: "no luck"}
			}
			return answer{takes: 4 * time.Second}
		}))
		source := strings.Replace(workflowOf(5, 2, ""), "- shell: work",
			"- shell: work\n      retry_config: {attempts: 2, backoff: fixed, initial_delay: 10s}\n  agent_timeout_secs: 5\n  park_after: 0", 1)
		r := run(t, c, source)
		got, at := told[events.AgentFailed](recordsOf(t, r.Job))
		var failed []string
		for i, e := range got {
			failed = append(failed, fmt.Sprintf("%s at %s: %s: %s: %s", e.ItemID, at[i].Round(time.Second), e.ErrorType, e.Error, e.Step))
		}
		want := []string{"item_0 at 5s: timeout: the agent timed out after 5s: shell_0"}
		if diff := cmp.Diff(want, failed); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		if r.Metrics.Successful != 4 {
			t.Errorf("got %d successful items, want 4", r.Metrics.Successful)
		}
	})
}
