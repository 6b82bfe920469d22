package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/jobs"
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

// dlqAnalyzeOptions are the flags of dlq analyze.
type dlqAnalyzeOptions struct {
	export string
	// counts prints numbers in place of groups.
	counts bool
}

// newDLQAnalyzeCommand returns the command that groups dead letters by signature, by type and by hour.
func newDLQAnalyzeCommand(con *console) *cobra.Command {
	var o dlqAnalyzeOptions
	cmd := onJob(con, &cobra.Command{
		Use:   "analyze [job]",
		Short: "Group dead letters by cause",
	}, o.run)
	addFormat(con, cmd, term.JSON)
	addFlag(cmd, &o.export, "export", "write all groups to this file as JSON (- for stdout)")
	addFlag(cmd, &o.counts, "counts", "only count dead letters")
	cmd.MarkFlagsMutuallyExclusive("counts", "export")
	return cmd
}

// newDLQStatsCommand returns analyze --counts by its former name.
func newDLQStatsCommand(con *console) *cobra.Command {
	o := dlqAnalyzeOptions{counts: true}
	cmd := onJob(con, &cobra.Command{
		Use:    "stats [job]",
		Short:  "Show dead letter counts",
		Hidden: true,
	}, o.run)
	addFormat(con, cmd, term.JSON)
	return cmd
}

// analysis is what dlq analyze prints as JSON.
type analysis struct {
	JobID       string      `json:"job_id"`
	Total       int         `json:"total"`
	BySignature []dlq.Group `json:"by_signature"`
	ByType      []dlq.Group `json:"by_type"`
	ByHour      []dlq.Group `json:"by_hour"`
}

// letterCounts is what dlq analyze --counts prints as JSON.
type letterCounts struct {
	JobID string `json:"job_id"`
	dlq.Counts
}

// run reads all dead letters of a job once and prints their groups, or writes these to the file of --export and
// prints nothing else. A job without dead letters has counts of zero.
func (o *dlqAnalyzeOptions) run(_ context.Context, con *console, job jobs.Job) error {
	updateLetters(con, job)
	var groups dlq.Analysis
	for e, err := range dlq.Each(job.DLQFile()) {
		if err != nil {
			return err
		}
		groups.Add(e)
	}
	counts := letterCounts{job.ID, groups.Counts()}
	switch {
	case o.counts && con.format == term.JSON:
		return con.printJSON(counts)
	case o.counts:
		return counts.print(con)
	}
	a := analysis{
		JobID: job.ID, Total: counts.Total, BySignature: groups.BySignature(), ByType: groups.ByType(),
		ByHour: groups.ByHour(),
	}
	for i := range a.ByType {
		g := &a.ByType[i]
		g.SuggestedAction = suggestions[retry.Type(g.Type)]
	}
	if o.export == "" && con.format != term.JSON {
		return a.print(con)
	}
	err := writeOut(con, cmp.Or(o.export, "-"), func(w io.Writer) error { return term.PrintJSON(w, a) })
	if err == nil && o.export != "" && o.export != "-" {
		con.sayf("wrote the groups of job %s to %s", job.ID, o.export)
	}
	return err
}

// print prints the counts in two columns.
func (c letterCounts) print(con *console) error {
	page := [][]string{{"job:", c.JobID}}
	count := func(name string, n int) { page = append(page, []string{name + ":", strconv.Itoa(n)}) }
	count("dead letters", c.Total)
	if c.Total == 0 {
		return term.Aligned(con.text(), page)
	}
	count("eligible for retry", c.Eligible)
	count("need manual review", c.ManualReview)
	count("retried before", c.SentAgain)
	count("failures", c.Failures)
	for _, t := range c.ByType {
		count("of type "+t.Type, t.Count)
	}
	page = append(page, []string{"oldest:", check.Moment(c.Oldest)},
		[]string{"newest:", check.Moment(c.Newest)})
	if err := term.Aligned(con.text(), page); err != nil {
		return err
	}
	con.next("prodigy dlq analyze" + named(c.JobID))
	return nil
}

// signaturesShown is the number of signatures in the human-readable output.
const signaturesShown = 20

// print prints the groups for people. The numbers of the signatures are those that dlq retry --cluster takes.
func (a analysis) print(con *console) error {
	if a.Total == 0 {
		con.sayf("No dead letters in job %s.", a.JobID)
		return nil
	}
	l := con.lines()
	l.Printf("%s in job %s\n\nBy signature:", check.Counted(a.Total, "dead letter"), a.JobID)
	for i, g := range check.First(a.BySignature, signaturesShown) {
		l.Foldf(8, "%6d  #%d %s", g.Count, i+1, term.Cell(g.Signature, 120))
		for _, s := range g.Samples {
			l.Foldf(10, "        %s: %s", term.Cell(s.ItemID, 40), term.Cell(s.Message, 120))
		}
	}
	l.Tell("", check.Some("        and %d more (--json shows all)", len(a.BySignature)-signaturesShown))
	l.Print("\nBy type:")
	printGroups(l.W, a.ByType, func(g dlq.Group) string { return g.Type })
	for _, g := range a.ByType {
		l.Tell(g.Type+": ", g.SuggestedAction)
	}
	l.Print("\nBy hour of the last attempt:")
	printGroups(l.W, a.ByHour, func(g dlq.Group) string { return g.Hour.Local().Format("2006-01-02 15:04") })
	first := a.BySignature[0].Samples[0].ItemID
	con.next(inspectCommand(first, a.JobID))
	return nil
}

// printGroups prints groups in aligned columns, each with one item as an example.
func printGroups(w io.Writer, groups []dlq.Group, name func(dlq.Group) string) {
	lines := make([][]string, len(groups))
	for i, g := range groups {
		example := term.Cell(g.Samples[0].ItemID, 40)
		lines[i] = []string{
			fmt.Sprintf("%6d", g.Count), name(g), fmt.Sprintf("%d eligible", g.Eligible),
			"as in " + example,
		}
	}
	_ = term.Aligned(w, lines) // like the lines around it
}
