package shell

import (
	"slices"
	"strings"
)

// Finding is a value that is run.
type Finding struct {
	// Offset is that of the value in the text as written, in bytes: Value.Offset.
	Offset int

	// Warning reports whether the value may be run. Otherwise it surely is, and the finding is an error.
	Warning bool

	// Code names the kind of finding for users, such as PS119.
	Code string

	// Text is the message. It begins with the value as written and ends with what to write instead.
	Text string
}

// The codes of what CheckValues finds. docs/interpolation.md has an example of each.
const (
	codeReaches     = "PS119" // a value is run
	codeOutput      = "PS107" // the output of a command, which may hold a value, is run
	codePiped       = "PS108" // the same, of the code that a shell reads
	codeCommandName = "PS105" // a value chooses the program or the script that is run
	codeLanguage    = "PS110" // a value stands in code of another language
)

// sink is a place where something is run that should be data. Its finding is an error where the value surely arrives,
// with the text "VALUE reaches WHAT; REMEDY". If it has a code, the finding is a warning, "VALUE SAYS".
type sink struct {
	what   string
	remedy string
	code   string
	says   string

	// printed is the code of the finding where a program may print the value, with the text "VALUE printedSays". If it
	// is empty, that is not reported.
	printed     string
	printedSays string

	// strict makes it an error also where a program may print the value, unless a variable has brought it.
	strict bool

	// words reports whether JSON is harmless here: a text with braces and quotes is no name, no number and no program.
	words bool
}

const numberRemedy = "assign the value itself, which is checked to be an integer: n=${...}"

var (
	codeSink = sink{
		what: "shell code", printed: codeOutput, printedSays: "reaches a shell as code through a command's output",
	}
	inputSink = sink{
		what: "shell code", printed: codePiped,
		printedSays: "reaches a shell as code through its input; use |sh if it is a single word of that code",
	}
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
	arithmeticSink = sink{what: "arithmetic", remedy: numberRemedy, words: true, strict: true}

	// Some shells expand a subscript again before they evaluate it, so that even JSON may run a command.
	subscriptSink = sink{what: "arithmetic", remedy: numberRemedy, strict: true}
)

// leak reports values that reach a sink. Nothing is reported as long as the variables are not all known. See
// valueCheck.reporting.
func (c *valueCheck) leak(s sink, flows []flow) {
	if !c.reporting {
		return
	}
	for _, f := range flows {
		src := &c.values[f.value]
		if s.strict && f.certainty == perhaps && f.via == "" {
			f.certainty = sure
		}
		unreported := f.certainty == perhaps && s.printed == "" && s.code == ""
		if f.file || unreported || src.JSON && s.words {
			continue
		}
		if found := s.finding(src, f); !slices.Contains(*c.found, found) {
			*c.found = append(*c.found, found)
		}
	}
}

// finding returns the message for a value that reaches the sink. It names the variable that brought the value, unless
// the value is written as that variable.
func (s sink) finding(src *Value, f flow) Finding {
	written, through := src.Written, ""
	if f.via != "" && "$"+f.via != written && "${"+f.via+"}" != written {
		through = " through $" + f.via
	}
	found := Finding{Offset: src.Offset, Warning: f.certainty != sure, Code: codeReaches}
	switch {
	case s.code != "":
		found.Warning, found.Code, found.Text = true, s.code, written+through+" "+s.says
	case f.certainty == perhaps:
		found.Code, found.Text = s.printed, written+" "+s.printedSays
	default:
		verb := " reaches "
		if found.Warning {
			verb = " may reach "
		}
		found.Text = written + verb + s.what + through + "; " + s.remedyFor(src, written)
	}
	return found
}

// remedyFor returns what to write instead. Code of a shell has no remedy of its own: a placeholder can be quoted for it
// by |sh, which $PRODIGY_ITEM cannot.
func (s sink) remedyFor(src *Value, written string) string {
	switch {
	case s.remedy != "":
		return s.remedy
	case src.Item:
		return "put the code in single quotes and let it read the variable itself"
	}
	name, _, _ := strings.Cut(strings.Trim(strings.TrimPrefix(written, "$"), "{}"), ":-")
	return "use ${" + name + "|sh} there, outside the quotes of that code"
}
