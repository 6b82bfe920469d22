package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

// Progress formats the live lines that show the progress of a job.
type Progress struct {
	term.Look

	// The number of steps by phase, for phases other than map. A standard workflow has the phase "".
	Steps map[string]int

	// An open breaker keeps items waiting. Otherwise it rejects them.
	Waits bool

	// Returns what an item is called besides its id. It may be nil.
	Label func(index int) string

	// What the keys of the terminal do. It is empty if they do not steer the job.
	Keys string

	// The budget of the workflow for AI agents; 0 if there is no limit.
	Budget limit.USD

	// The limit of starts, if items have waited for it of late.
	Rate string
}

const (
	RunningShown  = 3                      // agents, where room is scarce
	failuresShown = 2                      // the newest
	slow          = 500 * time.Millisecond // an agent that runs for less is not shown
)

// Lines returns lines of less than width columns, for at most half of the terminal. What is left of that by other lines
// belongs to the agents that run.
func (g Progress) Lines(j *Job, now time.Time, width, height int) []string {
	rows := max(height/2, 1)
	width-- // a full line would wrap on some terminals
	var list []string
	add := func(parts ...string) {
		if line := term.Fit(width, parts...); line != "" {
			list = append(list, line)
		}
	}
	counts := g.outcomes(j)
	if j.AtItems() {
		counts = append(counts, activity(j, now)...)
	}
	if j.AtItems() || j.Counts.Finished() > 0 {
		add(append([]string{g.bar(j, width, counts)}, counts...)...)
	}
	if !j.AtItems() {
		if j.Phase != "map" { // the line above says how that ended
			add(term.Cut(width, g.PhaseLine(j, now)+g.lastLine(j.Printed)))
		}
		add(g.nextTry(j, now))
		add(g.money(j))
		for _, text := range g.holds(j, now) {
			add(g.Paint(term.Yellow, text))
		}
	} else {
		add(term.Cut(width, strings.Join(g.pace(j, now), "  ")))
		for _, text := range g.HoldingBack(j, now) {
			for line := range strings.SplitSeq(term.Look{Width: width}.Fold(2, text), "\n") {
				add(g.Paint(term.Yellow, line))
			}
		}
		failed := g.failures(j, width)
		room := rows - len(list) - len(failed)
		if g.Keys != "" {
			room--
		}
		list = append(list, g.RunningLines(j, now, width, max(room, RunningShown))...)
		list = append(list, failed...)
	}
	if g.Keys != "" {
		add(g.Paint(term.Grey, g.Keys))
	}
	return check.First(list, rows)
}

// PhaseLine returns the progress of a phase other than map.
func (g Progress) PhaseLine(j *Job, now time.Time) string {
	name, began := j.Phase, j.PhaseBegan
	if name == "" {
		name, began = "commands", j.RunBegan
	}
	if n := len(j.Phases); n > 0 && j.Phases[n-1].Name == name && j.Phases[n-1].Done {
		return name + ": done"
	}
	text := fmt.Sprintf("%s: %s", name, duration.Format(now.Sub(began).Truncate(time.Second)))
	if n := g.Steps[j.Phase]; n > 0 {
		text += fmt.Sprintf(", step %d of %d", min(j.StepsDone+1, n), n) + term.Prefixed(": ", term.Visible(j.StepNow))
	}
	return text
}

// lastLine returns the last line that a command has printed, to stand behind what runs.
func (g Progress) lastLine(printed string) string {
	if printed == "" {
		return ""
	}
	return g.Paint(term.Grey, "  | "+term.Untabbed(printed))
}

// nextTry returns what a step of a phase that runs once waits for, or "".
func (g Progress) nextTry(j *Job, now time.Time) string {
	last := j.Retried.Last
	if last.ItemID != "" || !last.Due.After(now) {
		return ""
	}
	return g.Paint(term.Yellow, fmt.Sprintf("  retrying %s in %s: %s", term.Visible(last.Step),
		Rough(last.Due.Sub(now)), CauseText(last.Type, last.Error)))
}

// bar draws the shares of the items that succeeded, were skipped and failed. It is empty while the number of
// items is not known. Its width is what counts leave, which are printed behind it, and at least what the first two
// leave: how many have failed counts more.
func (g Progress) bar(j *Job, width int, counts []string) string {
	if !j.Complete || j.Total == 0 || j.Letters {
		return ""
	}
	percent := fmt.Sprintf("%3d%%", 100*min(j.Counts.Finished(), j.Total)/j.Total)
	const shortest, narrow, most = 5, 10, 30 // cells
	width -= len("100% ")
	left := width - wide(counts)
	cells := min(max(left-left%shortest, narrow), most, width-wide(counts[:2]))
	if cells < shortest {
		return percent
	}
	return percent + " " + g.shares(j, cells)
}

