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

// groupsShown is how many groups of failures the summary prints.
const groupsShown = 10

// printFailures writes the groups of failures, the largest first, each with an example.
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

// describe says in one line what happened to which item in which step.
func describe(e events.AgentFailed) string {
	if e.Rejected() {
		return e.ItemID + ": not run, the circuit breaker is open"
	}
	return e.ItemID + ": " + inStep(e.Step) + told(ending(e.ExitCode, e.Signal, e.ErrorType), e.Error)
}

// inStep says which step it was, if it was in one.
func inStep(step string) string {
	if step == "" {
		return ""
	}
	return "step " + step + ": "
}

// ending says how a command ended. Of a command that was killed because its time was up, that is the news, not the signal.
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

// told joins how a command ended with the message, which may say just that.
func told(ending, message string) string {
	message = shorten(visible(message), 300)
	if strings.Contains(message, ending) {
		return message
	}
	return ending + ": " + message
}

// evidenceLines is how much of stderr a failure shows.
const evidenceLines = 5

// printEvidence prints the end of stderr, and how to see the rest.
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

// printSuggestions prints the advice that there is for a type of error of its own: that for all others says nothing that is not here.
func printSuggestions(w io.Writer, patterns []errorpolicy.Pattern) {
	for _, p := range patterns {
		if !errorpolicy.Advised(p.PatternType) {
			continue
		}
		_, _ = fmt.Fprintf(w, "%d %s errors: %s\n", p.Frequency, p.PatternType, p.SuggestedAction)
	}
}
