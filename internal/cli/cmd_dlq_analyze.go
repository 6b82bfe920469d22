package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

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
	format term.Format
}

// newDLQAnalyzeCommand returns the command that groups dead letters by signature, by type and by hour.
func newDLQAnalyzeCommand(con *console) *cobra.Command {
	var o dlqAnalyzeOptions
	cmd := onJob(&cobra.Command{
		Use:   "analyze [job]",
		Short: "Group dead letters by cause",
	}, func(_ context.Context, job jobs.Job) error { return runDLQAnalyze(con, job, o) })
	addFormat(cmd, &o.format, term.JSON)
	cmd.Flags().StringVar(&o.export, "export", "", "write all groups to this file as JSON (- for stdout)")
	return cmd
}

// analysis is what dlq analyze prints as JSON.
type analysis struct {
	JobID       string      `json:"job_id"`
	Total       int         `json:"total"`
	BySignature []dlq.Group `json:"by_signature"`
	ByType      []typeGroup `json:"by_type"`
	ByHour      []dlq.Group `json:"by_hour"`
}

// typeGroup is a group of dead letters with one error type.
type typeGroup struct {
	dlq.Group
	// SuggestedAction names only settings that the workflow has.
	SuggestedAction string `json:"suggested_action,omitempty"`
}

// runDLQAnalyze prints the groups, or writes them to the file of --export and prints nothing else.
func runDLQAnalyze(con *console, job jobs.Job, o dlqAnalyzeOptions) error {
	updateLetters(con, job)
	a, err := groupLetters(job)
	if err != nil {
		return err
	}
	if o.export != "" {
		if err := writeOut(con, o.export, func(w io.Writer) error { return term.PrintJSON(w, a) }); err != nil || o.export == "-" {
			return err
		}
		con.say().Printf("wrote the groups of job %s to %s", job.ID, o.export)
		return nil
	}
	if o.format == term.JSON {
		return term.PrintJSON(con.out, a)
	}
	return a.print(con)
}

// groupLetters reads all dead letters of a job once and groups them.
func groupLetters(job jobs.Job) (analysis, error) {
	var groups dlq.Analysis
	for e, err := range dlq.Each(job.DLQFile()) {
		if err != nil {
			return analysis{}, err
		}
		groups.Add(e)
	}
	a := analysis{
		JobID: job.ID, Total: groups.Total(), BySignature: groups.BySignature(), ByType: []typeGroup{},
		ByHour: groups.ByHour(),
	}
	w := recordedOrNil(job) // without it there is less advice
	for _, g := range groups.ByType() {
		a.ByType = append(a.ByType, typeGroup{g, suggestion(retry.Type(g.Type), w)})
	}
	return a, nil
}

// signaturesShown is the number of signatures in the human-readable output.
const signaturesShown = 20

