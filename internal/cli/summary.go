package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// finishedRun is the result of a run, with what is needed to print its summary.
type finishedRun struct {
	mapreduce.Result
	// stop is the signal that stopped the run, or nil.
	stop *signalError
	// job is what the records of the run amount to. It is nil if nothing was run.
	job *view.Job
	// workflow is nil if it could not be read.
	workflow *workflow.Workflow
	// labels name the items. They are nil if nothing was run.
	labels *items.StoredLabels
}

// outcome is what run --json prints.
type outcome struct {
	JobID string     `json:"job_id"`
	State jobs.State `json:"state"`
	// StateText is the state as people read it, such as "completed with failures".
	StateText string `json:"state_text"`
	// ReduceStale means that items have succeeded since reduce ran.
	ReduceStale bool `json:"reduce_stale,omitempty"`
	// ReduceHeld means that reduce did not run since reduce_when was false.
	ReduceHeld bool                `json:"reduce_held,omitempty"`
	ExitCode   int                 `json:"exit_code"`
	Reason     string              `json:"reason,omitempty"`
	DurationMS events.Millis       `json:"duration_ms"`
	Metrics    errorpolicy.Metrics `json:"metrics"`
	// Events is the directory of the log. DLQ and ResultsFile are files, and empty if there are none.
	Events      string `json:"events"`
	DLQ         string `json:"dlq"`
	ResultsFile string `json:"results_file"`
	// Spent is what AI agents used. It is absent if there were none.
	Spent limit.Total `json:"spent,omitzero"`

	// MergeResult is there with workspaces only.
	*mapreduce.MergeResult
}

// outcome returns what --json prints, with the exit code that the command is about to return.
func (e finishedRun) outcome(code int) outcome {
	return outcome{
		JobID: e.Job.ID, State: e.State, StateText: e.summary().StateShown(),
		ReduceStale: e.ReduceStale, ReduceHeld: e.ReduceHeld, ExitCode: code,
		Reason: e.Reason, DurationMS: events.Millis(e.Duration),
		Metrics: e.Metrics, Events: e.Job.EventsDir(), DLQ: ifThere(e.Job.DLQFile()), ResultsFile: e.Results,
		Spent: e.Spent, MergeResult: e.Merge,
	}
}

// conclude prints how the job ended and returns the exit code as an error.
func (o jobOptions) conclude(con *console, e finishedRun) error {
	return o.printOutcome(con, e, resultCode(e.Result, e.stop, o.partialOK))
}

// printOutcome prints the failures and the summary on stderr, and the outcome on stdout with --json. With --quiet
// people get nothing on success. It returns the exit code as an error.
func (o jobOptions) printOutcome(con *console, e finishedRun, code int) error {
	if !o.quiet || code != exitOK {
		e.printFailures(con)
		for _, line := range adviceOf(e.summary()) {
			con.say().Print(line)
		}
		e.print(con)
	}
	return con.end(code, e.outcome(code))
}

// printFailures prints the failures of this run in groups, the largest first, each with an example, unless they were
// printed as they happened.
func (e finishedRun) printFailures(con *console) {
	if e.job == nil || collectionOf(e.workflow) != errorpolicy.Aggregate {
		return
	}
	f, job := e.job.Failures, named(e.Job.ID)
	rest := f.Ungrouped
	for i, g := range f.Groups() {
		if i >= groupsShown {
			rest += g.Count
			continue
		}
		printGroup(con, g, job, e.labels)
	}
	if rest > 0 {
		con.sayf("and %d more failures with other causes: prodigy dlq list%s", rest, job)
	}
}

// slowEnough is how long an attempt must have taken to be listed among the slowest ones.
const slowEnough = time.Second

// slowestShown is how many attempts the summary lists. Status lists more.
const slowestShown = 3

