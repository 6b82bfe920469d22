package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

func ms(d time.Duration) events.Millis { return events.Millis(d) }

// retried returns a step with a policy.
func retried(p retry.Policy) workflow.Step {
	s := shellStep("x")
	s.Retry = &p
	return s
}

func linear(attempts int) retry.Policy {
	return retry.Policy{Attempts: attempts, Backoff: retry.Backoff{Strategy: retry.Linear}, InitialDelay: time.Second, MaxDelay: time.Minute}
}

func TestFailedStepIsTriedAgainAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: failing(2, 7)}
		began := time.Now()
		p := linear(4)
		p.Budget = 10 * time.Second
		o := execute(t, f.executor(), ofItem(retried(p)))
		same(t, "failure", o.Failure, (*Failure)(nil))
		same(t, "runs", len(f.commands), 3)
		same(t, "waited", time.Since(began), 3*time.Second)
		left, expires := []events.Millis{ms(9 * time.Second), ms(7 * time.Second)}, began.Add(10*time.Second)
		same(t, "events", f.events, []events.Event{
			events.StepRetrying{
				ItemID: "item_4", ItemIndex: 4, Step: "shell_0", Attempt: 1, ErrorType: retry.TypeCommandFailed, Error: "exit code 7",
				ComputedDelayMS: ms(time.Second), DelayMS: ms(time.Second), WaitedMS: ms(time.Second),
				BudgetLeftMS: &left[0], BudgetExpiresAt: &expires,
			},
			events.StepRetrying{
				ItemID: "item_4", ItemIndex: 4, Step: "shell_0", Attempt: 2, ErrorType: retry.TypeCommandFailed, Error: "exit code 7",
				ComputedDelayMS: ms(2 * time.Second), DelayMS: ms(2 * time.Second), WaitedMS: ms(3 * time.Second),
				BudgetLeftMS: &left[1], BudgetExpiresAt: &expires,
			},
		})
	})
}

// stepFailed returns the StepFailed that must be the last event.
func stepFailed(t *testing.T, f *fake) events.StepFailed {
	t.Helper()
	if len(f.events) == 0 {
		t.Fatal("got no events, want StepFailed")
	}
	e, ok := f.events[len(f.events)-1].(events.StepFailed)
	if !ok {
		t.Fatalf("last event: got %#v, want StepFailed", f.events[len(f.events)-1])
	}
	return e
}

func TestRetryingEndsForAReason(t *testing.T) {
	budget := linear(9)
	budget.Budget = 4 * time.Second
	picky := linear(9)
	picky.RetryOn = []retry.Matcher{{ExitCodes: []int{75}}}
	tests := []struct {
		name    string
		policy  retry.Policy
		code    int
		reason  retry.Reason
		runs    int
		message string
	}{
		{"no policy", retry.Policy{}, 7, retry.Exhausted, 1, "exit code 7"},
		{"used up", linear(3), 7, retry.Exhausted, 3, "exit code 7"},
		{"budget", budget, 7, retry.Budget, 3, "retry budget exhausted: exit code 7"},
		{"no match", picky, 7, retry.NotRetryable, 1, "exit code 7"},
		{"permanent", linear(3), 127, retry.Permanent, 1, "exit code 127"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{answer: failing(99, test.code)}
				o := execute(t, f.executor(), ofItem(retried(test.policy)))
				same(t, "runs", len(f.commands), test.runs)
				e := stepFailed(t, f)
				same(t, "event", e, events.StepFailed{
					ItemID: "item_4", Step: "shell_0", Attempts: test.runs, Reason: test.reason, Action: "stop",
					Error: test.message, ErrorType: o.Failure.Type, ExitCode: &test.code,
				})
				same(t, "message", o.Failure.Message, test.message)
			})
		})
	}
}

// Where no AgentFailed follows, StepFailed is the only place that has what the step printed.
func TestStepFailedHasTheEndOfTheOutputThatNoOtherRecordHas(t *testing.T) {
	forgiven := shellStep("x")
	forgiven.AllowFailure = true
	tests := []struct {
		name string
		a    Attempt
		want string
	}{
		{"of an item that fails by it", ofItem(shellStep("x")), ""},
		{"of an item that goes on", ofItem(forgiven), "words"},
		{"of a phase", Attempt{Phase: "setup", Steps: []workflow.Step{shellStep("x")}}, "words"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{answer: func(_ int, c process.Command) process.Exit {
				_, _ = c.Stderr.Write([]byte("words"))
				return process.Exit{Code: 1}
			}}
			execute(t, f.executor(), tt.a)
			same(t, "end of stderr", stepFailed(t, f).StderrTail, tt.want)
		})
	}
}

