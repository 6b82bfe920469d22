package errorpolicy

import (
	"testing"
	"time"

	"prodigy/internal/retry"
)

func TestTheTimeoutActionDecidesAboutTimeoutsOnly(t *testing.T) {
	timeout := retry.Failure{Type: retry.TypeTimeout, TimedOut: true, ExitCode: -1}
	told := retry.Failure{Message: "the server timed out", ExitCode: 1} // a command that only says so
	for _, test := range []struct {
		on      TimeoutAction
		failure retry.Failure
		want    Action
	}{
		{"", timeout, Retry},
		{TimeoutDLQ, timeout, DLQ},
		{TimeoutSkip, timeout, Skip},
		{TimeoutFail, timeout, Stop},
		{GracefulTerminate, timeout, DLQ},
		{TimeoutSkip, told, Retry},
	} {
		m := New(Policy{RetryConfig: new(retry.Default()), OnTimeout: test.on})
		if got := m.Decide(Outcome{Failure: test.failure}, time.Now(), retry.NewRand(1, "", "")); got.Action != test.want {
			t.Errorf("timeout_action %q: got %s, want %s", test.on, got.Action, test.want)
		}
	}
}
