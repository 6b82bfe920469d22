package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/outputs"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// printer shows the records of a job as they come: results on stdout, progress on stderr. Its goroutine owns all its
// fields; observe sends it records.
type printer struct {
	// These channels bring what happens from the other goroutines of a run. steps and outputs are for the live lines only,
	// and may be lost.
	records chan []events.Record
	pasts   chan mapreduce.Earlier
	notices chan notice
	steps   chan events.AgentProgress
	outputs chan outputs.Entry

	options  jobOptions
	workflow *workflow.Workflow
	// earlier is what the runs before this one have done.
	earlier mapreduce.Earlier

	steer steering
	// waited is when an item last had waited for its turn of a rate, in Unix milliseconds. Any goroutine may set it.
	waited atomic.Int64

	// echo is nil unless the output of items is printed.
	echo *term.Echo
	// ofCommands means that echo shows what all commands of items print, not only their outputs.
	ofCommands bool
	// results gets what reduce, merge and standard steps print. It is io.Discard if only the summary is wanted.
	results io.Writer

	con    *console
	screen *jobScreen
	// lines formats the live lines. Its labels are known once the job has a directory.
	lines view.Progress
	// flood holds back lines about keys and stragglers when there are too many.
	flood term.Flood
	// job is what the records so far amount to.
	job *view.Job
	// place is where the job is, once a record has named it. It finds that out once, as those below do.
	place func() (jobs.Job, error)
	// named is how hints name the job.
	named func() string
	// conversation makes what people see of an entry that an AI coding CLI has printed.
	conversation func() func(outputs.Entry) outputs.Entry
}

// newPrinter returns the printer of a run of w.
func newPrinter(con *console, o jobOptions, w *workflow.Workflow) *printer {
	p := &printer{
		records:  make(chan []events.Record, 64),
		pasts:    make(chan mapreduce.Earlier),
		notices:  make(chan notice),
		steps:    make(chan events.AgentProgress, 256),
		outputs:  make(chan outputs.Entry, 256),
		options:  o,
		workflow: w,
		results:  con.out,
		con:      con,
		screen:   newJobScreen(con.err, con.live && con.format != term.JSON, con.size),
		lines:    newProgress(con, w),
		job:      view.Resumed(errorpolicy.Metrics{}),
	}
	if o.quiet {
		p.screen = newJobScreen(io.Discard, false, con.size)
	}
	if o.print || o.keepOrder {
		p.echo = term.NewEcho(term.Grouped, o.keepOrder, con.out, con.raw)
	}
	if o.quiet || con.format == term.JSON {
		p.results = io.Discard
	}
	p.place = sync.OnceValues(func() (jobs.Job, error) { return findJob(jobName{id: p.job.ID, all: true}) })
	p.named = sync.OnceValue(func() string { return named(p.job.ID) })
	p.conversation = sync.OnceValue(func() func(outputs.Entry) outputs.Entry {
		place, _ := findJob(jobName{id: p.job.ID, all: true}) // output may come before the record that names the job
		return outputs.Rendering(conversations(place))
	})
	if mode := o.echo.mode(); mode != "" {
		if mode != term.Grouped {
			p.screen.Live = false // what comes at any time would be written into the live lines
		}
		p.echo, p.ofCommands = term.NewEcho(mode, o.keepOrder, con.out, con.raw), true
	}
	return p
}

// observe implements Config.Observe. It blocks while the terminal cannot keep up.
func (p *printer) observe(batch []events.Record) { p.records <- batch }

// step implements Config.Progress. It drops steps when the buffer is full: they are soon out of date.
func (p *printer) step(e events.AgentProgress) {
	select {
	case p.steps <- e:
	default:
	}
}

// rateWaited implements Config.RateWaited. A wait that nobody could see is none.
func (p *printer) rateWaited(d time.Duration) {
	if d >= time.Millisecond {
		p.waited.Store(time.Now().UnixMilli())
	}
}

// output implements Config.Printed. It drops what comes when the buffer is full, and what commands print that end
// before anybody could see it.
func (p *printer) output(e outputs.Entry) {
	if e.First && e.End != nil {
		return
	}
	select {
	case p.outputs <- e:
	default:
	}
}

