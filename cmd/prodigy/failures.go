package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// failures groups the items that failed by the signature of their errors, each with one example.
type failures struct {
	groups      []*failureGroup
	bySignature map[string]*failureGroup
	ungrouped   int // beyond groupLimit
}

type failureGroup struct {
	example events.AgentFailed
	count   int
}

// groupLimit bounds the memory of a job whose errors are all different.
const groupLimit = 200

// groupsShown is how many groups the summary prints.
const groupsShown = 10

func (f *failures) add(e events.AgentFailed) {
	key := string(e.ErrorType) + "\x00" + e.ErrorSignature
	if g, ok := f.bySignature[key]; ok {
		g.count++
		return
	}
	if len(f.groups) == groupLimit {
		f.ungrouped++
		return
	}
	if f.bySignature == nil {
		f.bySignature = map[string]*failureGroup{}
	}
	g := &failureGroup{example: e, count: 1}
	f.bySignature[key] = g
	f.groups = append(f.groups, g)
}

// print writes the groups, the largest first, and what the patterns suggest.
func (f *failures) print(w io.Writer, patterns []errorpolicy.Pattern, jobID string) {
	groups := slices.Clone(f.groups)
	slices.SortStableFunc(groups, func(a, b *failureGroup) int { return b.count - a.count })
	rest := f.ungrouped
	for i, g := range groups {
		if i >= groupsShown {
			rest += g.count
			continue
		}
		g.print(w, jobID)
	}
	if rest > 0 {
		_, _ = fmt.Fprintf(w, "and %d more of other kinds: prodigy dlq list --job-id %s\n", rest, jobID)
	}
	printSuggestions(w, patterns)
}

func (g *failureGroup) print(w io.Writer, jobID string) {
	_, _ = fmt.Fprintf(w, "%d failed (%s): %s\n", g.count, g.example.ErrorType, shorten(visible(g.example.ErrorSignature), 160))
	word := ""
	if g.count > 1 {
		word = "for example "
	}
	_, _ = fmt.Fprintf(w, "  %s%s\n", word, describe(g.example))
	printEvidence(w, g.example, jobID)
}

// describe says in one line what happened to which item in which step.
func describe(e events.AgentFailed) string {
	if e.ErrorType == retry.TypeCircuitOpen && e.AgentID == "" {
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
	case signal != "":
		return "killed by " + signal
	case code != nil:
		return fmt.Sprintf("exit code %d", *code)
	}
	return strings.ReplaceAll(string(t), "_", " ")
}

// told joins how a command ended with the message, which may begin with just that.
func told(ending, message string) string {
	message = shorten(visible(message), 300)
	if strings.HasPrefix(message, ending) {
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
	if e.Action == errorpolicy.Skip {
		_, _ = fmt.Fprintf(w, "    all of it: prodigy events ls --job-id %s --item-id %s --json\n", jobID, e.ItemID)
		return
	}
	_, _ = fmt.Fprintf(w, "    all of it: prodigy dlq inspect %s --job-id %s\n", e.ItemID, jobID)
}

func printSuggestions(w io.Writer, patterns []errorpolicy.Pattern) {
	for _, p := range patterns {
		_, _ = fmt.Fprintf(w, "%d times %s: %s\n", p.Frequency, p.PatternType, p.SuggestedAction)
	}
}
