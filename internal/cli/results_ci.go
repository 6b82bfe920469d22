package cli

import (
	"encoding/json"
	"encoding/xml"
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

// The elements of JUnit's report, as Jenkins and GitLab read it: https://github.com/testmoapp/junitxml lists what is in use.
type junitCase struct {
	XMLName xml.Name      `xml:"testcase"`
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *struct{}     `xml:"skipped"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// junit writes a test case for each row, as they come.
func (c *ciRows) junit(w io.Writer) eventWriter {
	m := c.summary.Metrics
	suite := xml.StartElement{Name: xml.Name{Local: "testsuite"}, Attr: []xml.Attr{
		{Name: xml.Name{Local: "name"}, Value: c.summary.Workflow},
		{Name: xml.Name{Local: "id"}, Value: c.job.ID},
		{Name: xml.Name{Local: "tests"}, Value: strconv.Itoa(m.Successful + m.Failed + m.Skipped)},
		{Name: xml.Name{Local: "failures"}, Value: strconv.Itoa(m.Failed)},
		{Name: xml.Name{Local: "errors"}, Value: "0"},
		{Name: xml.Name{Local: "skipped"}, Value: strconv.Itoa(m.Skipped)},
		{Name: xml.Name{Local: "time"}, Value: strconv.FormatFloat(c.summary.Duration.Seconds(), 'f', 3, 64)},
		{Name: xml.Name{Local: "timestamp"}, Value: c.summary.Started.UTC().Format(time.RFC3339)},
	}}
	suites := xml.StartElement{Name: xml.Name{Local: "testsuites"}}
	_, err := io.WriteString(w, xml.Header)
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	for _, start := range []xml.StartElement{suites, suite} {
		if err == nil {
			err = e.EncodeToken(start)
		}
	}
	return eventWriter{
		one: func(line []byte) error {
			var row resultRow
			if err == nil {
				err = json.Unmarshal(line, &row)
			}
			if err != nil {
				return err
			}
			one := junitCase{Name: c.name(row), Class: c.summary.Workflow, Time: seconds(row.DurationMS)}
			switch row.Status {
			case "failed":
				one.Failure = new(junitFailure)
				one.Failure.Message, one.Failure.Type, one.Failure.Text = c.failure(row)
			case "skipped":
				one.Skipped = &struct{}{}
			}
			return e.Encode(one)
		},
		end: func() error {
			for _, start := range []xml.StartElement{suite, suites} {
				if err == nil {
					err = e.EncodeToken(start.End())
				}
			}
			if err == nil {
				err = e.Close()
			}
			if err == nil {
				_, err = io.WriteString(w, "\n")
			}
			return err
		},
	}
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
