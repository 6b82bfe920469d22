package web

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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

	// The status of the items that are shown. It is empty if all are.
	Status string

	// The only item that is shown. It is empty if all are.
	Item string

	// Returns what an item is called besides its id.
	Label func(index int) string

	// The last failures of dead letters, by the id of the item.
	Letters map[string]dlq.Failure
}

// unclean returns what is wrong with the job beside its failed items, in a line. It is empty if the job has come to its
// end.
func (c *CI) unclean() string {
	s := c.Summary
	if c.Item != "" || c.Status != "" {
		return "" // only items were asked for
	}
	switch {
	case s.State != jobs.Completed:
		text := string(s.State) + term.Prefixed(": ", s.Reason)
		if m := s.Metrics; m.TotalItems > 0 {
			text += fmt.Sprintf("; %d of %s have ended", m.Successful+m.Failed+m.Rejected+m.Skipped,
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

// JUnit writes a test case for each row, as they come, and one more with an error for a job that did not come to its
// end: the report of JUnit as Jenkins and GitLab read it, whose elements https://github.com/testmoapp/junitxml lists.
// It does without encoding/xml, which is felt at each start of the program.
func (c *CI) JUnit(w io.Writer) (one func(job.Result) error, end func() error) {
	suite, unclean := xmlText(c.Summary.Workflow), c.unclean()
	begun := false
	begin := func(rows map[string]int) error { // by status
		if begun {
			return nil
		}
		begun = true
		errors := 0
		if unclean != "" {
			errors = 1
		}
		_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="%s" id="%s" tests="%d" failures="%d" errors="%d" skipped="%d" time="%.3f" timestamp="%s">
`, suite, xmlText(c.Summary.Job.ID), rows["success"]+rows["failed"]+rows["skipped"]+errors, rows["failed"], errors,
			rows["skipped"], c.Summary.Duration.Seconds(), c.Summary.Started.UTC().Format(time.RFC3339))
		return err
	}
	m := c.Summary.Metrics
	all := map[string]int{"success": m.Successful, "failed": m.Failed + m.Rejected, "skipped": m.Skipped}
	for status := range all {
		if c.Item != "" || c.Status != "" && c.Status != status {
			delete(all, status)
		}
	}
	return func(row job.Result) error {
			rows := all
			if c.Item != "" {
				rows = map[string]int{row.Status: 1}
			}
			if err := begin(rows); err != nil {
				return err
			}
			end := "/>"
			switch row.Status {
			case "failed":
				message, kind, printed := c.failure(row)
				end = failedCase(message, kind, printed)
			case "skipped":
				end = "><skipped/></testcase>"
			}
			return writeCase(w, c.name(row), suite, time.Duration(row.DurationMS), end)
		}, func() error {
			if err := begin(all); err != nil {
				return err
			}
			if unclean != "" {
				_, err := fmt.Fprintf(w, "    <testcase name=\"job\" classname=\"%s\" time=\"0\">"+
					"<error message=\"%s\" type=\"%s\"></error></testcase>\n", suite, xmlText(unclean), xmlText(string(c.Summary.State)))
				if err != nil {
					return err
				}
			}
			_, err := io.WriteString(w, "  </testsuite>\n</testsuites>\n")
			return err
		}
}

// writeCase writes a test case of a suite. The end of its element is "/>", or has what is to be told of the case.
func writeCase(w io.Writer, name, suite string, took time.Duration, end string) error {
	_, err := fmt.Fprintf(w, "    <testcase name=\"%s\" classname=\"%s\" time=\"%.3f\"%s\n", xmlText(name), suite,
		took.Seconds(), end)
	return err
}

// failedCase returns the end of the element of a test case that has failed.
func failedCase(message, kind, text string) string {
	return fmt.Sprintf("><failure message=\"%s\" type=\"%s\">%s</failure></testcase>", xmlText(message), xmlText(kind),
		xmlText(text))
}

// xmlText returns text for an element or an attribute in double quotes. What XML 1.0 cannot hold becomes U+FFFD.
func xmlText(text string) string {
	var b strings.Builder
	for _, r := range text { // a byte that is not UTF-8 is U+FFFD here
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&quot;")
		case r == '\n', r == '\t', r == '\r':
			fmt.Fprintf(&b, "&#%d;", r)
		case r < ' ', r == 0xFFFE, r == 0xFFFF:
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// maxAnnotations is how many annotations of a kind GitHub shows for a step.
const maxAnnotations = 10

// GitHub writes annotations of GitHub Actions: an error for each of the first failures, and a line about the job, which
// is an error if it did not come to its end.
func (c *CI) GitHub(w io.Writer) (one func(job.Result) error, end func() error) {
	failed, unclean := 0, c.unclean()
	shown := maxAnnotations - 1 // one is left for the others
	if unclean != "" {
		shown--
	}
	escapes := strings.NewReplacer("%", "%25", "\n", "%0A")
	inProperty := strings.NewReplacer(":", "%3A", ",", "%2C")
	text := func(s string) string { return escapes.Replace(withoutControls(s)) }
	property := func(s string) string { return inProperty.Replace(text(s)) }
	return func(row job.Result) error {
			if row.Status != "failed" {
				return nil
			}
			if failed++; failed > shown {
				return nil
			}
			message, _, printed := c.failure(row)
			if printed != "" {
				message += "\n" + printed
			}
			_, err := fmt.Fprintf(w, "::error title=%s::%s\n", property(c.Summary.Workflow+": "+c.name(row)),
				text(message))
			return err
		}, func() error {
			if more := failed - shown; more > 0 {
				if _, err := fmt.Fprintf(w, "::error title=%s::%s more failed: prodigy dlq list --job-id %s\n",
					property(c.Summary.Workflow), check.Counted(more, "item"), c.Summary.Job.ID); err != nil {
					return err
				}
			}
			level, state, m := "notice", string(c.Summary.State), c.Summary.Metrics
			if unclean != "" {
				level, state = "error", unclean
			}
			counts := fmt.Sprintf("%d of %s succeeded, %d failed", m.Successful, check.Counted(m.TotalItems, "item"),
				m.Failed)
			if m.Rejected > 0 {
				counts += fmt.Sprintf(", %d rejected", m.Rejected)
			}
			_, err := fmt.Fprintf(w, "::%s title=%s::%s\n", level, property(c.Summary.Workflow),
				text(fmt.Sprintf("%s: %s, %d skipped", state, counts, m.Skipped)))
			return err
		}
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

// TestCase is how a case of a test file ended.
type TestCase struct {
	File    string
	Name    string
	Line    int
	Wrong   []string // how it differs from what is expected; empty if it passed
	Took    time.Duration
	Virtual time.Duration
}

// WriteTestCases writes the results for CI servers, as results --output junit does.
func WriteTestCases(w io.Writer, all []TestCase) error {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n")
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(r TestCase) bool { return r.File != all[0].File })
		if n < 0 {
			n = len(all)
		}
		failed, took, suite := 0, time.Duration(0), xmlText(all[0].File)
		for _, r := range all[:n] {
			took += r.Took
			if len(r.Wrong) > 0 {
				failed++
			}
		}
		fmt.Fprintf(&b, "  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"0\" skipped=\"0\" time=\"%.3f\">\n",
			suite, n, failed, took.Seconds())
		for _, r := range all[:n] {
			end := "/>"
			if len(r.Wrong) > 0 {
				end = failedCase(r.Wrong[0], "expectation", strings.Join(r.Wrong, "\n"))
			}
			_ = writeCase(&b, r.Name, suite, r.Took, end) // a Builder gives no error
		}
		b.WriteString("  </testsuite>\n")
		all = all[n:]
	}
	b.WriteString("</testsuites>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
