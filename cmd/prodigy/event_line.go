package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// eventLine is a line of the log as people read it: its fields are kept in the order of the log, whatever their names, so
// that events of other versions of prodigy are shown too.
type eventLine struct {
	Seq           int64     `json:"seq"`
	Time          time.Time `json:"time"`
	JobID         string    `json:"job_id"`
	CorrelationID string    `json:"correlation_id"`
	Type          string    `json:"type"`
	fields        []eventField
}

type eventField struct {
	name  string
	value json.RawMessage
}

// envelope are the keys that every event has.
var envelope = []string{"seq", "time", "job_id", "correlation_id", "type"}

func readEvent(line []byte) (eventLine, error) {
	var e eventLine
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("read an event: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if _, err := dec.Token(); err != nil {
		return e, fmt.Errorf("read an event: %w", err)
	}
	for dec.More() {
		var f eventField
		key, err := dec.Token()
		if err == nil {
			err = dec.Decode(&f.value)
		}
		if err != nil {
			return e, fmt.Errorf("read an event: %w", err)
		}
		if f.name = key.(string); !slices.Contains(envelope, f.name) {
			e.fields = append(e.fields, f)
		}
	}
	return e, nil
}

// text returns the field as text, or "" when there is none.
func (e eventLine) text(name string) string {
	for _, f := range e.fields {
		if f.name == name {
			return f.text()
		}
	}
	return ""
}

// text returns a string without its quotes, and anything else as it is written.
func (f eventField) text() string {
	var s string
	if json.Unmarshal(f.value, &s) == nil {
		return s
	}
	return string(f.value)
}

// rest returns the fields but for those left out, as one JSON object.
func (e eventLine) rest(leaveOut ...string) string {
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

// valueShown is how much of a field a line shows.
const valueShown = 120

// printEvent prints an event as one line, its type as it is in the log.
func printEvent(w io.Writer, line []byte) error {
	e, err := readEvent(line)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%6d  %s  %-19s", e.Seq, e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Type)
	for _, f := range e.fields {
		value := shorten(visible(f.text()), valueShown)
		if strings.ContainsAny(value, " \t\ufffd") && f.value[0] == '"' {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&b, " %s=%s", f.name, value)
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	return err
}

func trimNewline(line []byte) []byte { return bytes.TrimRight(line, "\n") }
