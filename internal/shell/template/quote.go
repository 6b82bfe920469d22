package template

import (
	"strings"

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
)

// write returns text so that it stands for itself in the given place.
func (q quoting) write(text string) string {
	switch q {
	case unquoted:
		return shell.Quote(text)
	case single:
		return strings.ReplaceAll(text, `'`, `'\''`)
	case ansi:
		return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text)
	case double:
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(text)
	case heredoc:
		return strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`").Replace(text)
	}
	return text
}

// reference returns the reference to a shell variable as the given place needs it.
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

// encode writes code of an inner shell into the places around it, the nearest first.
func encode(code string, around []quoting) string {
	for _, q := range around {
		code = q.write(code)
	}
	return code
}

// place is where a ref stands in the script.
type place struct {
	quoteContext
	escaped    bool      // \${…}: text for the shell
	data       bool      // |sh or |raw in nested code: data for this shell, code for the next
	child      bool      // another process of the shell reads the variable
	around     []quoting // the quotes around nested code, the nearest first
	backquotes int
	parts      int // of its word
}

// quoteContext are what a place inherits from the constructs around it.
type quoteContext struct {
	quote     quoting
	number    bool    // the shell evaluates what stands here
	plain     bool    // a negative number stands here without parentheses
	words     bool    // several words may stand here
	joinsList bool    // a list is joined by blanks here
	command   bool    // names the program
	file      bool    // a redirection writes it
	loop      bool    // word of a for
	fault     finding // why no value may stand here; its text goes on after the placeholder

	evaluated bool // the fault holds for text of someone else only
}
