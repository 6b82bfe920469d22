package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/outputs"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

// newWhyCommand returns the command that tells the story of an item.
func newWhyCommand(con *console) *cobra.Command {
	cmd := onItem(con, &cobra.Command{
		Use:   "why [job] <item>",
		Short: "Explain what happened to an item",
		Long: "Explain what happened to an item, in order: attempts, failures, matched rules, delays, policy " +
			"decisions, resumes and current status.",
		Example:           "  prodigy why item_17\n  prodigy why mapreduce-20261120-1615 item_17",
		ValidArgsFunction: completeWhy,
	}, explainTo)
	addFormat(con, cmd, term.JSON)
	return cmd
}

// explained is an explanation with the data of the item.
type explained struct {
	view.Explanation
	Label string `json:"label,omitempty"`
	// Item is the data of the item, with its secrets masked once it is printed.
	Item json.RawMessage `json:"item,omitempty"`
	// From are the items of other jobs that this one is made from, those of the nearest job first.
	From []madeFrom `json:"from,omitempty"`

	// more is the number of items of the nearest job that are not in From.
	more int
}

// madeFrom is an item of another job whose result an item is made from.
type madeFrom struct {
	JobID    string `json:"job_id"`
	Workflow string `json:"workflow,omitempty"`
	ItemID   string `json:"item_id"`
	// Now says how the item ended.
	Now string `json:"now,omitempty"`
	// Gone says why nothing is known of the item.
	Gone string `json:"gone,omitempty"`
}

// explainTo explains one item, and prints the command to type next. An unknown item is a usage error.
func explainTo(_ context.Context, con *console, job jobs.Job, itemID string) error {
	e, err := explanationOf(job, itemID, originsShown)
	if err != nil {
		return err
	}
	e.addPrinted(job)
	con.hideSecretsOf(job)
	e.Item = con.secrets.item(e.Item)
	e.Label = labelsOf(job).label(e.ItemID, e.Item)
	if con.format == term.JSON {
		return con.printJSON(e)
	}
	e.print(con.lines())
	e.printFrom(con.lines())
	con.next(e.next(job)...)
	return nil
}

// explanationOf reads the log for what happened to an item, and so many of the items of other jobs that it is made from,
// each of these with one that it is made from itself. Without the workflow the explanation has fewer reasons.
func explanationOf(job jobs.Job, itemID string, origins int) (explained, error) {
	w := recordedOrNil(job) // without it, the explanation has fewer reasons
	it, found, err := recordedItem(job, itemID)
	if err != nil {
		return explained{}, err
	}
	runs := job.Running()
	explanation, err := view.Explain(
		events.About(job.EventsDir(), itemID), itemID, mapreduce.BreakerKey(w, itemID, it.Data), w, runs,
	)
	switch {
	case err != nil:
		return explained{}, err
	case !found && explanation.Status == view.Unseen:
		return explained{}, noItem(job, itemID)
	}
	explanation.JobID = job.ID
	e := explained{Explanation: explanation, Item: it.Shown()}
	e.follow(job, it.From, origins)
	return e, nil
}

// originsShown is the number of items of a batch that are followed back through the jobs that they are made from.
const originsShown = 5

// follow adds the first of the items of another job that an item is made from, each with what that is made from.
func (e *explained) follow(job jobs.Job, from []string, most int) {
	meta, err := job.ReadMeta()
	if err != nil || meta.Input == nil {
		return
	}
	e.more = max(0, len(from)-most)
	for _, itemID := range check.First(from, most) {
		made := madeFrom{JobID: meta.Input.JobID, ItemID: itemID}
		var origin explained
		if place, err := findJob(jobName{id: made.JobID, all: true}); err != nil {
			made.Gone = "the job was removed"
		} else if origin, err = explanationOf(place, itemID, 1); err != nil {
			made.Gone = err.Error()
		} else {
			meta, _ := place.ReadMeta() // it was explained by that
			made.Workflow, made.Now = meta.Workflow, origin.Now
		}
		e.From = append(append(e.From, made), origin.From...)
	}
}

