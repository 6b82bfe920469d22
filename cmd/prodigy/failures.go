package main

import (
	"fmt"
	"io"
	"strings"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/view"
)

// groupsShown is the number of failure groups in the summary.
const groupsShown = 10

// printFailures prints the groups of failures, the largest first, each with an example.
func printFailures(w io.Writer, f view.Failures, jobID string) {
	rest := f.Ungrouped
	for i, g := range f.Groups() {
		if i >= groupsShown {
			rest += g.Count
			continue
		}
		printGroup(w, g, jobID)
	}
	if rest > 0 {
		_, _ = fmt.Fprintf(w, "and %d more failures of other kinds: prodigy dlq list --job-id %s\n", rest, jobID)
	}
}

func printGroup(w io.Writer, g view.FailureGroup, jobID string) {
	_, _ = fmt.Fprintf(w, "%d %s (%s): %s\n", g.Count, g.Outcome(), g.Type, shorten(visible(g.Title()), 160))
	word := ""
	if g.Count > 1 {
		word = "for example "
	}
	_, _ = fmt.Fprintf(w, "  %s%s\n", word, describe(g.Example.AgentFailed))
	printEvidence(w, g.Example.AgentFailed, jobID)
}

// describe returns one line about a failed item: its step and error.
func describe(e events.AgentFailed) string {
	if e.Rejected() {
		return e.ItemID + ": not run, the circuit breaker is open"
	}
	return e.ItemID + ": " + inStep(e.Step) + withMessage(ending(e.ExitCode, e.Signal, e.ErrorType), e.Error)
}

// inStep returns "step NAME: ", or "" without a step.
func inStep(step string) string {
	if step == "" {
		return ""
	}
	return "step " + step + ": "
}

// ending describes how a command ended. For a timeout that is "timed out", not the signal that ended it.
func ending(code *int, signal string, t retry.Type) string {
	switch {
	case t == retry.TypeTimeout && code == nil:
		return "timed out"
	case t == retry.TypeInternal:
		return "internal error"
	case t == retry.TypeCircuitOpen:
		return "circuit breaker"
	case t == retry.TypeCommitMissing:
		return "commit_required"
	case signal != "":
		return "killed by " + signal
	case code != nil && *code != 0:
		return fmt.Sprintf("exit code %d", *code)
	}
	return strings.ReplaceAll(string(t), "_", " ")
}

// withMessage joins how a command ended with its message, unless the message says it already.
func withMessage(ending, message string) string {
	message = shorten(visible(message), 300)
	if strings.Contains(message, ending) {
		return message
	}
	return ending + ": " + message
}

// evidenceLines is how many lines of stderr are printed for a failure.
const evidenceLines = 5

// printEvidence prints the end of stderr, and the command that shows all of it.
func printEvidence(w io.Writer, e events.AgentFailed, jobID string) {
	for _, line := range lastLines(e.StderrTail, evidenceLines) {
		_, _ = fmt.Fprintf(w, "    | %s\n", shorten(visible(line), 200))
	}
	if !e.Status().DeadLetter() {
		_, _ = fmt.Fprintf(w, "    full output: prodigy events ls --job-id %s --item-id %s --json\n", jobID, quoted(e.ItemID))
		return
	}
	_, _ = fmt.Fprintf(w, "    full output: prodigy dlq inspect %s --job-id %s\n", quoted(e.ItemID), jobID)
}

// printSuggestions prints the advice for error types that have their own. The general advice adds nothing here.
func printSuggestions(w io.Writer, patterns []errorpolicy.Pattern) {
	for _, p := range patterns {
		if !errorpolicy.Advised(p.PatternType) {
			continue
		}
		_, _ = fmt.Fprintf(w, "%d %s errors: %s\n", p.Frequency, p.PatternType, p.SuggestedAction)
	}
}
