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

// print writes the last lines of a run: what happened, where the log is, and what to type next.
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

// printNext tells the commands that lead on from here.
func printNext(w io.Writer, commands []string) {
	for _, command := range commands {
		_, _ = fmt.Fprintf(w, "next: %s\n", command)
	}
}

// printGaveUp says why the step that failed the job was not tried again.
func (e ended) printGaveUp(w io.Writer) {
	if e.job == nil {
		return
	}
	for _, s := range e.job.Steps() {
		if why := s.GaveUp(); s.Name == e.Failure.Step && why != "" {
			_, _ = fmt.Fprintf(w, "    not tried again: %s\n", why)
		}
	}
}

// counts says how the items fared, if there were any, and what is left of them to a job that has not completed.
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

// next returns the commands that lead on from here.
func (e ended) next() []string {
	return nextCommands(e.Job, e.State == mapreduce.Completed, e.Metrics.Skipped)
}

// nextCommands returns the commands that lead on from a job that nothing works on: it goes on unless it has completed, its dead
// letters are run again, and the items that were skipped are in the log alone.
func nextCommands(job jobs.Job, completed bool, skipped int) []string {
	var commands []string
	if !completed {
		commands = append(commands, "prodigy resume "+job.ID)
	}
	letter, eligible, _ := dlq.Lead(job.DLQFile()) // what is wrong with the queue is told when it is looked at
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

// phaseEvidenceLines is how much of stderr is shown of a step that failed the job: more than of one of many items.
const phaseEvidenceLines = 20

// failed says what happened, and in which step if it was in one. Phase is empty in a standard workflow.
func failed(step, phase, what string) string {
	if step == "" {
		return what
	}
	return "step " + step + prefixed(" of ", phase) + " failed: " + what
}

// printStepFailure tells of the step that failed the job: one of a phase that runs once.
func (e ended) printStepFailure(w io.Writer, f agent.Failure) {
	var code *int
	if f.ExitCode >= 0 {
		code = &f.ExitCode
	}
	_, _ = fmt.Fprintf(w, "%s\n", failed(f.Step, e.phase(), told(ending(code, f.Signal, retry.Classify(f.Failure)), f.Message)))
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

// phase is the one that the job was in at the end.
func (e ended) phase() string {
	if e.job == nil {
		return ""
	}
	return e.job.Phase
}
