package taint

import (
	"slices"
	"strings"
)

const (
	codeReaches     = "PS119"
	codeOutput      = "PS107"
	codePiped       = "PS108"
	codeCommandName = "PS105"
	codeLanguage    = "PS110"
	codeDeep        = "PS028"
)

// sink is a place where something is run that should be data.
type sink struct {
	what   string // the words behind "reaches"
	remedy string
	least  certainty // of the values that are reported
	code   string    // of a warning, whatever the certainty; empty: an error when it is sure
	says   string    // in the place of "reaches" and what
	words  bool      // a word of letters can do harm there
}

const arithmeticRemedy = "assign the value itself, which is checked to be a whole number: n=${...}"

var (
	codeSink  = sink{what: "shell code"}
	nameSink  = sink{what: "a place that names a variable", remedy: "the shell evaluates what it finds there, so choose among constant names with case"}
	arithSink = sink{what: "arithmetic", remedy: arithmeticRemedy, least: likely, words: true} // dash takes (( x )) for a command
)

// leak reports the values in texts that reach a sink.
func (t *analysis) leak(s sink, all ...string) {
	if !t.last {
		return
	}
	for _, m := range t.marksIn(all...) {
		if m.sure >= s.least && (s.words || !m.word) {
			t.report(m, s)
		}
	}
}

func (t *analysis) report(m mark, s sink) {
	src := t.Sources[m.source]
	written, offset := src.Written, src.Offset
	if m.place > 0 {
		written, offset = src.Places[m.place-1].Written, src.Places[m.place-1].Offset
	}
	warning, code, verb, remedy := m.sure < sure, codeReaches, "reaches ", s.remedy
	if warning {
		verb = "may reach "
	}
	if remedy == "" {
		name := strings.Trim(strings.TrimPrefix(written, "$"), "{}")
		remedy = "write ${" + name + "|sh} there, outside the quotes of that code"
		if src.Item {
			remedy = "let that code read the variable itself, within single quotes"
		}
		if m.quoted {
			remedy = "it brings quotes of its own, so let it stand outside those of that code"
		}
	}
	through := ""
	if m.via != "" && "$"+m.via != written && "${"+m.via+"}" != written {
		through = " through $" + m.via
	}
	text := written + " " + verb + s.what + through + "; " + remedy
	switch {
	case s.code != "":
		warning, code = true, s.code
		text = written + through + " " + s.says
	case m.sure == perhaps && s.what != codeSink.what:
	case m.sure == perhaps && m.piped:
		code, text = codePiped, written+" reaches a shell as code through the pipe; write |sh where it stands for one word of that code"
	case m.sure == perhaps:
		code, text = codeOutput, written+" reaches a shell as code through the output of a command"
	}
	if f := (Finding{Offset: offset, Warning: warning, Code: code, Text: text}); !slices.Contains(t.found, f) {
		t.found = append(t.found, f)
	}
}
