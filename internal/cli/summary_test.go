package cli

import (
	"strings"
	"testing"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

func TestDescribeSaysWhereAndHowAnItemFailed(t *testing.T) {
	for _, c := range []struct {
		e    events.AgentFailed
		want string
	}{
		{
			events.AgentFailed{
				AttemptID: events.AttemptID{ItemID: "a"},
				Step:      "go", ExitCode: new(2), ErrorType: retry.TypeCommandFailed, Error: "exit code 2: no",
			},
			"a: step go: exit code 2: no",
		},
		{
			events.AgentFailed{
				AttemptID: events.AttemptID{ItemID: "a"},
				Step:      "go", Signal: "SIGTERM", ErrorType: retry.TypeTimeout, Error: "timed out after 1s",
			},
			"a: step go: timed out after 1s",
		},
		{
			events.AgentFailed{
				AttemptID: events.AttemptID{ItemID: "a"},
				ErrorType: retry.TypeInternal, Error: "no more files",
			},
			"a: no more files",
		},
	} {
		if got := describe(c.e, ""); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestStepFailureWithoutAStepNamesNone(t *testing.T) {
	var b strings.Builder
	finishedRun{}.printStepFailure(term.Lines{W: &b}, agent.Failure{Failure: retry.Failure{Type: retry.TypeInternal, Message: "no more files", ExitCode: -1}})
	if got, want := b.String(), "no more files\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got  %q\nwant %q...", got, want)
	}
}
