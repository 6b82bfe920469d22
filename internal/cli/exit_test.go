package cli

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

func TestExitCodeFollowsTheErrorOfTheCommand(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, 0},
		{"prodigy itself", errors.New("disk full"), 1},
		{"a lock that is held", &jobs.LockedError{JobID: "x", PID: 3}, 1},
		{"usage", usagef("no"), 2},
		{"a wrapped refusal", fmt.Errorf("run: %w", refusef("no")), 2},
		{"an invalid workflow", &workflow.InvalidError{}, 2},
		{"no such job", fmt.Errorf("x: %w", jobs.ErrNotFound), 2},
		{"an ambiguous prefix", fmt.Errorf("x: %w", jobs.ErrAmbiguous), 2},
		{"a code", status(143), 143},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}

func TestResultCodeFollowsTheEndOfTheJob(t *testing.T) {
	letters := errorpolicy.Metrics{TotalItems: 2, Outcomes: errorpolicy.Outcomes{Successful: 1, Failed: 1}}
	interrupt := &signalError{os.Interrupt}
	for _, c := range []struct {
		name      string
		result    mapreduce.Result
		stop      *signalError
		partialOK bool
		want      int
	}{
		{name: "all good", result: mapreduce.Result{State: jobs.Completed}, want: 0},
		{name: "dead letters", result: mapreduce.Result{State: jobs.Completed, Metrics: letters}, want: 3},
		{name: "dead letters are fine", result: mapreduce.Result{State: jobs.Completed, Metrics: letters}, partialOK: true, want: 0},
		{name: "skipped", result: mapreduce.Result{State: jobs.Completed, Metrics: errorpolicy.Metrics{Outcomes: errorpolicy.Outcomes{Skipped: 1}}}, want: 3},
		{name: "rejected", result: mapreduce.Result{State: jobs.Completed, Metrics: errorpolicy.Metrics{Outcomes: errorpolicy.Outcomes{Rejected: 1}}}, want: 3},
		{name: "failed", result: mapreduce.Result{State: jobs.Failed}, partialOK: true, want: 1},
		{name: "a signal came too late", result: mapreduce.Result{State: jobs.Completed}, stop: interrupt, want: 0},
		{name: "SIGINT", result: mapreduce.Result{State: jobs.Stopped}, stop: interrupt, want: 130},
		{name: "SIGTERM", result: mapreduce.Result{State: jobs.Stopped}, stop: &signalError{syscall.SIGTERM}, want: 143},
		{name: "SIGQUIT", result: mapreduce.Result{State: jobs.Stopped}, stop: &signalError{syscall.SIGQUIT}, want: 131},
		{name: "SIGHUP", result: mapreduce.Result{State: jobs.Stopped}, stop: &signalError{syscall.SIGHUP}, want: 143},
		{name: "paused without a signal", result: mapreduce.Result{State: jobs.Stopped}, want: 1},
	} {
		if got := resultCode(c.result, c.stop, c.partialOK); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}
