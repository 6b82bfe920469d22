package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"prodigy/internal/duration"
	"prodigy/internal/view"
)

// progressLines formats the live lines that show the progress of a job.
type progressLines struct {
	colours bool
	unicode bool
	steps   map[string]int // number of steps by phase, for phases other than map
}

const (
	regionLines   = 8           // at most, and at most half of the terminal
	runningShown  = 3           // agents
	failuresShown = 2           // the newest
	slow          = time.Second // an agent that runs for less is not shown
)

// lines returns at most regionLines lines of less than width columns.
func (g progressLines) lines(j *view.Job, now time.Time, width, height int) []string {
	width-- // a full line would wrap on some terminals
	limit := max(min(regionLines, height/2), 1)
	if !inMap(j) {
		return []string{fit(width, g.phase(j, now))}
	}
	list := []string{fit(width, append([]string{g.bar(j, width)}, itemCounts(j, now)...)...)}
	if second := append(pace(j, now), g.breakers(j, now)...); len(second) > 0 {
		list = append(list, fit(width, second...))
	}
	list = append(list, g.running(j, now, width)...)
	list = append(list, g.failures(j, width)...)
	return list[:min(len(list), limit)]
}

// inMap reports whether the job is in its map phase or retries dead letters.
func inMap(j *view.Job) bool {
	return j.Mode != "standard" && (j.Phase == "map" || j.Phase == "" || j.Letters)
}

// phase returns the progress of a phase other than map.
func (g progressLines) phase(j *view.Job, now time.Time) string {
	name, began := j.Phase, j.PhaseBegan
	if name == "" {
		name, began = "commands", j.RunBegan
	}
	text := fmt.Sprintf("%s: %s", name, duration.Format(now.Sub(began).Truncate(time.Second)))
	if n := g.steps[j.Phase]; n > 0 {
		text += fmt.Sprintf(", step %d of %d", min(j.StepsDone+1, n), n)
	}
	return text
}

// bar draws the share of finished items. It is empty while the number of items is not known.
func (g progressLines) bar(j *view.Job, width int) string {
	if !j.Complete || j.Total == 0 || j.Letters {
		return ""
	}
	done := j.Counts.Finished()
	percent := fmt.Sprintf("%3d%%", 100*done/j.Total)
	cells := min(width/4, 30)
	if cells < 10 {
		return percent
	}
	full, empty := "#", "-"
	if g.unicode {
		full, empty = "█", "░"
	}
	filled := cells * done / j.Total
	return percent + " " + g.paint(green, strings.Repeat(full, filled)) + strings.Repeat(empty, cells-filled)
}

// itemCounts returns the numbers of items by status, in words.
func itemCounts(j *view.Job, now time.Time) []string {
	c := j.Counts
	done := fmt.Sprintf("%d done", c.Finished())
	if j.Complete && !j.Letters {
		done = fmt.Sprintf("%d/%d done", c.Finished(), j.Total)
	}
	parts := []string{done, fmt.Sprintf("%d failed", c.Failed)}
	for _, more := range []struct {
		n    int
		word string
	}{{c.Skipped, "skipped"}, {c.Rejected, "rejected"}} {
		if more.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.n, more.word))
		}
	}
	parts = append(parts, fmt.Sprintf("%d running", j.Running(now)), waiting(j, now))
	if !j.Complete && !j.Letters {
		parts = append(parts, fmt.Sprintf("%d found so far", j.Total))
	}
	return parts
}

func waiting(j *view.Job, now time.Time) string {
	text := fmt.Sprintf("%d waiting", j.Waiting(now))
	if next := j.NextRetry(now); !next.IsZero() {
		text += fmt.Sprintf(" (next in %s)", view.Rough(next.Sub(now)))
	}
	return text
}

// pace returns the throughput and the estimated remaining time.
func pace(j *view.Job, now time.Time) []string {
	rate := j.Rate(now)
	if rate <= 0 {
		return nil
	}
	parts := []string{rateText(rate)}
	e, ok := j.Remaining(now)
	if !ok {
		return parts
	}
	low, high := view.Rough(e.Low), view.Rough(e.High)
	if low == high {
		return append(parts, "eta "+low)
	}
	return append(parts, "eta "+low+" to "+high)
}

// rateText prints a rate per second, or per minute or hour if it is low.
func rateText(rate float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"s", 1}, {"min", 60}} {
		if rate*unit.seconds >= 1 {
			return fmt.Sprintf("%.1f/%s", rate*unit.seconds, unit.name)
		}
	}
	return fmt.Sprintf("%.1f/h", rate*3600)
}

func (g progressLines) breakers(j *view.Job, now time.Time) []string {
	var parts []string
	for _, b := range j.Breakers() {
		text := "breaker half-open, testing"
		if b.State == view.Open {
			text = "breaker open, tests in " + view.Rough(b.Until.Sub(now))
			if !b.Until.After(now) {
				text = "breaker open, about to test"
			}
		}
		if b.Scope != "workflow" {
			text = "step " + visible(b.Scope) + ": " + text
		}
		parts = append(parts, g.paint(yellow, text))
	}
	return parts
}

// running returns lines about the agents that have been running longest.
func (g progressLines) running(j *view.Job, now time.Time, width int) []string {
	var list []string
	for _, a := range j.InFlight() {
		age := now.Sub(a.Began)
		if age < slow || len(list) == runningShown {
			break
		}
		word := "  running "
		if a.Due.After(now) {
			word = "  waiting "
		}
		parts := []string{word + visible(a.ItemID), view.Rough(age)}
		if a.Step != "" {
			parts = append(parts, "step "+visible(a.Step))
		}
		if a.Due.After(now) {
			parts = append(parts, "next try in "+view.Rough(a.Due.Sub(now)))
		}
		if a.Number > 1 {
			parts = append(parts, fmt.Sprintf("attempt %d", a.Number))
		}
		list = append(list, fit(width, parts...))
	}
	return list
}

// failures returns lines about the newest failures.
func (g progressLines) failures(j *view.Job, width int) []string {
	newest := j.Failures.Newest
	var list []string
	for _, f := range newest[max(len(newest)-failuresShown, 0):] {
		text := fmt.Sprintf("  failed  %s  %s: %s", visible(f.ItemID), f.ErrorType, visible(f.Error))
		list = append(list, g.paint(red, fit(width, text)))
	}
	return list
}

// statusLine returns the progress in one line, for output without a terminal.
func (g progressLines) statusLine(j *view.Job, now time.Time) string {
	if !inMap(j) {
		return g.phase(j, now)
	}
	return strings.Join(append(append(itemCounts(j, now), pace(j, now)...), progressLines{}.breakers(j, now)...), ", ")
}

// fit joins the non-empty parts with two spaces, as many as fit into width. The first one is truncated if needed.
func fit(width int, parts ...string) string {
	line := ""
	for _, part := range parts {
		switch {
		case part == "":
		case line == "":
			line = part
			if displaywidth.String(plain(part)) > width {
				line = displaywidth.TruncateString(plain(part), width, "…")
			}
		case displaywidth.String(plain(line))+2+displaywidth.String(plain(part)) <= width:
			line += "  " + part
		default:
			return line
		}
	}
	return line
}

// colour is an SGR code: https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

func (g progressLines) paint(c colour, text string) string {
	if !g.colours || text == "" {
		return text
	}
	return escapeMark + "[" + string(c) + "m" + text + escapeMark + "[0m"
}

// plain removes the colours from a line.
func plain(line string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(line, escapeMark+"[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, line, _ = strings.Cut(after, "m")
	}
}