// show prints records until the channel is closed.
func (p *printer) show() {
	tick := time.NewTicker(p.screen.every())
	defer tick.Stop()
	for {
		select {
		case batch, open := <-p.records:
			if !open {
				if text := p.flood.Rest(); text != "" {
					p.log(events.Odd, "%s", text)
				}
				p.screen.Clear()
				p.closeItems()
				return
			}
			p.seeTogether(batch)
		case e := <-p.steps:
			p.job.Step(e)
		case e := <-p.outputs:
			if e.Agent != "" {
				e = p.conversation()(e)
			}
			p.job.Output(e)
		case past := <-p.pasts:
			p.earlier = past
			p.job = view.Resumed(past.Metrics)
			p.job.Spent, p.job.MaxParallel = past.Spent, past.Slots
			if past.MaxCost != nil {
				p.job.MaxCost = *past.MaxCost
			}
			p.job.PausedBefore(past.Paused, time.Now())
		case n := <-p.notices:
			p.tell(n)
		case now := <-tick.C:
			p.progress(now)
		}
	}
}

// tell prints a notice, and how the job stands if that asks for it.
func (p *printer) tell(n notice) {
	p.above().Foldf(2, "%s", n.text)
	if n.state && p.job.ID != "" {
		p.above().Print(p.lines.StatusLine(p.job, time.Now()))
	}
}

// seeTogether shows records, and the live lines once. What items print goes to where these were, and they come back
// below it at once.
func (p *printer) seeTogether(batch []events.Record) {
	drawn := p.screen.Drawn()
	p.screen.Together(func() { p.see(batch) }, func(width, height int) []string {
		return p.lines.Lines(p.job, time.Now(), width, height)
	})
	if drawn && !p.screen.Drawn() {
		p.progress(time.Now())
	}
}

// see applies records to the view of the job and prints what is of interest. Labels of items are known once the job
// has a directory.
func (p *printer) see(batch []events.Record) {
	for _, r := range batch {
		p.job.Apply(r)
		p.print(r)
	}
	if p.lines.Label == nil && p.screen.Live && p.job.ID != "" {
		p.lines.Label = func(int) string { return "" }
		if job, err := findJob(jobName{id: p.job.ID}); err == nil {
			p.lines.Label = p.con.labelsOfRun(job, p.workflow).Label
		}
	}
}

// progress shows the progress of the job.
func (p *printer) progress(now time.Time) {
	if p.job.ID == "" {
		return
	}
	p.lines.Rate = view.RateHeld(p.job.Rates, now.Sub(time.UnixMilli(p.waited.Load())))
	p.screen.progress(p.lines, p.job, now)
}

// printf prints above the live lines.
func (p *printer) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.screen, format, args...)
}

// print prints one record if it is of interest while the job runs.
func (p *printer) print(r events.Record) {
	switch result, ok := events.ResultOf(r.Event); {
	case !ok:
	case result.How != events.Failed:
		p.itemEnded(result.Index, result.ItemOutput)
	case result.Settles:
		p.itemEnded(result.Index, events.ItemOutput{}) // the failure shows what it printed
	}
	switch e := r.Event.(type) {
	case events.JobStarted:
		p.printf("job %s%s\n", r.JobID, term.Prefixed(": ", e.Workflow))
		p.printsInto(nil)
	case events.JobResumed:
		p.resumed(e)
	case events.ItemsSelected:
		p.selected(e)
	case events.AgentSkipped:
		p.itemEnded(e.ItemIndex, events.ItemOutput{})
	case events.PhaseCompleted:
		if e.Phase == "map" {
			p.closeItems()
		}
		p.printf("%s took %s\n", e.Phase, e.DurationMS)
	case events.StepCompleted:
		if !e.Printed {
			p.result(e.Phase, e.Output)
		}
	case events.StepPrinted:
		p.result(e.Phase, e.Output)
	case events.StepSkipped: // those of items have their own places
		if e.ItemID == "" {
			p.say(r, events.Say(r).Line()+": "+term.Brief(e.When, 160))
		}
	case events.StepRetrying: // which live lines show
		if e.ItemID == "" && !p.screen.Live {
			p.say(r, fmt.Sprintf("%s: %s; retry in %s", events.Say(r).Clause(), view.CauseText(e.ErrorType, e.Error),
				e.DelayMS))
		}
	case events.StepFailed: // the summary has the step that ended its phase
		if e.ItemID == "" && e.Action != string(retry.Stop) {
			p.say(r, fmt.Sprintf("step %s failed: %s; action %s", e.Step, view.CauseText(e.ErrorType, e.Error),
				e.Action))
		}
	case events.AgentFailed: // one that is retried is not printed
		if !e.Action.RunsAgain() && collectionOf(p.workflow) == errorpolicy.Immediate {
			p.log(events.Bad, "%s (action %s)", describe(e, ""), e.Action)
			printEvidence(p.above(), e, p.named())
		}
	case events.ErrorBatch:
		p.batch(e)
	case events.BudgetReached, events.QuotaResumed, events.StartsHeld, events.StartsAllowed, events.PauseRequested, events.ContinueRequested,
		events.DrainRequested, events.CancelRequested, events.ScaleRequested, events.RetryNowRequested,
		events.RolloutStage, events.RolloutHeld,
		events.RetriesHeld, events.RetriesAllowed:
		p.say(r, events.Say(r).Line())
	case events.SkipRequested:
		p.say(r, "item "+e.ItemID+": "+events.Say(r).Line())
	case events.AgentStraggling:
		if p.flood.Admit("stragglers") {
			p.say(r, events.Say(r).Named(e.ItemID))
		}
	case events.CircuitOpen, events.CircuitHalfOpen, events.CircuitClosed:
		p.circuit(r)
	}
}

