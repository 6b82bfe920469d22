package template

import (
	"fmt"
	"strings"
)

// Severity of a Diag.
type Severity int

// The severities, the mildest first.
const (
	Info Severity = iota
	Warning
	Error
)

// Diag is a finding about the text of a step, at a byte offset and line:col (from 1) of that text.
type Diag struct {
	Code     string // PS001 ...
	Severity Severity
	Offset   int
	Line     int
	Col      int
	Text     string
}

func (d Diag) String() string { return fmt.Sprintf("%d:%d: %s %s", d.Line, d.Col, d.Code, d.Text) }

// CompileError holds all the error diagnoses of a text.
type CompileError struct {
	Diags []Diag
}

func (e *CompileError) Error() string {
	lines := make([]string, len(e.Diags))
	for i, d := range e.Diags {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// BindError is the error of a Bind: a missing value, a value that is not a whole number in arithmetic, a NUL, ...
type BindError struct {
	Placeholder string // as written
	Text        string // what is wrong with it, for people; holds the placeholder
	Missing     bool   // it has no value
}

func (e *BindError) Error() string { return e.Text }

// finding is what a rule says about a placeholder before its position is known. The zero finding says nothing.
type finding struct {
	code, text string
}

func newDiag(src string, offset int, severity Severity, f finding) Diag {
	offset = min(max(offset, 0), len(src))
	before := src[:offset]
	return Diag{
		Code: f.code, Severity: severity, Offset: offset, Text: f.text,
		Line: 1 + strings.Count(before, "\n"),
		Col:  offset - strings.LastIndexByte(before, '\n'),
	}
}
