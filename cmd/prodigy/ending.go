package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"prodigy/internal/agent"
	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// print prints the summary of a run: what happened, where the log is, and what to type next.
func (e ended) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "job %s %s in %s%s\n", e.Job.ID, e.State, duration.Format(e.Duration), prefixed(": ", strings.Join(e.counts(), ", ")))
	if e.Failure != nil {
		e.printStepFailure(w, *e.Failure)
		e.printGaveUp(w)
	} else if e.State != mapreduce.Completed && e.Reason != "" {
		_, _ = fmt.Fprintf(w, "reason: %s\n", visible(e.Reason))
		printAdvice(w, e.Cause)
		if jobs.CannotWrite(e.Cause) {
			_, _ = fmt.Fprintln(w, "Everything in the log is kept and counted here. Items that were running start again on resume.")
		} else if process.Short(e.Cause) || errors.Is(e.Cause, agent.ErrDir) {
			_, _ = fmt.Fprintln(w, "No item failed because of this. Items that were running start again on resume.")
		}
	}
	if e.Results != "" {
		_, _ = fmt.Fprintf(w, "results: %s\n", e.Results)
	}
	_, _ = fmt.Fprintf(w, "log: %s\n", e.Job.EventsDir())
	printNext(w, e.next())
}

// printNext prints the commands to type next.
func printNext(w io.Writer, commands []string) {
	for _, command := range commands {
		_, _ = fmt.Fprintf(w, "next: %s\n", command)
	}
}

// printGaveUp prints why the step that failed the job was not retried.
func (e ended) printGaveUp(w io.Writer) {
	if e.job == nil {
		return
	}
	for _, s := range e.job.Steps() {
		if why := s.GaveUp(); s.Name == e.Failure.Step && why != "" {
			_, _ = fmt.Fprintf(w, "    not retried: %s\n", why)
		}
	}
}

// counts returns the numbers of items by outcome, in words, and of those left to do if the job has not completed.
func (e ended) counts() []string {
	m := e.Metrics
	if m.TotalItems == 0 {
		return nil
	}
	parts := []string{fmt.Sprintf("%d of %d items succeeded", m.Successful, m.TotalItems)}
	toGo := m.TotalItems - m.Successful - m.Failed - m.Skipped - m.Rejected
	for _, c := range []struct {
		n    int
		word string
	}{{m.Failed, "failed"}, {m.Skipped, "skipped"}, {m.Rejected, "rejected"}, {toGo, "to go"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	if toGo == 0 && e.State != mapreduce.Completed && e.job != nil && !e.job.Complete {
		parts = append(parts, "not all items had been read")
	}
	return parts
}

// next returns the commands to type next.
func (e ended) next() []string {
	return nextCommands(e.Job, e.State == mapreduce.Completed, e.Metrics.Skipped)
}

// nextCommands returns the commands to suggest for a job that is not running: resume it unless it has completed, inspect and retry its
// dead letters, or list the skipped items, which only the log has.
func nextCommands(job jobs.Job, completed bool, skipped int) []string {
	var commands []string
	if !completed {
		commands = append(commands, "prodigy resume "+job.ID)
	}
	letter, eligible, _ := dlq.Lead(job.DLQFile()) // the commands that read the queue report errors in it
	switch {
	case letter != "" && eligible:
		return append(commands, inspect(letter, job), "prodigy dlq retry "+job.ID)
	case letter != "":
		return append(commands, inspect(letter, job), "prodigy dlq retry "+job.ID+" --force")
	case skipped > 0:
		return append(commands, fmt.Sprintf("prodigy events ls --job-id %s --event-type AgentSkipped", job.ID))
	}
	return commands
}

func inspect(letter string, job jobs.Job) string {
	return fmt.Sprintf("prodigy dlq inspect %s --job-id %s", quoted(letter), job.ID)
}

// phaseEvidenceLines is how many lines of stderr are printed for a step that failed the job.
const phaseEvidenceLines = 20

// failed describes a failure and its step, if it has one. Phase is empty in a standard workflow.
func failed(step, phase, what string) string {
	if step == "" {
		return what
	}
	return "step " + step + prefixed(" of ", phase) + " failed: " + what
}

// printStepFailure prints the step that failed the job, with the end of its output.
func (e ended) printStepFailure(w io.Writer, f agent.Failure) {
	var code *int
	if f.ExitCode >= 0 {
		code = &f.ExitCode
	}
	_, _ = fmt.Fprintf(w, "%s\n", failed(f.Step, e.phase(), withMessage(ending(code, f.Signal, retry.Classify(f.Failure)), f.Message)))
	evidence := lastLines(f.Stderr, phaseEvidenceLines)
	if len(evidence) == 0 {
		evidence = lastLines(f.Stdout, phaseEvidenceLines)
	}
	for _, line := range evidence {
		_, _ = fmt.Fprintf(w, "    | %s\n", shorten(visible(line), 200))
	}
	if f.Step != "" {
		_, _ = fmt.Fprintf(w, "    more of its output: prodigy events ls --job-id %s --event-type StepFailed --json\n", e.Job.ID)
	}
}

// phase returns the phase in which the job ended.
func (e ended) phase() string {
	if e.job == nil {
		return ""
	}
	return e.job.Phase
}
