package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/reuse"
	"prodigy/internal/term"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	// all prints all items of each list.
	all bool
	// check (--exit-code) exits with 3 if an item fails that had succeeded.
	check bool
}

// asMarkdown is a table for a comment on a pull request, which only diff has.
const asMarkdown term.Format = "markdown"

// newDiffCommand returns the command that compares two jobs item by item. With --exit-code it exits with 3 if an item
// fails that had succeeded.
func newDiffCommand(con *console) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff <before> [after]",
		Short: "Compare the results of two jobs",
		Long: `Compare the results of two jobs: newly failing, fixed, changed, slower (by more than half and 1s),
added and removed items. The second job defaults to the latest.

Items are matched by id if the jobs have a key, otherwise by their data. With --exit-code, exits
with 3 if an item fails that succeeded before.`,
		Example:           "  prodigy diff mapreduce-20261120-1615\n  prodigy diff mapreduce-20261120-1615 latest --output markdown",
		Args:              afterJob("before"),
		ValidArgsFunction: completeJobs,
	}
	onArgs(con, cmd, o.run)
	addFormat(con, cmd, term.JSON, asMarkdown)
	formerly(cmd, map[string]string{"all": "full"})
	addFlag(cmd, &o.all, "full", "list all items instead of the first few")
	addFlag(cmd, &o.check, "exit-code", "exit with 3 if a previously successful item failed")
	return cmd
}

// run prints the difference of two jobs. Jobs that cannot be compared, such as one without items, are a usage
// error.
func (o *diffOptions) run(_ context.Context, con *console, names []string) error {
	var both [2]jobs.Job
	for i, name := range append(names, "latest")[:2] {
		var err error
		if both[i], err = findJob(jobName{id: name}); err != nil {
			return err
		}
	}
	if both[0].ID == both[1].ID {
		return refusef("both jobs are %s", both[0].ID)
	}
	d, err := reuse.Compared(both[0], both[1])
	if refused, ok := errors.AsType[*job.RefusedError](err); ok {
		return refusef("%s", refused.Reason)
	}
	if err != nil {
		return err
	}
	con.hideSecretsOf(both[1])
	if con.format == term.JSON {
		err = con.printJSON(d)
	} else {
		err = unlessClosed(o.print(con, both, d))
	}
	if err == nil && o.check && len(d.Failing) > 0 {
		err = status(exitLeft)
	}
	return err
}

// diffList is one list of a diff, as it is printed.
type diffList struct {
	name  string
	items []reuse.ItemDiff
	// job is the one that the ids belong to.
	job jobs.Job
}

// diffShown is how many items of a list are printed.
const diffShown = 10

// print prints the counts, and then the first items of each list, as text or as Markdown. The labels of the items hide
// the secrets of the later job.
func (o *diffOptions) print(con *console, both [2]jobs.Job, d reuse.Diff) error {
	var b strings.Builder
	lists := []diffList{ // the worst news first
		{"newly failing", d.Failing, both[1]},
		{"fixed", d.Fixed, both[1]},
		{"changed output", d.Output, both[1]},
		{"slower", d.Slower, both[1]},
		{"new", d.New, both[1]},
		{"gone", d.Gone, both[0]},
	}
	begin, item, marks := "%s:\n", "  %s\n", ""
	if con.format == asMarkdown {
		fmt.Fprintf(&b, "### prodigy diff %s %s\n\n| items | |\n| ---: | --- |\n", d.Before, d.After)
		for _, l := range lists {
			fmt.Fprintf(&b, "| %d | %s |\n", len(l.items), l.name)
		}
		fmt.Fprintf(&b, "| %d | the same |\n", d.Same)
		begin, item, marks = "\n**%s**\n\n", "- %s\n", "\\`*_{}[]<>()#+-.!|~&"
	} else {
		for _, l := range lists {
			b.WriteString(check.Some("%d "+l.name+", ", len(l.items)))
		}
		fmt.Fprintf(&b, "%d the same\n", d.Same)
	}
	for _, l := range lists {
		if len(l.items) == 0 {
			continue
		}
		fmt.Fprintf(&b, begin, l.name)
		names := con.labelsOfRun(l.job, recordedOrNil(l.job))
		for i, d := range l.items {
			if i == diffShown && !o.all {
				fmt.Fprintf(&b, item, fmt.Sprintf("and %d more (use --full)", len(l.items)-i))
				break
			}
			line := term.Visible(d.ItemID) + inBrackets(names.Label(d.Index)) + diffDetail(l, d)
			fmt.Fprintf(&b, item, check.Escape(line, marks))
		}
	}
	_, err := io.WriteString(con.text(), b.String())
	return err
}

// diffDetail returns what is to be known of an item: the failure, the times.
func diffDetail(l diffList, d reuse.ItemDiff) string {
	switch l.name {
	case "newly failing":
		if letter, found, err := dlq.Find(l.job.DLQFile(), d.ItemID); err == nil && found {
			last := letter.Last()
			return fmt.Sprintf(": %s: %s", last.ErrorType, term.Brief(last.Message, diffWidth))
		}
		return ": " + d.After
	case "slower":
		return fmt.Sprintf(": %s, before %s", duration.Milliseconds(d.AfterMS), duration.Milliseconds(d.BeforeMS))
	case "new":
		return ": " + d.After
	case "gone":
		return ": was " + d.Before
	}
	return ""
}

// diffWidth is how many characters of an error stand behind an item.
const diffWidth = 100