// wide returns how many columns parts take in a line, each with two blanks before it.
func wide(parts []string) int {
	n := 0
	for _, part := range parts {
		n += term.Width(term.Prefixed("  ", part))
	}
	return n
}

// shares draws a bar of so many cells.
func (g Progress) shares(j *Job, cells int) string {
	c := j.Counts
	total := max(j.Total, c.Finished())
	var b strings.Builder
	sum, drawn := 0, 0
	for _, p := range []struct {
		n      int
		colour term.Colour
		cell   string
	}{
		{c.Successful, term.Green, "█"},
		{c.Skipped, term.Yellow, "▓"},
		{c.DeadLetters(), term.Red, "▒"},
		{total - c.Finished(), "", "░"},
	} {
		if g.Colours && p.colour != "" {
			p.cell = "█" // the colours tell the parts apart
		}
		sum += p.n
		n := cells*sum/total - drawn
		drawn += n
		b.WriteString(g.Paint(p.colour, strings.Repeat(p.cell, n)))
	}
	return b.String()
}

// outcomes returns the numbers of items that have an outcome, in words.
func (g Progress) outcomes(j *Job) []string {
	c := j.Counts
	done := fmt.Sprintf("%d done", c.Finished())
	if j.Complete && !j.Letters {
		done = fmt.Sprintf("%d/%d done", c.Finished(), j.Total)
	}
	return check.Said(done, cmp.Or(g.Paint(term.Red, check.Some("%d failed", c.Failed)), "0 failed"),
		g.Paint(term.Yellow, check.Some("%d skipped", c.Skipped)),
		g.Paint(term.Red, check.Some("%d rejected", c.Rejected)))
}

// activity returns what happens to the other items, in words.
func activity(j *Job, now time.Time) []string {
	parts := []string{j.RunningOf(now) + " running", fmt.Sprintf("%d waiting", j.Waiting(now))}
	if n := j.Merging(); n > 0 {
		text := fmt.Sprintf("%d merging", n)
		if v := j.Merges.Verifying; v != nil {
			text += fmt.Sprintf(" (verify %s)", duration.Format(now.Sub(v.Began).Truncate(time.Second)))
		}
		parts = append(parts, text)
	}
	if !j.Complete && !j.Letters {
		parts = append(parts, fmt.Sprintf("%d found so far", j.Total))
	}
	return parts
}

// pace returns how fast the job goes on and what that costs, in words.
func (g Progress) pace(j *Job, now time.Time) []string {
	parts := append([]string{j.FleetSlots(), check.Some(Awaiting, j.AwaitWorkers(now))}, Pace(j, now)...)
	return check.Said(append(parts, g.money(j), g.retries(j, now))...)
}

// HoldingBack returns what holds items back, a line each.
func (g Progress) HoldingBack(j *Job, now time.Time) []string {
	list := g.holds(j, now)
	list = append(list, term.Prefixed("waiting for rate limit ", g.Rate), Adapted(j))
	return check.Said(append(list, g.breakers(j, now)...)...)
}

// Awaiting says how many attempts wait for a worker of a fleet.
const Awaiting = "%d waiting for a worker"

// Pace returns the throughput and the estimated remaining time, of a job that something can run of.
func Pace(j *Job, now time.Time) []string {
	rate := j.Rate(now)
	if rate <= 0 || j.LacksWorkers(now) {
		return nil
	}
	parts := []string{rateText(rate)}
	e, ok := j.Remaining(now)
	if !ok || len(j.Paused()) > 0 || j.Hold() != nil {
		return parts
	}
	low, high := Rough(e.Low), Rough(e.High)
	if low == high {
		return append(parts, "eta "+low)
	}
	return append(parts, "eta "+low+" to "+high)
}

// holds returns who has paused or is ending the job, and for what limits of plans agents wait.
func (g Progress) holds(j *Job, now time.Time) []string {
	list := check.Each(j.Holding(now), term.Visible)
	if j.Hold() != nil && j.Stopping() == "" {
		list[0] += "; to continue: prodigy continue"
		if g.Keys != "" {
			list[0] += ", or p"
		}
	}
	return list
}

