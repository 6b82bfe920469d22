package template

import (
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// quoting is what surrounds a place of a script, and so how text must be written there.
type quoting uint8

const (
	unquoted      quoting = iota // outside quotes
	single                       // '…'
	ansi                         // $'…'
	double                       // "…", and words within it where quotes are text
	heredoc                      // the body of <<EOF
	quotedHeredoc                // the body of <<'EOF'
	arithmetic                   // $((…)) and its like
	comment
	asIs // a text that no shell reads
)

// write returns text so that it stands for itself in the given place. A quoted heredoc needs no escapes and has none,
// and what stands in arithmetic and comments is harmless already.
func (q quoting) write(text string) string {
	switch q {
	case unquoted:
		return shell.Quote(text)
	case single:
		return strings.ReplaceAll(text, `'`, `'\''`)
	case ansi:
		return check.Escape(text, `\'`)
	case double:
		return check.Escape(text, "\\\"$`")
	case heredoc:
		return check.Escape(text, "\\$`")
	}
	return text
}

// reference returns the reference to a shell variable as the given place needs it. In single quotes it ends them for
// a moment: 'a ${item} b' becomes 'a '"${PRODIGY_V0}"' b'.
func (q quoting) reference(name string) string {
	ref := "${" + name + "}"
	switch q {
	case unquoted:
		return `"` + ref + `"`
	case single:
		return `'"` + ref + `"'`
	case ansi:
		return `'"` + ref + `"$'`
	}
	return ref
}

// encode writes code of an inner shell into the places around it, the nearest first. In sh -c "echo ${item}" the code
// echo "${PRODIGY_V0}" stands in double quotes, so the shell outside must see \"\${PRODIGY_V0}\".
func encode(code string, around []quoting) string {
	for _, q := range around {
		code = q.write(code)
	}
	return code
}

// place is where a ref stands in the script.
type place struct {
	quoteContext

	// escaped reports whether a backslash makes text of the ref: \${…}.
	escaped bool

	// data reports whether the ref has |sh or |raw and stands in nested code. The shell that reads the text then
	// expands it as data, and the next one takes it as code.
	data bool

	// child reports whether another process of the shell reads the variable.
	child bool

	// around are the quotes around nested code, the nearest first.
	around []quoting

	// backquotes counts the `…` around the place.
	backquotes int
}

// quoteContext is what a place inherits from the constructs around it. The zero quoteContext is a word outside quotes
// that the shell does not evaluate, and where no list may stand.
type quoteContext struct {
	quote quoting

	// number and plain are as in slot.
	number bool
	plain  bool

	// words reports whether several words may stand here, as among arguments. joinsList reports whether a list is one
	// text here, with blanks between its elements, as in an assignment.
	words     bool
	joinsList bool

	command bool // names the program
	file    bool // a redirection writes it
	loop    bool // word of a for

	// fault says why no value may stand here. Its text goes on after the placeholder. If evaluated is true, values that
	// nobody else wrote may stand here all the same.
	fault     finding
	evaluated bool
}
