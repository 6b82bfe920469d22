package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/rawjson"
	"prodigy/internal/term"
)

// EventLine is one line of the log. It keeps all fields in their order, whatever their names, so that events
// of other versions of prodigy can be shown too.
type EventLine struct {
	Seq           int64        `json:"seq"`
	Time          time.Time    `json:"time"`
	JobID         string       `json:"job_id"`
	CorrelationID string       `json:"correlation_id"`
	Type          string       `json:"type"`
	fields        []eventField // besides those that every event has
}

// fieldsExpected is the initial capacity for fields.
const fieldsExpected = 10

// ReadEvent reads a line of the log.
func ReadEvent(line []byte) (e EventLine, err error) {
	fields, err := fieldsOf(line)
	if err != nil {
		return e, fmt.Errorf("read an event: %w", err)
	}
	for _, f := range fields {
		if err := e.take(f); err != nil {
			return e, fmt.Errorf("read an event: %s: %w", f.name, err)
		}
	}
	return e, nil
}

// take stores a field.
func (e *EventLine) take(f eventField) error {
	switch f.name {
	case "seq":
		var err error
		e.Seq, err = strconv.ParseInt(string(f.value), 10, 64)
		return err
	case "time":
		return e.Time.UnmarshalJSON(f.value)
	case "crc": // of the line, for programs
	case "job_id":
		e.JobID = f.text()
	case "correlation_id":
		e.CorrelationID = f.text()
	case "type":
		e.Type = f.text()
	default:
		e.fields = append(e.fields, f)
	}
	return nil
}

// Text returns a field as text, or "" when there is none.
func (e EventLine) Text(name string) string {
	for _, f := range e.fields {
		if f.name == name {
			return f.text()
		}
	}
	return ""
}

// Rest returns the fields except those left out, as one JSON object.
func (e EventLine) Rest(leaveOut ...string) string {
	var b strings.Builder
	for _, f := range e.fields {
		if slices.Contains(leaveOut, f.name) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%q:%s", f.name, f.value)
	}
	return "{" + b.String() + "}"
}

// labelInLine is how many characters of a label a line shows.
const labelInLine = 60

// valueShown is how many characters of a field a line shows.
const valueShown = 120

// leftOut are fields that add nothing for people; the other formats have them.
var leftOut = strings.Fields(`item_index step_index agent_id error_signature captured stdout_tail computed_delay_ms
	waited_ms retry outputs budget_expires_at seed`)

// graveColours are the colours of events, by how much they should worry people.
var graveColours = map[events.Grave]term.Colour{events.Good: term.Green, events.Odd: term.Yellow, events.Bad: term.Red}

// PrintEvent prints an event as one line, its type as it is in the log, its fields as people read them.
func PrintEvent(w io.Writer, line []byte, k term.Look, labels func(index int) string) error {
	e, err := ReadEvent(line)
	if err != nil {
		return err
	}
	var b strings.Builder
	at := "2006-01-02 15:04:05.000"
	if k.IsNarrow() {
		at = "15:04:05"
	}
	fmt.Fprintf(&b, "%6d  %s  %-19s", e.Seq, e.Time.Local().Format(at), e.Type)
	for _, f := range e.fields {
		if !slices.Contains(leftOut, f.name) && !e.said(f) {
			b.WriteString(f.words())
		}
		if f.name == "item_id" && labels != nil {
			b.WriteString(e.label(labels))
		}
	}
	var c term.Colour
	if k.Colours {
		if r, err := events.Decode(line); err == nil { // one that this version cannot read has no colour
			c = graveColours[events.Say(r).Grave]
		}
	}
	_, err = fmt.Fprintln(w, k.Line(c, strings.TrimRight(b.String(), " ")))
	return err
}

// label returns " label=value" for the item of an event that has its index, or "".
func (e EventLine) label(of func(index int) string) string {
	index, err := strconv.Atoi(e.Text("item_index"))
	if err != nil || of(index) == "" {
		return ""
	}
	return " label=" + inQuotes(term.Ellipsis(of(index), labelInLine))
}

// said reports whether the error of the event already contains the value of f.
func (e EventLine) said(f eventField) bool {
	switch f.name {
	case "output":
		return e.Text("error") != ""
	case "stderr_tail":
		lines := term.LastLines(f.text(), 1)
		return len(lines) == 0 || strings.Contains(e.Text("error"), strings.TrimSpace(lines[0]))
	}
	return false
}

// words returns " name=value", or "" if the value is empty.
func (f eventField) words() string {
	if f.name == "metrics" {
		return f.metrics()
	}
	if f.name == "stderr_tail" {
		return " stderr=" + inQuotes(strings.Join(term.LastLines(f.text(), 1), ""))
	}
	if name, ok := strings.CutSuffix(f.name, "_ms"); ok {
		var ms events.Millis
		if ms.UnmarshalJSON(f.value) == nil {
			return " " + name + "=" + duration.Format(time.Duration(ms))
		}
	}
	if f.value[0] != '"' {
		return " " + f.name + "=" + term.Brief(f.text(), valueShown)
	}
	text := f.text()
	if text == "" {
		return ""
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		text = t.Local().Format("15:04:05.000")
	}
	return " " + f.name + "=" + inQuotes(text)
}

// metrics returns the counts that are not zero.
func (f eventField) metrics() string {
	var m errorpolicy.Metrics
	if json.Unmarshal(f.value, &m) != nil {
		return " metrics=?"
	}
	var b strings.Builder
	fmt.Fprintf(&b, " items=%d", m.TotalItems)
	for name, n := range check.ByKey(map[string]int{
		"failed": m.Failed, "rejected": m.Rejected, "skipped": m.Skipped, "successful": m.Successful,
	}) {
		b.WriteString(check.Some(" "+name+"=%d", n))
	}
	for t, n := range check.ByKey(m.ErrorTypes) {
		fmt.Fprintf(&b, " %s=%d", t, n)
	}
	return b.String()
}

// inQuotes returns s as one line of bounded length, quoted if it is empty or contains blanks.
func inQuotes(s string) string {
	value := term.Ellipsis(term.Joined(s), valueShown)
	if value == "" || strings.ContainsAny(value, " \t\"\ufffd") {
		return `"` + value + `"`
	}
	return value
}

// eventField is a key of an event and its value, as they stand in the line.
type eventField struct {
	name  string
	value json.RawMessage
}

func (f eventField) text() string { return rawjson.Text(f.value) }

// fieldsOf returns the fields of a JSON object in their order. It returns an error if object is not valid.
func fieldsOf(object []byte) ([]eventField, error) {
	if !json.Valid(object) {
		return nil, json.Unmarshal(object, new(json.RawMessage)) // returns the syntax error
	}
	object = bytes.TrimSpace(object)
	if object[0] != '{' {
		return nil, errors.New("the line is no object")
	}
	fields := make([]eventField, 0, fieldsExpected)
	for name, value := range rawjson.Members(bytes.Clone(object)) {
		fields = append(fields, eventField{rawjson.Text(name), value})
	}
	return fields, nil
}
