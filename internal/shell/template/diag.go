package template

import (
	"fmt"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// The codes of what this package finds. Package shell has those of values that stand where a program runs them.
const (
	codeNUL         = "PS001" // the script contains a NUL byte
	codePlaceholder = "PS002" // a placeholder is not written correctly
	codeReserved    = "PS003" // a name is reserved for prodigy
	codeUnknown     = "PS004" // a placeholder names a value that does not exist

	codeShell      = "PS010" // the script is not valid shell
	codeNested     = "PS011" // code in the script, such as that of sh -c, is not valid shell
	codeImpossible = "PS020" // no value can stand here
	codeOpaque     = "PS021" // nested code depends on more than constants and values
	codeRemote     = "PS022" // nested code runs where the environment of prodigy may be missing
	codeEscaped    = "PS023" // a placeholder is escaped, or stands in backquotes, in a way that cannot be kept
	codeName       = "PS024" // a value would be the name of a variable
	codeHeredoc    = "PS025" // a value stands in a quoted heredoc whose quotes cannot be removed
	codeRawThere   = "PS026" // a raw value would insert code into nested code
	codeListPlace  = "PS027" // a list stands where only one word can
	codeDeep       = "PS028" // nested code is nested too deeply
	codeShQuoted   = "PS029" // a value that is quoted already stands in quotes
	codeShellName  = "PS030" // the interpreter is not a shell

	codeInternal = "PS090" // a fault of prodigy

	codeUnresolved = "PS120" // the shell would take a name for an empty variable
)

// Severity of a Diag.
type Severity int

// The severities, the mildest first.
const (
	Warning Severity = iota
	Error
)

// Diag is a finding about the text of a step, at a byte offset and line:col (from 1) of that text.
type Diag struct {
	Code     string // such as PS001
	Severity Severity
	Offset   int
	Line     int
	Col      int // in bytes

	// Text says what is wrong and what to write instead, for people.
	Text string
}

func (d Diag) String() string { return fmt.Sprintf("%d:%d: %s %s", d.Line, d.Col, d.Code, d.Text) }

// CompileError holds all the error diagnoses of a text, in its order. Nothing of the text is run then.
type CompileError struct {
	Diags []Diag
}

func (e *CompileError) Error() string {
	return strings.Join(check.Each(e.Diags, Diag.String), "\n")
}

// BindError is the error of a Bind: a missing value, a value that is not a whole number in arithmetic, a NUL, ...
type BindError struct {
	// Placeholder is the one that is to blame, as written.
	Placeholder string

	// Text says what is wrong, for people. It begins with the placeholder.
	Text string

	// Missing reports whether the placeholder has no value, which a condition takes for null.
	Missing bool
}

func (e *BindError) Error() string { return e.Text }

// finding is what a rule says about a placeholder before its position is known. The zero finding says nothing.
type finding struct {
	code, text string
}

// shown quotes a value for a message. A long one is not shown, not even its beginning: half of a secret would
// not be masked.
func shown(s string) string {
	const most = 60
	if len(s) > most {
		return "of " + strconv.Itoa(len(s)) + " bytes"
	}
	return strconv.Quote(s)
}
