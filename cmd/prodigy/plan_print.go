package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/items"
)

// planWidth is the maximum width of a line about an item.
const planWidth = 80

func (p plan) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "workflow: %s (mode %s)\n", p.Workflow, p.Mode)
	if p.Items != nil {
		p.Items.print(w)
		_, _ = fmt.Fprintf(w, "slots: %d\n", p.MaxParallel)
	}
	section := ""
	for _, s := range p.Steps {
		if s.Section != section {
			section = s.Section
			_, _ = fmt.Fprintf(w, "%s:\n", p.heading(section))
		}
		s.print(w)
	}
	if p.Items != nil {
		_, _ = fmt.Fprintf(w, "each item: %s%s\n", upTo(p.ItemRuns), schedule(p.ItemDelays))
		_, _ = fmt.Fprintf(w, "worst-case waiting per item: %s\n", spell(*p.WorstWaiting))
	}
	p.printWorst(w)
	_, _ = fmt.Fprintln(w, "nothing was run")
}

// printWorst prints the longest times of an item, the map phase and the job.
func (p plan) printWorst(w io.Writer) {
	line := func(what string, d *millis, of string) {
		if d != nil {
			_, _ = fmt.Fprintf(w, "worst case of %s: %s%s\n", what, spell(*d), of)
		}
	}
	line("an item", p.WorstItem, "")
	if p.Items != nil && p.Items.Total != nil {
		line("the map", p.WorstMap, fmt.Sprintf(" (%s in %s)", counted(*p.Items.Total, "item"), counted(p.MaxParallel, "slot")))
	}
	line("the job", p.WorstJob, "")
	switch {
	case p.Unlimited != "":
		_, _ = fmt.Fprintf(w, "worst case of the job: no limit, since %s has no timeout\n", p.Unlimited)
	case p.WorstJob == nil:
		_, _ = fmt.Fprintln(w, "worst case of the job: depends on the number of items")
	}
}

// heading returns the heading of a section; for the map phase it names the item whose commands are shown.
func (p plan) heading(section string) string {
	if section == "map" && len(p.Items.First) > 0 {
		return "map, as for " + p.Items.First[0].ID
	}
	return section
}

func (p planItems) print(w io.Writer) {
	if p.Total == nil && p.Source == items.Stdin {
		_, _ = fmt.Fprintln(w, "items: from standard input, which is a terminal and was not read")
		return
	}
	if p.made {
		_, _ = fmt.Fprintf(w, "items: from %s, which does not exist yet: setup, which was not run, may create it\n", visible(p.Source))
		return
	}
	if p.Total == nil {
		_, _ = fmt.Fprintf(w, "items: from a command, which was not run: %s\n", visible(p.Source))
		return
	}
	_, _ = fmt.Fprintf(w, "items: %d from %s\n", *p.Total, visible(p.Source))
	if *p.Total == 0 {
		_, _ = fmt.Fprintln(w, "  a run would warn that there is nothing to do, and skip reduce and merge")
	}
	for _, it := range p.First {
		line := fmt.Sprintf("  %s  %s", it.ID, it.Data)
		_, _ = fmt.Fprintln(w, shorten(visible(line), planWidth))
	}
	if more := *p.Total - len(p.First); more > 0 {
		_, _ = fmt.Fprintf(w, "  and %d more\n", more)
	}
}

func (s planStep) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "  %s: %s%s\n", s.Step, upTo(s.Runs), schedule(s.Delays))
	for _, detail := range s.details() {
		_, _ = fmt.Fprintf(w, "    (%s)\n", detail)
	}
	for line := range strings.SplitSeq(strings.TrimRight(s.Command, "\n"), "\n") {
		_, _ = fmt.Fprintf(w, "      %s\n", visible(line))
	}
}

// details returns the condition, timeout and retry rules of a step, in words.
func (s planStep) details() []string {
	var all []string
	if s.When != "" {
		all = append(all, "when "+visible(strings.TrimSpace(s.When)))
	}
	if s.Timeout > 0 {
		all = append(all, "each run may take "+spell(s.Timeout))
	}
	if len(s.Least) > 0 {
		all = append(all, "waiting at least"+spread(s.Least))
	}
	if len(s.RetryOn) > 0 {
		all = append(all, "retried only after "+strings.Join(s.RetryOn, ", "))
	}
	return all
}

// scheduleShown is the number of delays of a schedule that are printed.
const scheduleShown = 10

// schedule prints the delays before retries.
func schedule(all []millis) string {
	if len(all) == 0 {
		return ""
	}
	return ", waiting at most" + spread(all) + fmt.Sprintf(" (in all %s)", spell(sum(all)))
}

// spread prints the first delays.
func spread(all []millis) string {
	var b strings.Builder
	for _, d := range all[:min(len(all), scheduleShown)] {
		b.WriteString(" " + spell(d))
	}
	if len(all) > scheduleShown {
		b.WriteString(" …")
	}
	return b.String()
}

// spell prints a duration exactly.
func spell(d millis) string { return duration.Exact(time.Duration(d)) }
