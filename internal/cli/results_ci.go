package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"prodigy/internal/dlq"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// Formats of results that CI servers read.
const (
	asJUnit  format = "junit"
	asGitHub format = "github"
)

// ciRows is what the formats for CI servers need besides the rows.
type ciRows struct {
	job     jobs.Job
	names   *storedLabels
	summary mapreduce.Summary
	letters map[string]dlq.Failure // the last failures of dead letters, by item
}

// ciWriter returns the writer of such a format. done must be called when all is written.
func (o resultsOptions) ciWriter(job jobs.Job, w io.Writer) (rows eventWriter, done func() error, err error) {
	c := &ciRows{job: job, names: labelsInStore(job), letters: map[string]dlq.Failure{}}
	if c.summary, err = mapreduce.Summarize(job); err != nil {
		return eventWriter{}, nil, err
	}
	for e, err := range dlq.Each(job.DLQFile()) {
		if err != nil {
			return eventWriter{}, nil, err
		}
		c.letters[e.ItemID] = e.Last()
	}
	if o.format == asGitHub {
		return c.github(w), c.names.Close, nil
	}
	return c.junit(w), c.names.Close, nil
}

// name returns what an item is called: its label with its ID, or only that.
func (c *ciRows) name(row resultRow) string {
	if label := c.names.Label(row.Index); label != "" && label != row.ItemID {
		return label + " (" + row.ItemID + ")"
	}
	return row.ItemID
}

// failure returns why an item failed, in a line, its type, and the end of what it printed.
func (c *ciRows) failure(row resultRow) (message, kind, printed string) {
	f, is := c.letters[row.ItemID]
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

func seconds(ms json.Number) string {
	v, err := ms.Float64()
	if err != nil {
		return "0"
	}
	return strconv.FormatFloat(v/1000, 'f', 3, 64)
}

// junit writes a test case for each row, as they come: the report of JUnit as Jenkins and GitLab read it, whose elements
// https://github.com/testmoapp/junitxml lists. It does without encoding/xml, which is felt at each start of the program.
func (c *ciRows) junit(w io.Writer) eventWriter {
	m, suite := c.summary.Metrics, xmlText(c.summary.Workflow)
	_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="%s" id="%s" tests="%d" failures="%d" errors="0" skipped="%d" time="%.3f" timestamp="%s">
`, suite, xmlText(c.job.ID), m.Successful+m.Failed+m.Skipped, m.Failed, m.Skipped, c.summary.Duration.Seconds(), c.summary.Started.UTC().Format(time.RFC3339))
	return eventWriter{
		one: func(line []byte) error {
			var row resultRow
			if err == nil {
				err = json.Unmarshal(line, &row)
			}
			if err != nil {
				return err
			}
			end := "/>"
			switch row.Status {
			case "failed":
				message, kind, printed := c.failure(row)
				end = fmt.Sprintf("><failure message=\"%s\" type=\"%s\">%s</failure></testcase>", xmlText(message), xmlText(kind), xmlText(printed))
			case "skipped":
				end = "><skipped/></testcase>"
			}
			_, err := fmt.Fprintf(w, "    <testcase name=\"%s\" classname=\"%s\" time=\"%s\"%s\n", xmlText(c.name(row)), suite, seconds(row.DurationMS), end)
			return err
		},
		end: func() error {
			if err == nil {
				_, err = io.WriteString(w, "  </testsuite>\n</testsuites>\n")
			}
			return err
		},
	}
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

// github writes annotations of GitHub Actions: an error for each of the first failures, and a line about the job.
func (c *ciRows) github(w io.Writer) eventWriter {
	failed := 0
	escapes := strings.NewReplacer("%", "%25", "\n", "%0A")
	inProperty := strings.NewReplacer(":", "%3A", ",", "%2C")
	text := func(s string) string { return escapes.Replace(withoutControls(s)) }
	property := func(s string) string { return inProperty.Replace(text(s)) }
	return eventWriter{
		one: func(line []byte) error {
			var row resultRow
			if err := json.Unmarshal(line, &row); err != nil || row.Status != "failed" {
				return err
			}
			if failed++; failed > maxAnnotations-1 {
				return nil // one is left for the others
			}
			message, _, printed := c.failure(row)
			if printed != "" {
				message += "\n" + printed
			}
			_, err := fmt.Fprintf(w, "::error title=%s::%s\n", property(c.summary.Workflow+": "+c.name(row)), text(message))
			return err
		},
		end: func() error {
			if more := failed - (maxAnnotations - 1); more > 0 {
				if _, err := fmt.Fprintf(w, "::error title=%s::%s more failed: prodigy dlq list --job-id %s\n", property(c.summary.Workflow), counted(more, "item"), c.job.ID); err != nil {
					return err
				}
			}
			m := c.summary.Metrics
			_, err := fmt.Fprintf(w, "::notice title=%s::%s\n", property(c.summary.Workflow),
				text(fmt.Sprintf("%s: %d of %s succeeded, %d failed, %d skipped", c.summary.State, m.Successful, counted(m.TotalItems, "item"), m.Failed, m.Skipped)))
			return err
		},
	}
}

// withoutControls returns s without control characters but line ends: nobody sees them in an annotation, and a terminal would do what they say.
func withoutControls(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
