package web

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"
	"unicode"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// CI prints the results of a job in a format that CI servers read.
type CI struct {
	Summary job.Summary

	// Only some items were asked for.
	Part bool

	// Returns what an item is called besides its id.
	Label func(index int) string

	// The last failures of dead letters, by the id of the item.
	Letters map[string]dlq.Failure
}

// unclean returns what is wrong with the job beside its failed items, in a line. It is empty if the job has come to its
// end.
func (c *CI) unclean() string {
	s := c.Summary
	switch {
	case c.Part:
		return ""
	case s.State != jobs.Completed:
		text := string(s.State) + term.Prefixed(": ", s.Reason)
		if m := s.Metrics; m.TotalItems > 0 {
			text += fmt.Sprintf("; %d of %s have ended", m.Finished(),
				check.Counted(m.TotalItems, "item"))
		}
		return text
	case s.ReduceHeld:
		return cmp.Or(s.Reason, "reduce did not run")
	case s.ReduceStale:
		return "reduce is older than the results"
	}
	return ""
}

// name returns what an item is called: its label with its ID, or only that.
func (c *CI) name(row job.Result) string {
	if label := c.Label(row.Index); label != "" && label != row.ItemID {
		return label + " (" + row.ItemID + ")"
	}
	return row.ItemID
}

// failure returns why an item failed, in a line, its type, and the end of what it printed.
func (c *CI) failure(row job.Result) (message, kind, printed string) {
	f, is := c.Letters[row.ItemID]
	if !is {
		if row.ExitCode != nil {
			return "exit code " + strconv.Itoa(*row.ExitCode), "failed", row.Output
		}
		return "failed", "failed", row.Output
	}
	message = f.Message
	if f.Step != "" {
		message = "step " + f.Step + ": " + message
	}
	return message, string(f.ErrorType), strings.Trim(f.StdoutTail+"\n"+f.StderrTail, "\n")
}

// Suite is a suite of test cases in the report of JUnit as Jenkins and GitLab read it, whose elements
// https://github.com/testmoapp/junitxml lists.
type Suite struct {
	Name  string
	Job   string    // its id; empty if the suite is not a job
	Began time.Time // of a job
	Took  time.Duration
	Cases []Case
}

// Case is a test case.
type Case struct {
	Name string
	Took time.Duration

	// The name of the element that says how the case ended: failure, error or skipped. It is empty if it has passed.
	Bad string

	// What a failure or an error says: the message in a line, its type, and all of it.
	Message, Type, Text string
}

// Count returns the number of cases that ended in a way.
func (s Suite) Count(bad string) int {
	n := 0
	for _, c := range s.Cases {
		if c.Bad == bad {
			n++
		}
	}
	return n
}

// junit does without encoding/xml, which is felt at each start of the program.
var junit = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("junit").Funcs(template.FuncMap{"x": xmlText}).Parse(
		`<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
{{range .}}{{$name := x .Name}}  <testsuite name="{{$name}}"
{{- with .Job}} id="{{x .}}"{{end}} tests="{{len .Cases}}" failures="{{.Count "failure"}}" errors="{{.Count "error"}}"
{{- print " " }}skipped="{{.Count "skipped"}}" time="{{printf "%.3f" .Took.Seconds}}"
{{- if .Job}} timestamp="{{.Began.UTC.Format "2006-01-02T15:04:05Z07:00"}}"{{end}}>
{{range .Cases}}    <testcase name="{{x .Name}}" classname="{{$name}}" time="{{printf "%.3f" .Took.Seconds}}"
{{- if not .Bad}}/>{{else if eq .Bad "skipped"}}><skipped/></testcase>{{else -}}
><{{.Bad}} message="{{x .Message}}" type="{{x .Type}}">{{x .Text}}</{{.Bad}}></testcase>{{end}}
{{end}}  </testsuite>
{{end}}</testsuites>
`))
})

// WriteJUnit writes suites for CI servers.
func WriteJUnit(w io.Writer, suites ...Suite) error { return junit().Execute(w, suites) }

// JUnit writes a test case for each row, and one more with an error for a job that did not come to its end.
func (c *CI) JUnit(w io.Writer, rows iter.Seq2[job.Result, error]) error {
	s := Suite{
		Name: c.Summary.Workflow, Job: c.Summary.Job.ID, Began: c.Summary.Started, Took: c.Summary.Duration,
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		one := Case{Name: c.name(row), Took: time.Duration(row.DurationMS)}
		switch row.Status {
		case "failed":
			one.Bad = "failure"
			one.Message, one.Type, one.Text = c.failure(row)
		case "skipped":
			one.Bad = row.Status
		}
		s.Cases = append(s.Cases, one)
	}
	if unclean := c.unclean(); unclean != "" {
		s.Cases = append(s.Cases, Case{Name: "job", Bad: "error", Message: unclean, Type: string(c.Summary.State)})
	}
	return WriteJUnit(w, s)
}

// xmlText returns text for an element or an attribute in double quotes. What XML 1.0 cannot hold becomes U+FFFD.
func xmlText(text string) string {
	text = strings.Map(func(r rune) rune { // a byte that is not UTF-8 is U+FFFD here
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, text)
	return strings.NewReplacer("\n", "&#10;", "\t", "&#9;", "\r", "&#13;").Replace(template.HTMLEscapeString(text))
}

// maxAnnotations is how many annotations of a kind GitHub shows for a step.
const maxAnnotations = 10

// GitHub writes annotations of GitHub Actions: an error for each of the first failures, and a line about the job, which
// is an error if it did not come to its end.
func (c *CI) GitHub(w io.Writer, rows iter.Seq2[job.Result, error]) error {
	inProperty := strings.NewReplacer(":", "%3A", ",", "%2C")
	text := func(s string) string {
		return strings.NewReplacer("%", "%25", "\n", "%0A").Replace(withoutControls(s))
	}
	var b strings.Builder
	say := func(level, title, message string) {
		fmt.Fprintf(&b, "::%s title=%s::%s\n", level, inProperty.Replace(text(title)), text(message))
	}
	s := c.Summary
	failed, unclean := 0, c.unclean()
	shown := maxAnnotations - 1 // one is left for the others
	if unclean != "" {
		shown--
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if row.Status != "failed" {
			continue
		}
		if failed++; failed <= shown {
			message, _, printed := c.failure(row)
			say("error", s.Workflow+": "+c.name(row), message+term.Prefixed("\n", printed))
		}
	}
	if more := failed - shown; more > 0 {
		say("error", s.Workflow, check.Counted(more, "item")+" more failed: prodigy dlq list --job-id "+s.Job.ID)
	}
	level, state, m := "notice", string(s.State), s.Metrics
	if unclean != "" {
		level, state = "error", unclean
	}
	say(level, s.Workflow, fmt.Sprintf("%s: %d of %s succeeded, %d failed%s, %d skipped", state, m.Successful,
		check.Counted(m.TotalItems, "item"), m.Failed, check.Some(", %d rejected", m.Rejected), m.Skipped))
	_, err := io.WriteString(w, b.String())
	return err
}

// withoutControls returns s without control characters but line ends: nobody sees them in an annotation, and a terminal
// would do what they say.
func withoutControls(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