// money returns what AI agents have cost, and what all of them are expected to.
func (g Progress) money(j *Job) string {
	if j.Spent.Agents == 0 {
		return ""
	}
	text := j.Spent.CostText()
	if !j.Spent.Known() {
		text = check.Counted(j.Spent.Agents, "agent") + " of unknown cost"
	}
	if limit := cmp.Or(j.MaxCost, g.Budget); limit > 0 {
		text += " of " + limit.String()
	}
	if done := j.Counts.Finished(); j.AtItems() && j.Spent.Cost > 0 && done >= enoughItems && !j.Letters {
		each := j.Spent.Cost / limit.USD(done)
		text += fmt.Sprintf(" (%s per item", each)
		if j.Complete && done < j.Total {
			text += fmt.Sprintf(", about %s in total", each*limit.USD(j.Total))
		}
		text += ")"
	}
	return text
}

// enoughItems is how many items must have ended for their mean cost to say something.
const enoughItems = 5

// rateText prints a rate per second, or per minute or hour if it is low.
func rateText(rate float64) string {
	switch {
	case rate >= 1:
		return fmt.Sprintf("%.1f/s", rate)
	case rate*60 >= 1:
		return fmt.Sprintf("%.1f/min", rate*60)
	}
	return fmt.Sprintf("%.1f/h", rate*3600)
}

// retries returns how often items were tried again, when the next one is due, for which types of failures,
// and the last of them.
func (g Progress) retries(j *Job, now time.Time) string {
	text := g.Paint(term.Yellow, RetryCounts(j, NextRetry(j, now)))
	if last := j.Retried.Last; last.ItemID != "" {
		text += "; last " + term.Visible(last.ItemID) + ": " + CauseText(last.Type, last.Error)
	}
	return text
}

// NextRetry returns when the first of the waiting items goes on; "" if none waits.
func NextRetry(j *Job, now time.Time) string {
	next := j.NextRetry(now)
	if next.IsZero() {
		return ""
	}
	return "next in " + Rough(next.Sub(now))
}

// RetryCounts returns the number of retries, next, and the number for each type of failure, as in "42
// retries, next in 2s: 30 network, 12 timeout". It is "" if there is nothing to say.
func RetryCounts(j *Job, next string) string {
	words := check.Each(mostFirst(j.Retried.Types), func(t retry.Type) string {
		return fmt.Sprintf("%d %s", j.Retried.Types[t], t)
	})
	text := fmt.Sprintf("%d retries", j.Retries)
	switch {
	case j.Retries == 1:
		text = "1 retry"
	case j.Retries == 0 && next == "":
		return ""
	case j.Retries == 0: // those that wait were counted by an earlier run
		return "retry " + next
	}
	return text + term.Prefixed(", ", next) + term.Prefixed(": ", strings.Join(words, ", "))
}

// causeShown is how many characters of the message of a failure a line shows.
const causeShown = 160

// CauseText returns a failure in one line: its type, unless the message says as much, and its message.
func CauseText(t retry.Type, message string) string {
	message = term.Ellipsis(term.Joined(message), causeShown)
	if message == "" {
		return string(t)
	}
	if t == retry.TypeCommandFailed || strings.Contains(message, strings.ReplaceAll(string(t), "_", " ")) {
		return message
	}
	return string(t) + ": " + message
}

// breakers returns what each circuit breaker that is not closed does next and to items, and why it opened.
func (g Progress) breakers(j *Job, now time.Time) (lines []string) {
	all := j.Breakers()
	for i, b := range all {
		if i == breakersShown {
			return append(lines, fmt.Sprintf("%d more circuit breakers open", len(all)-i))
		}
		text := "circuit breaker half-open, probing"
		if b.State == Open {
			text = "circuit breaker open, probes in " + Rough(b.Until.Sub(now))
		}
		if b.Scope != events.WorkflowScope {
			text = "step " + term.Visible(b.Scope) + ": " + text
		}
		text = term.Visible(b.Key) + term.Prefixed(": ", text) + term.Prefixed(", ", g.Meanwhile(j, b, now)) +
			term.Prefixed(": ", Opened(b))
		lines = append(lines, strings.TrimPrefix(text, ": "))
	}
	return lines
}

// breakersShown bounds the breakers that are shown; status --json has all.
const breakersShown = 5

// Meanwhile returns what becomes of items while a breaker is not closed, or "" if there is nothing to say.
func (g Progress) Meanwhile(j *Job, b Breaker, now time.Time) string {
	n := j.Held(b, now)
	items := check.Counted(n, "item")
	switch {
	case n == 0:
		return ""
	case b.Scope != events.WorkflowScope:
		return items + " waiting"
	case g.Waits:
		return items + " held back"
	}
	return items + " will be rejected"
}

// Opened returns why a breaker is open, as far as that is known.
func Opened(b Breaker) string {
	if b.State != Open || b.Failures == 0 {
		return ""
	}
	return check.Counted(b.Failures, "consecutive failure")
}