// print prints the groups for people. The numbers of the signatures are those that dlq retry --cluster takes.
func (a analysis) print(con *console) error {
	if a.Total == 0 {
		con.say().Printf("No dead letters in job %s.", a.JobID)
		return nil
	}
	l := con.lines()
	l.Printf("%s in job %s\n\nBy signature:", check.Counted(a.Total, "dead letter"), a.JobID)
	for i, g := range a.BySignature[:min(len(a.BySignature), signaturesShown)] {
		l.Foldf(8, "%6d  #%d %s", g.Count, i+1, term.Cell(g.Signature, 120))
		for _, s := range g.Samples {
			l.Foldf(10, "        %s: %s", term.Cell(s.ItemID, 40), term.Cell(s.Message, 120))
		}
	}
	if n := len(a.BySignature) - signaturesShown; n > 0 {
		l.Printf("        and %d more (--json shows all)", n)
	}
	l.Print("\nBy type:")
	types := make([]dlq.Group, len(a.ByType))
	for i, g := range a.ByType {
		types[i] = g.Group
	}
	printGroups(l.W, types, func(g dlq.Group) string { return g.Type })
	for _, g := range a.ByType {
		if g.SuggestedAction != "" {
			l.Printf("%s: %s", g.Type, term.Visible(g.SuggestedAction))
		}
	}
	l.Print("\nBy hour of the last attempt:")
	printGroups(l.W, a.ByHour, func(g dlq.Group) string { return g.Hour.Local().Format("2006-01-02 15:04") })
	first := a.BySignature[0].Samples[0].ItemID
	printNext(con.say(), inspectCommand(first, a.JobID))
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

// newDLQStatsCommand returns the command that counts dead letters.
func newDLQStatsCommand(con *console) *cobra.Command {
	var f term.Format
	cmd := onJob(&cobra.Command{
		Use:    "stats [job]",
		Short:  "Show dead letter counts",
		Hidden: true,
	}, func(_ context.Context, job jobs.Job) error { return runDLQStats(con, job, f) })
	addFormat(cmd, &f, term.JSON)
	return cmd
}

// letterStats is what dlq stats prints as JSON.
type letterStats struct {
	JobID string `json:"job_id"`
	Total int    `json:"total"`
	// Eligible counts those that a retry can help.
	Eligible     int `json:"reprocess_eligible"`
	ManualReview int `json:"manual_review_required"`
	// SentAgain is the number of dead letters that were retried at least once.
	SentAgain int `json:"sent_again"`
	// Failures counts all failed attempts, not only the last ones.
	Failures int         `json:"failures"`
	ByType   []typeCount `json:"by_type"`
	// Oldest and Newest are the times of the last attempts.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
}

// typeCount is the number of dead letters with one error type.
type typeCount struct {
	Type  string `json:"error_type"`
	Count int    `json:"count"`
}

// runDLQStats prints the counts of a job. A job without dead letters has counts of zero.
func runDLQStats(con *console, job jobs.Job, f term.Format) error {
	updateLetters(con, job)
	s := letterStats{JobID: job.ID, ByType: []typeCount{}}
	var groups dlq.Analysis
	for e, err := range dlq.Each(job.DLQFile()) {
		if err != nil {
			return err
		}
		groups.Add(e)
		s.add(e)
	}
	for _, g := range groups.ByType() {
		s.ByType = append(s.ByType, typeCount{g.Type, g.Count})
	}
	if f == term.JSON {
		return term.PrintJSON(con.out, s)
	}
	return s.print(con)
}

// add counts one dead letter.
func (s *letterStats) add(e dlq.Entry) {
	s.Total++
	s.Failures += e.FailureCount
	if e.ReprocessEligible {
		s.Eligible++
	}
	if e.ManualReviewRequired {
		s.ManualReview++
	}
	if e.RetryCount > 0 {
		s.SentAgain++
	}
	at := e.LastAttempt
	if s.Oldest.IsZero() || at.Before(s.Oldest) {
		s.Oldest = at
	}
	if at.After(s.Newest) {
		s.Newest = at
	}
}

// print prints the counts in two columns.
func (s *letterStats) print(con *console) error {
	page := [][2]string{{"job:", s.JobID}, {"dead letters:", strconv.Itoa(s.Total)}}
	if s.Total == 0 {
		return term.Page(con.text(), page)
	}
	page = append(page, [][2]string{
		{"eligible for retry:", strconv.Itoa(s.Eligible)},
		{"need manual review:", strconv.Itoa(s.ManualReview)},
		{"retried before:", strconv.Itoa(s.SentAgain)},
		{"failures:", strconv.Itoa(s.Failures)},
	}...)
	for _, c := range s.ByType {
		page = append(page, [2]string{"of type " + c.Type + ":", strconv.Itoa(c.Count)})
	}
	page = append(page, [][2]string{
		{"oldest:", s.Oldest.Local().Format(time.DateTime)},
		{"newest:", s.Newest.Local().Format(time.DateTime)},
	}...)
	if err := term.Page(con.text(), page); err != nil {
		return err
	}
	printNext(con.say(), "prodigy dlq analyze"+named(s.JobID))
	return nil
}