func TestPauseCanTakeTheSlotAway(t *testing.T) {
	f := &fake{answer: failing(1, 1)}
	h := &fakeHost{pause: func(a *Attempt, d time.Duration, keepSlot bool) int {
		same(t, "delay", d, time.Second)
		same(t, "slot", a.Worker, 3)
		same(t, "keeps its slot", keepSlot, false)
		return 8
	}}
	execute(t, New(Config{Run: f.run}, h), ofItem(retried(linear(2))))
	same(t, "first worker", seen(f.commands[0])["PRODIGY_WORKER_ID"], "3")
	same(t, "second worker", seen(f.commands[1])["PRODIGY_WORKER_ID"], "8")
}

func TestRetryingGoesOnAfterAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: failing(99, 7)}
		p := linear(3)
		expires := time.Now().Add(time.Minute)
		p.Budget = time.Minute
		a := Attempt{Phase: "setup", Steps: []workflow.Step{retried(p)}}
		a.Retrying = &events.StepRetrying{Step: "shell_0", Attempt: 2, DelayMS: ms(2 * time.Second), WaitedMS: ms(3 * time.Second), BudgetExpiresAt: &expires}
		execute(t, f.executor(), a)
		same(t, "runs", len(f.commands), 1)
		same(t, "attempts", stepFailed(t, f).Attempts, 3)

		a.Retrying.Attempt, a.Retrying.Error, a.Retrying.ErrorType = 1, "no answer", retry.TypeNetwork
		for name, expires := range map[string]time.Time{"expired": time.Now().Add(-time.Second), "expires before the try is due": time.Now().Add(time.Second)} {
			began := time.Now()
			a.Retrying.BudgetExpiresAt, a.Due = &expires, began.Add(2*time.Second)
			execute(t, f.executor(), a)
			same(t, name+": runs", len(f.commands), 1)
			same(t, name+": waited", time.Since(began), time.Duration(0))
			end := stepFailed(t, f)
			same(t, name+": reason", end.Reason, retry.Budget)
			same(t, name+": attempts", end.Attempts, 1)
			same(t, name+": type", end.ErrorType, retry.TypeNetwork)
			same(t, name+": error", end.Error, "retry budget exhausted: no answer")
		}
	})
}

func guarded(attempts, failures int, timeout time.Duration) workflow.Step {
	p := linear(attempts)
	p.CircuitBreaker = &limit.BreakerConfig{FailureThreshold: failures, SuccessThreshold: 1, Timeout: timeout, HalfOpenRequests: 1}
	return retried(p)
}

func TestBreakerThatOpensEndsTheRetryingAndRefusesOtherAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: failing(2, 7)}
		x := f.executor()
		a := ofItem(guarded(5, 2, time.Minute))
		o := execute(t, x, a)
		same(t, "runs", len(f.commands), 2)
		same(t, "type", o.Failure.Type, retry.TypeCircuitOpen)
		same(t, "exit code", o.Failure.ExitCode, 7)
		if !strings.Contains(o.Failure.Message, "exit code 7") {
			t.Errorf("message: got %q, want the last failure's in it", o.Failure.Message)
		}
		e := stepFailed(t, f)
		same(t, "reason", e.Reason, retry.CircuitOpen)
		same(t, "attempts", e.Attempts, 2)

		f.events = nil
		o = execute(t, x, a)
		same(t, "runs of a refused step", len(f.commands), 2)
		same(t, "type of a refused step", o.Failure.Type, retry.TypeCircuitOpen)
		same(t, "attempts of a refused step", stepFailed(t, f).Attempts, 0)

		f.events = nil
		time.Sleep(time.Minute)
		o = execute(t, x, a)
		same(t, "after the timeout", o.Failure, (*Failure)(nil))
		same(t, "events", f.events, []events.Event{events.CircuitHalfOpen{Scope: "shell_0"}, events.CircuitClosed{Scope: "shell_0", Successes: 1}})
	})
}