// RunningLines returns at most so many lines about the agents that run, those that have been running longest first. If
// there are more agents, the last line counts the others.
func (g Progress) RunningLines(j *Job, now time.Time, width, most int) []string {
	var list []string
	all := j.InFlight()
	for i, a := range all {
		if now.Sub(a.Began) < slow {
			break
		}
		if len(list) == most-1 && i < len(all)-1 {
			return append(list, fmt.Sprintf("  and %d more", len(all)-i))
		}
		list = append(list, g.attempt(a, now, width))
	}
	return list
}

// attempt returns a line about an agent that runs. What it is called and what it has printed share the room
// that is left.
func (g Progress) attempt(a Attempt, now time.Time, width int) string {
	head, waits, number := "  waiting ", "", ""
	switch {
	case a.AwaitsWorker(now):
		waits = "for a worker"
	case a.Held:
		waits = "next attempt after the job continues"
	case a.Due.After(now):
		waits = "retry in " + Rough(a.Due.Sub(now))
	default:
		head = "  running "
	}
	head += term.Visible(a.ItemID)
	if a.Number > 1 {
		number = fmt.Sprintf("attempt %d", a.Number)
	}
	details := []string{
		Rough(now.Sub(a.Began)), term.Prefixed("step ", term.Visible(a.Step)), term.Visible(a.Where()), waits, number,
	}
	printed := g.lastLine(a.Printed)
	room := width - term.Width(head) - wide(details)
	const both = 32 // that room is enough for
	label := ""
	if printed == "" || room >= both {
		label = g.labelled(a.Index, max(room/2, room-term.Width(printed)))
	}
	return term.Cut(width, term.Fit(width, append([]string{head, label}, details...)...)+printed)
}

// labelled returns what the item with this index is called, in at most so many columns with two blanks before
// it; "" if there is no room for enough of it. Of a path the end is what tells it from others.
func (g Progress) labelled(index, room int) string {
	const enough = 8
	if room -= 2; g.Label == nil || room < enough {
		return ""
	}
	label := term.Untabbed(g.Label(index))
	if !strings.Contains(label, "/") {
		return term.Cut(room, label)
	}
	for i := range label {
		if i == 0 && term.Width(label) <= room {
			return label
		}
		if i > 0 && term.Width(label[i:]) < room {
			return "…" + label[i:]
		}
	}
	return ""
}

// failures returns lines about the newest failures.
func (g Progress) failures(j *Job, width int) []string {
	newest := j.Failures.Newest
	var list []string
	for _, f := range newest[max(len(newest)-failuresShown, 0):] {
		head, why := "  failed  "+term.Visible(f.ItemID), CauseText(f.ErrorType, f.Error)
		room := width - term.Width(head)
		label := g.labelled(f.ItemIndex, max(room/3, room-2-term.Width(why)))
		list = append(list, g.Paint(term.Red, term.Cut(width, head+term.Prefixed("  ", label)+"  "+why)))
	}
	return list
}

// StatusLine returns the progress in one line, for output without a terminal.
func (g Progress) StatusLine(j *Job, now time.Time) string {
	if !j.AtItems() {
		return g.PhaseLine(j, now)
	}
	g.Look = term.Look{}
	return strings.Join(slices.Concat(g.outcomes(j), activity(j, now), g.pace(j, now), g.HoldingBack(j, now)), ", ")
}

// rateShown is how long at least a rate is shown after an item has waited for it.
const rateShown = 10 * time.Second

// RateHeld returns the rate of agents, if an item had waited for it so long ago that others do now; empty:
// there is none, or none waits.
func RateHeld(rates []events.StartRate, ago time.Duration) string {
	for _, r := range rates {
		if between := time.Duration(float64(time.Second) / r.PerSecond); r.Step == "" &&
			ago <= max(rateShown, 2*between) {
			return term.Visible(r.Words())
		}
	}
	return ""
}

// Adapted returns how many agents run at once, in a job that finds that out, and why; "": it has not changed that yet.
func Adapted(j *Job) string {
	if j.Limit == nil {
		return ""
	}
	return "limit: " + j.Limit.Words() + ", because " + term.Visible(j.Limit.Reason)
}

const day = 24 * time.Hour

// Rough prints a duration rounded, as people would say it.
func Rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1s"
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	case d < 10*time.Hour:
		d = d.Round(time.Minute)
	case d < 3*day:
		d = d.Round(time.Hour)
	default:
		return fmt.Sprintf("%dd", (d+day/2)/day)
	}
	return duration.Format(d)
}
