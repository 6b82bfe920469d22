package shell

import (
	"slices"
	"strings"
)

// Finding is a value that is run.
type Finding struct {
	Offset  int
	Warning bool // it may be run; else it surely is
	Code    string
	Text    string
}

const (
	codeReaches     = "PS119"
	codeOutput      = "PS107"
	codePiped       = "PS108"
	codeCommandName = "PS105"
	codeLanguage    = "PS110"
)

// sink is a place where something is run that should be data.
type sink struct {
	what   string // the words behind "reaches"
	remedy string
	code   string // of a warning, however sure it is; an error has none
	says   string // in the place of "reaches" and what
	words  bool   // JSON, which is not a word, does nothing there
}

const numberRemedy = "assign the value itself, which is checked to be an integer: n=${...}"

var (
	codeSink    = sink{what: "shell code"}
	commandSink = sink{
		what:   "a command position",
		remedy: "use |raw if the value is meant to be code, or quotes if it is meant to name a program",
	}
	programSink = sink{
		code:  codeCommandName,
		says:  "is used as the command name; its author could run any program",
		words: true,
	}
	scriptSink = sink{
		code: codeCommandName,
		says: "selects the script a shell runs; its author could run any code",
	}
	nameSink = sink{
		what:   "a variable name",
		remedy: "the shell evaluates it, so choose among constant names with case", words: true,
	}
	arithmeticSink = sink{what: "arithmetic", remedy: numberRemedy, words: true}
	subscriptSink  = sink{what: "arithmetic", remedy: numberRemedy} // some shells expand it again
)

// leak reports values that reach a sink. What a program may print is reported as code only, and JSON is no
// number and no name.
func (c *codeCheck) leak(s sink, flows []flow) {
	if !c.reporting {
		return
	}
	for _, f := range flows {
		src := &c.values[f.value]
		switch {
		case f.certainty == perhaps && s.what != codeSink.what && s.code == "":
		case src.JSON && s.words:
		default:
			if found := s.finding(src, f); !slices.Contains(c.found, found) {
				c.found = append(c.found, found)
			}
		}
	}
}

func (s sink) finding(src *Value, f flow) Finding {
	written, through := src.Written, ""
	if f.via != "" && "$"+f.via != written && "${"+f.via+"}" != written {
		through = " through $" + f.via
	}
	found := Finding{Offset: src.Offset, Warning: f.certainty != sure, Code: codeReaches}
	switch {
	case s.code != "":
		found.Warning, found.Code, found.Text = true, s.code, written+through+" "+s.says
	case f.certainty == perhaps && f.piped:
		found.Code = codePiped
		found.Text = written + " reaches a shell as code through a pipe; " +
			"use |sh where it is one word of that code"
	case f.certainty == perhaps:
		found.Code, found.Text = codeOutput, written+" reaches a shell as code through a command's output"
	default:
		verb := " reaches "
		if found.Warning {
			verb = " may reach "
		}
		found.Text = written + verb + s.what + through + "; " + s.remedyFor(src, written)
	}
	return found
}

func (s sink) remedyFor(src *Value, written string) string {
	switch {
	case s.remedy != "":
		return s.remedy
	case src.Item:
		return "let that code read the variable itself, in single quotes"
	}
	name, _, _ := strings.Cut(strings.Trim(strings.TrimPrefix(written, "$"), "{}"), ":-")
	return "use ${" + name + "|sh} there, outside the quotes of that code"
}