// printFrom prints what the item is made from, and the commands that explain the items there.
func (e explained) printFrom(l term.Lines) {
	for _, from := range e.From {
		line := fmt.Sprintf("created from item %s of job %s", term.Visible(from.ItemID), from.JobID)
		switch {
		case from.Gone != "":
			line += ": " + term.Visible(from.Gone)
		default:
			line += fmt.Sprintf(" (%s): %s; more: prodigy why %s %s", term.Visible(from.Workflow),
				term.Visible(from.Now), from.JobID, quoted(from.ItemID))
		}
		l.Foldf(2, "%s", line)
	}
	if e.more > 0 {
		l.Printf("and from %s more of that job", check.Counted(e.more, "item"))
	}
}

// addPrinted adds the end of what the steps of each attempt have printed.
func (e explained) addPrinted(job jobs.Job) {
	render := conversations(job)
	for i := range e.Entries {
		if entry := &e.Entries[i]; entry.Outputs != nil {
			q := outputs.Query{ItemID: e.ItemID, Attempt: entry.Attempt, Span: *entry.Outputs, Render: render}
			tail := outputs.LastLines(job.OutputsDir(), q, linesInWhy)
			entry.Printed = &tail
		}
	}
}

// linesInWhy is how many lines of the output of an attempt why shows.
const linesInWhy = 5

// recordedItem returns an item of a job. It reports false if the job has no items, or none with that id.
func recordedItem(job jobs.Job, itemID string) (items.Item, bool, error) {
	store, err := items.OpenStore(job.ItemsFile())
	if errors.Is(err, os.ErrNotExist) {
		return items.Item{}, false, nil // a standard job has no items; the log explains it
	}
	if err != nil {
		return items.Item{}, false, err
	}
	defer check.Quietly(store.Close)
	return store.Find(itemID)
}

// print prints the events of an item in order, each with its reasons and the end of what was printed then.
func (e explained) print(l term.Lines) {
	label := ""
	if len(e.Item) > 0 && e.Item[0] == '{' { // else the data says as much
		label = inBrackets(e.Label)
	}
	l.Foldf(2, "item %s%s of job %s%s", term.Visible(e.ItemID), label, e.JobID,
		term.Prefixed(": ", term.Brief(string(e.Item), dataShown)))
	for _, c := range e.Entries {
		l.Foldf(underTime, "%s", c.Time.Local().Format("2006-01-02 15:04:05.000")+"  "+term.Visible(c.Text))
		for _, why := range c.Why {
			l.Foldf(underTime+2, "%*s%s", underTime+2, "", term.Visible(why))
		}
		if c.Printed != nil {
			e.printOutput(l, c)
		}
	}
	l.Printf("now: %s", e.Now)
}

// underTime is where texts begin behind the time of an entry.
const underTime = len("2006-01-02 15:04:05.000  ")

// printOutput prints the end of what an attempt has printed, and the command that shows all of it.
func (e explained) printOutput(l term.Lines, c view.Entry) {
	for _, line := range c.Printed.Lines {
		mark := "|"
		if line.Stderr {
			mark = "!"
		}
		l.Foldf(underTime+4, "%*s%s %s %s", underTime+2, "", term.Visible(line.Step), mark, term.Brief(line.Text, 200))
	}
	if n := c.Printed.Before; n > 0 {
		l.Printf("%25s  (%s before: prodigy logs%s %s --attempt %d)", "", check.Counted(n, "line"),
			named(e.JobID), quoted(e.ItemID), c.Attempt)
	}
}

// next returns the commands to suggest for the status of the item.
func (e explained) next(job jobs.Job) []string {
	switch e.Status {
	case view.DeadLetter, view.Rejected:
		commands := []string{inspectCommand(e.ItemID, job.ID)}
		if letter, found, err := dlq.Find(job.DLQFile(), e.ItemID); err == nil && found {
			commands = append(commands, sendAgain(job, letter))
		}
		return commands
	case view.Unseen, view.Pending, view.Waiting, view.InFlight, view.Merging:
		switch {
		case job.Running():
		case e.Budget != nil:
			return []string{resumeWithMore(job, *e.Budget)}
		default:
			return []string{resumeCommand(job, flagsToResume(job))}
		}
	}
	return nil
}