func TestHalfOpenBreakerRefusesWhileItsTestsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		x := f.executor()
		a := ofItem(guarded(3, 1, time.Minute))
		f.answer = func(call int, _ process.Command) process.Exit {
			switch call {
			case 1:
				return process.Exit{Code: 1}
			case 2:
				o := execute(t, x, a)
				same(t, "type of a third agent", o.Failure.Type, retry.TypeCircuitOpen)
			}
			return process.Exit{}
		}
		execute(t, x, a)
		time.Sleep(time.Minute)
		same(t, "failure of the test", execute(t, x, a).Failure, (*Failure)(nil))
		same(t, "runs", len(f.commands), 2)
	})
}

func TestRunnerThatCannotIsAnErrorOfTheAttempt(t *testing.T) {
	broken := errors.New("no more processes")
	x := New(Config{Run: func(context.Context, process.Command) (process.Exit, error) { return process.Exit{}, broken }}, new(noJob))
	allowed := retried(linear(3))
	allowed.AllowFailure = true
	if _, err := x.Execute(t.Context(), ofItem(allowed)); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestBreakerTellsThatItOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: failing(9, 7)}
		execute(t, f.executor(), ofItem(guarded(0, 1, time.Minute)))
		same(t, "event", f.events[0], events.Event(events.CircuitOpen{Scope: "shell_0", ConsecutiveFailures: 1, Until: time.Now().Add(time.Minute)}))
	})
}

func TestRetryingWaitsOutABreakerThatClosesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: failing(1, 7)}
		o := execute(t, f.executor(), ofItem(guarded(2, 1, time.Second)))
		same(t, "failure", o.Failure, (*Failure)(nil))
		same(t, "runs", len(f.commands), 2)
	})
}

var errStop = errors.New("asked to stop")

func TestStopIsNoFailure(t *testing.T) {
	handled := shellStep("x")
	handled.OnFailure = &workflow.OnFailure{Steps: []workflow.Step{shellStep("y")}}
	tests := []struct {
		name string
		step workflow.Step
		runs int
		run  func(cancel func(), call int) process.Exit
	}{
		{"before the first step", shellStep("x"), 0, nil},
		{"while it runs", shellStep("x"), 1, func(cancel func(), _ int) process.Exit {
			cancel()
			return process.Exit{Signal: "SIGTERM", Code: -1}
		}},
		{"while a handler runs", handled, 2, func(cancel func(), call int) process.Exit {
			if call == 2 {
				cancel()
			}
			return process.Exit{Code: 1}
		}},
		{"while it waits", retried(linear(2)), 1, func(cancel func(), _ int) process.Exit {
			time.AfterFunc(time.Millisecond, cancel)
			return process.Exit{Code: 1}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				stop := func() { cancel(errStop) }
				if test.run == nil {
					stop()
				}
				f := &fake{}
				f.answer = func(call int, _ process.Command) process.Exit { return test.run(stop, call) }
				_, err := f.executor().Execute(ctx, ofItem(test.step, shellStep("never")))
				if !errors.Is(err, errStop) {
					t.Errorf("got %v, want %v", err, errStop)
				}
				same(t, "runs", len(f.commands), test.runs)
			})
		})
	}
}

func TestSuccessOfTheLastStepOutlivesAStop(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fake{answer: func(int, process.Command) process.Exit {
		cancel(errStop)
		return process.Exit{}
	}}
	o, err := f.executor().Execute(ctx, ofItem(shellStep("x")))
	if err != nil || o.Failure != nil {
		t.Errorf("got %+v, %v, want success", o, err)
	}
}

func TestStopGivesTheTestOfABreakerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		f := &fake{}
		f.answer = func(call int, _ process.Command) process.Exit {
			switch call {
			case 1:
				return process.Exit{Code: 1}
			case 2:
				cancel(errStop)
				return process.Exit{Signal: "SIGTERM", Code: -1}
			}
			return process.Exit{}
		}
		x := f.executor()
		a := ofItem(guarded(1, 1, time.Minute))
		execute(t, x, a)
		time.Sleep(time.Minute)
		if _, err := x.Execute(ctx, a); !errors.Is(err, errStop) {
			t.Errorf("got %v, want %v", err, errStop)
		}
		o := execute(t, x, a)
		same(t, "failure of the next test", o.Failure, (*Failure)(nil))
	})
}

func TestRealStepTimesOut(t *testing.T) {
	s := shellStep("sleep 1000 & wait")
	s.Timeout = 10 * time.Millisecond
	o := execute(t, local(t), ofItem(s))
	if o.Failure == nil || o.Failure.Type != retry.TypeTimeout || o.Failure.Message != "timed out after 10ms" {
		t.Errorf("got failure %+v, want a timeout", o.Failure)
	}
}
