package template

import (
	"strings"

	"prodigy/internal/posix"
)

// quoting is what surrounds a place of a script, and so how text must be written there.
type quoting uint8

const (
	bare          quoting = iota // outside quotes
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
	case bare:
		return posix.Quote(text)
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
	case bare:
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