// printSlowest lists attempts with their durations, the slowest first, as far as they took long enough.
func printSlowest(l term.Lines, list []view.Attempt, label func(index int) string) {
	begin := "slowest:"
	for _, a := range list {
		if a.Duration < slowEnough {
			return
		}
		line := fmt.Sprintf("%s %6s  %s%s%s", begin, duration.Format(a.Duration.Round(10*time.Millisecond)),
			term.Visible(a.ItemID), inBrackets(label(a.Index)), term.Prefixed(" on ", term.Visible(a.Where())))
		l.Foldf(len(begin)+2, "%s", line)
		begin = strings.Repeat(" ", len(begin))
	}
}

// ifThere returns path if the file exists, else "".
func ifThere(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// print prints the summary of a run: how it ended, the counts, where the log is, and what to type next.
func (e finishedRun) print(con *console) {
	l := con.say()
	l.Foldf(2, "%s in %s%s", e.stateShown(l), duration.Format(e.Duration),
		term.Prefixed(": ", strings.Join(e.counts(), ", ")))
	if e.Failure != nil {
		e.printStepFailure(l, *e.Failure)
	} else if e.State != jobs.Completed && e.Reason != "" {
		l.Foldf(2, "reason: %s", term.Distinct(e.Reason))
		if items.Mistaken(e.Cause) {
			fix, _ := mend(e.Job)
			l.Print(fix)
		}
		printAdvice(con, e.Cause)
		if e.Unknown {
			l.Print("the event log cannot be read; progress is unknown")
		}
	}
	if e.ReduceHeld {
		why := e.Reason
		if !strings.Contains(why, "reduce_when") {
			why = reduceHeldText
		}
		l.Foldf(2, "%s", term.Visible(why))
	}
	if e.ReduceStale {
		l.Print(reduceStaleText)
	}
	e.printMerge(l)
	if j := e.job; j != nil {
		if j.Retries > 0 {
			l.Foldf(2, "%s", view.RetryCounts(j, ""))
			if outputs.Any(e.Job.OutputsDir()) {
				l.Printf("    failed tries: prodigy logs%s --failed", named(e.Job.ID))
			}
		}
		if j.Lost > 0 {
			l.Printf("lost (worker gone): %s", check.Counted(j.Lost, "attempt"))
		}
		printSlowest(l, check.First(j.Slowest, slowestShown), e.labels.Label)
	}
	printSpent(l, e.Spent, e.limit())
	l.Printf("job: %s", e.Job.ID)
	if e.Results != "" {
		l.Printf("results: prodigy results%s", named(e.Job.ID))
	}
	con.next(e.next()...)
}

// stateShown returns the state that the run left the job in, coloured.
func (e finishedRun) stateShown(l term.Lines) string {
	return l.Paint(stateColour(e.summary()).Strong(), e.summary().StateShown())
}

// summary returns what says in which state the run left the job.
func (e finishedRun) summary() job.Summary {
	return job.Summary{
		State: e.State, ReduceStale: e.ReduceStale, ReduceHeld: e.ReduceHeld, Metrics: e.Metrics,
	}
}

// stateColour returns the colour of the state of a job: green only when nothing is left to do.
func stateColour(s job.Summary) term.Colour {
	switch s.State {
	case jobs.Completed:
		if s.ReduceStale || s.ReduceHeld || s.Metrics.Unsuccessful() > 0 {
			return term.Yellow
		}
		return term.Green
	case jobs.Failed, jobs.Cancelled, jobs.Killed:
		return term.Red
	case jobs.Stopped:
		return term.Cyan
	}
	return ""
}

// delivered returns the names of the branches that have the result.
func delivered(d events.Delivered) string {
	return strings.Join(check.Said(d.Branch, d.Into), " and ")
}

// printMerge prints what became of the work of a job with workspaces.
func (e finishedRun) printMerge(l term.Lines) {
	m := e.Merge
	if m == nil {
		return
	}
	parts := check.Said(check.Some("%d merged", m.Merged), check.Some("%d unchanged", e.Metrics.Successful-m.Merged),
		check.Some("%d waiting to merge", m.Merging))
	if conflicts := conflictsLeft(e.Job); conflicts > 0 {
		parts = append(parts, fmt.Sprintf("%s (prodigy dlq list%s --type merge_conflict)",
			check.Counted(conflicts, "conflict"), named(e.Job.ID)))
	}
	l.Tell("", strings.Join(parts, ", "))
	switch {
	case m.Branch+m.Into != "":
		l.Printf("result: branch %s", delivered(m.Delivered))
	case m.Head != m.Base:
		l.Printf("result: %s", m.Hidden)
	}
}

// conflictsLeft returns the number of dead letters of a job whose work could not be merged because of a conflict.
func conflictsLeft(place jobs.Job) int {
	n := 0
	letters, _ := dlq.Read(place.DLQFile()) // the commands that read the queue report errors in it
	for _, l := range letters {
		if l.Last().ErrorType == retry.TypeMergeConflict {
			n++
		}
	}
	return n
}

// limit returns the budget of the job in money; 0 if it has none.
func (e finishedRun) limit() limit.USD {
	switch {
	case e.job != nil && e.job.MaxCost > 0:
		return e.job.MaxCost
	case e.workflow != nil && e.workflow.Budget.Job != nil:
		return *e.workflow.Budget.Job
	}
	return 0
}

// printSpent prints what AI agents have used, if there were any.
func printSpent(l term.Lines, t limit.Total, limit limit.USD) {
	if t.Agents == 0 {
		return
	}
	text := "cost: " + t.CostText()
	if limit > 0 {
		text += " of " + limit.String()
	}
	text += " for " + check.Counted(t.Agents, "agent")
	if t.Known() {
		text += inBrackets(t.Doubt())
	}
	if lost := t.InVain(); lost.Cost > 0 {
		text += fmt.Sprintf(", %s of it on %s that failed", lost.CostText(), check.Counted(lost.Agents, "agent"))
	}
	l.Foldf(2, "%s%s", text, term.Prefixed("; ", t.TokensText()))
}

// resumeWithMore returns the command that resumes a job whose budget is spent.
func resumeWithMore(job jobs.Job, spent limit.JobSpent) string {
	if spent.Tokens > 0 {
		return resumeMended(job)
	}
	return resumeCommand(job, " --max-cost "+spent.More().Decimal())
}

// counts returns the numbers of items by outcome, in words, and of those left to do if the job has not completed.
func (e finishedRun) counts() []string {
	m := e.Metrics
	if m.TotalItems == 0 {
		return nil
	}
	done := fmt.Sprintf("%d of %d items succeeded", m.Successful, m.TotalItems)
	if e.job != nil {
		done += check.Some(reusedText, e.job.Reused)
	}
	toGo := m.TotalItems - m.Finished()
	parts := check.Said(done, check.Some("%d failed", m.Failed), check.Some("%d skipped", m.Skipped),
		check.Some("%d rejected", m.Rejected), check.Some("%d remaining", toGo))
	if toGo == 0 && e.State != jobs.Completed && e.job != nil && !e.job.Complete {
		parts = append(parts, "input not fully read")
	}
	return parts
}

// reusedText says how many of the items that succeeded did not run.
const reusedText = " (%d reused, unchanged)"

// next returns the commands to type next.
func (e finishedRun) next() []string {
	if e.Unknown {
		return []string{"prodigy fsck" + named(e.Job.ID)}
	}
	if empty, ok := errors.AsType[*items.EmptyError](e.Cause); ok && empty.Stdin {
		return nil
	}
	if items.Mistaken(e.Cause) { // a mere resume would end in the same way
		_, next := mend(e.Job)
		return next
	}
	if e.Budget != nil {
		return append([]string{resumeWithMore(e.Job, *e.Budget)}, nextCommands(e.Job, true, e.ReduceStale, 0)...)
	}
	commands := nextCommands(e.Job, e.State == jobs.Completed, e.ReduceStale, e.Metrics.Skipped)
	if e.ReduceHeld && !e.ReduceStale { // else it is there
		commands = append(commands, runReduce(e.Job))
	}
	if m := e.Merge; m != nil && m.Branch != "" && m.Into == "" && e.State == jobs.Completed {
		commands = append(commands, "git merge --ff-only "+m.Branch)
	}
	return commands
}

// mend says what to fix of a job whose items could not be selected, and what to type then. A job of map has no workflow
// file that could be fixed: its command is to be typed again.
func mend(job jobs.Job) (fix string, next []string) {
	if meta, err := job.ReadMeta(); err == nil && meta.WorkflowPath == "" {
		return "Fix the command line or its input, and run it again.\n" +
			"Items follow :::, or come from -a FILE, --glob or standard input.", nil
	}
	return "Fix the workflow file or its input first.", []string{resumeMended(job)}
}

// resumeMended returns the command that resumes a job with its workflow file as it is then.
func resumeMended(job jobs.Job) string {
	flag := ""
	if meta, err := job.ReadMeta(); err == nil && meta.WorkflowPath != "" {
		flag = " --workflow " + quoted(meta.WorkflowPath)
	}
	return resumeCommand(job, flag)
}

// reduceHeldText is printed when reduce_when held reduce back.
const reduceHeldText = "reduce did not run: reduce_when was false"

// reduceStaleText is printed when dead letters have succeeded since reduce ran.
const reduceStaleText = "reduce is out of date: items have succeeded since it ran"

// runReduce returns the command that runs reduce over the results of now.
func runReduce(job jobs.Job) string { return retryCommand(job, " --reduce") }

// nextCommands returns the commands to suggest for a job that is not running: resume it unless it has completed or
// cannot, look at its dead letters and retry them, or list the skipped items.
func nextCommands(place jobs.Job, completed, reduceStale bool, skipped int) []string {
	var commands []string
	if reduceStale {
		commands = append(commands, runReduce(place))
	}
	if !completed && !lastOf(place).InputGone {
		commands = append(commands, resumeCommand(place, flagsToResume(place)))
	}
	letters, _ := dlq.Lead(place.DLQFile()) // the commands that read the queue report errors in it
	switch {
	case letters.Several:
		commands = append(commands, "prodigy dlq list"+named(place.ID))
	case letters.First != "":
		commands = append(commands, inspectCommand(letters.First, place.ID))
	case skipped > 0:
		return append(commands, "prodigy results"+named(place.ID)+" --status skipped")
	default:
		return commands
	}
	if letters.Eligible {
		return append(commands, retryCommand(place, ""))
	}
	return append(commands, retryCommand(place, " --force"))
}

// flagsToResume returns the flags without which a job that does not run is not resumed, each after a space.
func flagsToResume(place jobs.Job) string {
	switch last := lastOf(place); {
	case last.State == jobs.Cancelled:
		return " --force"
	case last.Unproven:
		return " --accept"
	}
	return ""
}

// lastOf returns what the last record of a job says, and nothing if that cannot be read: the commands that read more
// report that.
func lastOf(place jobs.Job) job.Last {
	last, _ := job.LastOf(place)
	return last
}

// inspectCommand returns the command that shows a dead letter.
func inspectCommand(letter, jobID string) string {
	return fmt.Sprintf("prodigy dlq inspect%s %s", named(jobID), quoted(letter))
}

// phaseEvidenceLines is how many lines of stderr are printed for a step that failed the job.
const phaseEvidenceLines = 20

// printStepFailure prints the step that failed the job, with the end of its output, and why it was not retried.
func (e finishedRun) printStepFailure(l term.Lines, f agent.Failure) {
	what := term.Brief(f.Message, 300)
	notRetried := ""
	if f.Step != "" && e.job != nil {
		what = "step " + f.Step + term.Prefixed(" of ", e.job.Phase) + " failed: " + what
		for _, s := range e.job.Steps {
			if s.Name == f.Step {
				notRetried = s.GaveUp()
			}
		}
	}
	l.Foldf(2, "%s", what)
	printEnd(l, f.Stderr, f.Stdout, phaseEvidenceLines)
	if f.Step != "" {
		l.Printf("    full output: prodigy logs%s --step %s", named(e.Job.ID), quoted(f.Step))
	}
	l.Tell("    not retried: ", notRetried)
}

// printEnd prints the last lines of stderr, or of stdout if that is all that there is, as of many test runners. It
// reports whether there was any.
func printEnd(l term.Lines, stderr, stdout string, most int) bool {
	lines := term.LastLines(stderr, most)
	if len(lines) == 0 {
		lines = term.LastLines(stdout, most)
	}
	for _, line := range lines {
		l.Foldf(6, "    | %s", term.Brief(line, 200))
	}
	return len(lines) > 0
}

// groupsShown is the number of failure groups in the summary.
const groupsShown = 10

// printGroup prints a group of failures: how many, their cause, and one of them with the end of its stderr. Job is how
// hints name the job.
func printGroup(con *console, g view.FailureGroup, job string, names *items.StoredLabels) {
	l, c := con.say(), term.Red
	if g.Example.Status() == errorpolicy.Skipped {
		c = term.Yellow
	}
	head := l.Paint(c, fmt.Sprintf("%d %s", g.Count, g.Outcome()))
	title := g.Title()
	if g.Type == retry.TypeSkipped {
		title = strings.TrimPrefix(title, "skipped ")
	} else {
		head += fmt.Sprintf(" (%s)", g.Type)
	}
	l.Foldf(2, "%s: %s", head, term.Brief(title, 160))
	if g.Example.ItemID == "" {
		return
	}
	word := ""
	if g.Count > 1 {
		word = "for example "
	}
	e := g.Example.AgentFailed
	l.Foldf(4, "  %s%s", word, describe(e, inBrackets(names.Label(e.ItemIndex))))
	printEvidence(l, e, job)
}

// describe returns one line about a failed item: its step and error. Label is printed behind its id.
func describe(e events.AgentFailed, label string) string {
	text := e.ItemID + label + ": "
	if e.Step != "" {
		text += "step " + e.Step + ": "
	}
	return text + term.Brief(e.Error, 300)
}

// evidenceLines is how many lines of output are printed for a failure.
const evidenceLines = 5

// printEvidence prints the end of what a failed item printed, and the command that shows all of it.
func printEvidence(l term.Lines, e events.AgentFailed, job string) {
	printed := printEnd(l, e.StderrTail, e.StdoutTail, evidenceLines)
	switch {
	case e.Outputs != nil || e.Rejected() && e.Attempt > 0:
		l.Printf("    full output: prodigy logs%s %s", job, quoted(e.ItemID))
	case printed: // the log has its end
		l.Printf("    full output: prodigy events ls%s %s --json", job, quoted(e.ItemID))
	}
}

// adviceOf returns advice for the frequent error types of a job.
func adviceOf(s job.Summary) (list []string) {
	for _, p := range s.Metrics.FailurePatterns {
		if text := suggestions[p.PatternType]; text != "" {
			list = append(list, fmt.Sprintf("%d %s errors: %s", p.Frequency, p.PatternType, text))
		}
	}
	return list
}

// suggestions are what to do about error types that say less than is known of them.
var suggestions = map[retry.Type]string{
	retry.TypeTimeout:    "find out what is slow, or raise the timeout",
	retry.TypePermission: "check the file's owner and mode",
}

// collectionOf returns when the failures of a workflow are printed: in one summary at the end, unless it says
// otherwise.
func collectionOf(w *workflow.Workflow) errorpolicy.CollectionKind {
	if kind := w.ErrorPolicy.ErrorCollection.Kind; kind != "" {
		return kind
	}
	return errorpolicy.Aggregate
}