// say prints a sentence about an event.
func (p *printer) say(r events.Record, text string) {
	p.log(events.Say(r).Grave, "%s", term.Visible(text))
}

// log prints a line with the time and how grave it is, above the live lines.
func (p *printer) log(g events.Grave, format string, args ...any) {
	l, level := p.above(), levels[g]
	l.Foldf(len("15:04:05 WRN "), "%s %s %s", l.Paint(term.Grey, time.Now().Format(time.TimeOnly)),
		l.Paint(level.colour, level.word), term.VisibleLines(fmt.Sprintf(format, args...)))
}

// above returns the printer of lines above the live lines.
func (p *printer) above() term.Lines { return term.Lines{W: p.screen, Look: p.con.errLook()} }

// levels are how grave an event is, as lines show it.
var levels = map[events.Grave]struct {
	word   string
	colour term.Colour
}{
	events.Plain: {"INF", term.Green}, events.Good: {"INF", term.Green},
	events.Odd: {"WRN", term.Yellow}, events.Bad: {"ERR", term.Red},
}

// circuit prints what has happened to a breaker. Of one that has opened it says why, and what becomes of the items
// meanwhile.
func (p *printer) circuit(r events.Record) {
	scope, t, _ := events.Transition(r.Event)
	if t.Key != "" && !p.flood.Admit(transitions[t.To]) {
		return
	}
	text := events.Say(r).Line()
	if b, known := p.job.Breaker(scope, t.Key); known && t.To == limit.Open {
		text += term.Prefixed(", ", p.lines.Meanwhile(p.job, b, r.Time)) + term.Prefixed(": ", view.Opened(b))
	}
	p.say(r, text)
}

// transitions are the words for breakers that got no line of their own.
var transitions = map[limit.BreakerState]string{
	limit.Open: "circuit breakers opened", limit.HalfOpen: "half-open",
	limit.Closed: "closed",
}

// itemEnded prints the output of an item, if outputs are printed and it has one.
func (p *printer) itemEnded(index int, o events.ItemOutput) {
	if p.echo == nil {
		return
	}
	if p.ofCommands {
		p.screen.Clear()
		p.echo.Finished(index)
		return
	}
	place, _ := p.place() // which only the file of a large output needs
	text, err := job.Output(place, o)
	p.screen.Clear()
	if err = errors.Join(err, p.echo.Printed(index, text)); err != nil {
		p.log(events.Bad, "print the output of an item: %v", err)
	}
}

// closeItems prints the output of items that waits for others to end.
func (p *printer) closeItems() {
	if p.echo == nil {
		return
	}
	if err := p.echo.Close(); err != nil && !p.ofCommands { // the run ends with an error of those
		p.log(events.Bad, "print the output of items: %v", err)
	}
}

// resumed prints what a resume found, and what items printed that ended before, as far as that is still to be printed.
func (p *printer) resumed(e events.JobResumed) {
	if e.Reason == events.ForDeadLetters {
		p.printf("job %s: retrying dead letters\n", p.job.ID)
		if p.echo != nil {
			p.echo.Ordered = false // most items do not run
		}
	} else {
		p.printf("resuming job %s: %s\n", p.job.ID, resumedWith(e, p.earlier))
	}
	p.printsInto(func(place jobs.Job) error {
		if e.Reason == events.ForDeadLetters {
			return nil
		}
		p.screen.Clear()
		return p.options.printEnded(p.echo, place)
	})
}

// printsInto makes the echo write down whose output it shows, if the job prints in all its runs, and calls begin.
func (p *printer) printsInto(begin func(jobs.Job) error) {
	if p.echo == nil {
		return
	}
	place, err := p.place()
	if err == nil && (p.options.printsOn || begin == nil) {
		noteShown(p.echo, place)
	}
	if err == nil && begin != nil {
		err = begin(place)
	}
	if err != nil {
		p.log(events.Bad, "print the output of items that ended before: %v", err)
	}
}

// resumedWith describes what a resume has found, as in "812 done, 3 failed, 9 interrupted, restarting, 176 remaining".
func resumedWith(e events.JobResumed, earlier mapreduce.Earlier) string {
	steps := check.Counted(e.StepsDone, "step") + term.Prefixed(" of ", e.Phase) + " done"
	if e.StepsDone == 0 {
		steps = "nothing done yet"
	}
	if e.Completed+e.Pending+e.InFlight == 0 {
		return steps
	}
	m := earlier.Metrics
	failed, left := m.DeadLetters(), len(e.Attached)
	text := strings.Join(check.Said(
		fmt.Sprintf("%d done", max(e.Completed-failed-m.Skipped, 0)),
		check.Some("%d failed", failed),
		check.Some("%d skipped", m.Skipped),
		check.Some("%d still running", left),
		check.Some("%d interrupted, restarting", e.InFlight-left),
		check.Some("%d waiting to merge", earlier.Unmerged),
		check.Some("%d waiting to retry", e.Waiting),
		fmt.Sprintf("%d remaining", max(e.Pending-e.Waiting-earlier.Unmerged, 0)),
	), ", ")
	if e.StepsDone > 0 {
		text += "; " + steps
	}
	return text
}

// selected prints how many items there are, and with --since what has changed. No items is a warning.
func (p *printer) selected(e events.ItemsSelected) {
	if e.TotalItems == 0 {
		p.log(events.Odd, "no items selected; nothing to do")
		return
	}
	p.printf("%s selected\n", check.Counted(e.TotalItems, "item"))
	if e.Since != nil {
		p.printf("since %s: %s\n", e.Since.JobID, term.Visible(view.Difference(*e.Since)))
	}
}

// result prints the output of a step, except in setup.
func (p *printer) result(phase, output string) {
	if phase == "setup" || output == "" {
		return
	}
	p.screen.Clear()
	_, _ = fmt.Fprintln(p.results, output)
}

// batch prints the failures of a full batch, each in a line.
func (p *printer) batch(e events.ErrorBatch) {
	p.log(events.Bad, "%s failed:", check.Counted(e.Size, "item"))
	for _, one := range e.Errors {
		p.printf("  %s (%s): %s\n", one.ItemID, one.ErrorType, term.Brief(one.Error, 160))
	}
	p.printf("    full output of one: prodigy events ls%s %s --event-type AgentFailed --json\n", p.named(),
		quoted(e.Errors[0].ItemID))
}

// Command implements agent.Echo.
func (p *printer) Command(a *agent.Attempt, step string, try int) (stdout, stderr io.Writer) {
	from := term.EchoSource{Item: a.ItemIndex, Attempt: a.Number, Step: step, Try: try}
	if p.options.echo.tag {
		from.Tag = func() string { return tagOf(a.Item, a.Batch) }
	}
	return p.echo.Streams(from)
}

// tagOf returns what begins the lines of an item: the item if it is a text, the items of a batch, else its JSON.
func tagOf(item json.RawMessage, batch bool) string {
	if batch {
		var words []string
		for raw := range rawjson.Elements(item) {
			words = append(words, textOf(raw))
		}
		return term.Visible(strings.Join(words, " "))
	}
	return term.Visible(textOf(item))
}

// textOf returns a JSON string as its text, and any other JSON as it is.
func textOf(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '"' {
		return rawjson.Unquote(raw)
	}
	return string(raw)
}
