// Package dotenv reads files of variables, one NAME=value a line.
//
//	# a comment, also behind a value: A=b # like this
//	PLAIN=to the end of the line, without the blanks around it
//	export PREFIX=is allowed
//	SINGLE='as it is, $HOME and \n included, over several lines if need be'
//	DOUBLE="with \n, \r, \t, \", \\ and \$ as escapes, over several lines if need be"
//
// Nothing is expanded and nothing is run: a dollar sign is a dollar sign.
package dotenv

import (
	"fmt"
	"strings"

	"prodigy/internal/posix"
)

// Var is one variable of a file.
type Var struct {
	Name, Value string
}

// SyntaxError is a mistake in a file. It does not contain the text of the line, which may be a secret.
type SyntaxError struct {
	Line    int // from 1
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Parse returns the variables of a file in order; of duplicate names, the last one counts. The error is a *SyntaxError.
func Parse(data []byte) ([]Var, error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	if before, _, ok := strings.Cut(text, "\x00"); ok {
		return nil, &SyntaxError{1 + strings.Count(before, "\n"), "a NUL byte, which no variable can hold"}
	}
	p := &parser{rest: text, line: 1}
	var vars []Var
	for p.more() {
		v, err := p.variable()
		if err != nil {
			return nil, err
		}
		vars = append(vars, v)
	}
	return vars, nil
}

// parser is a position in the file.
type parser struct {
	rest string
	line int
}

// more skips blank lines and comments, and reports whether a line is left.
func (p *parser) more() bool {
	for p.rest != "" {
		line, _, _ := strings.Cut(p.rest, "\n")
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return true
		}
		p.endLine()
	}
	return false
}

// endLine returns the rest of the line and moves behind it.
func (p *parser) endLine() string {
	line, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	p.line++
	return line
}

func (p *parser) fail(line int, format string, args ...any) error {
	return &SyntaxError{line, fmt.Sprintf(format, args...)}
}

func (p *parser) variable() (Var, error) {
	name, err := p.name()
	if err != nil {
		return Var{}, err
	}
	p.rest = strings.TrimLeft(p.rest, " \t")
	if p.rest == "" || p.rest[0] != '"' && p.rest[0] != '\'' {
		return Var{name, plain(p.endLine())}, nil
	}
	began := p.line
	value, ok := p.quoted(p.rest[0])
	if !ok {
		return Var{}, p.fail(began, "the quote of %s is not closed", name)
	}
	closed := p.line
	if behind := strings.TrimSpace(p.endLine()); behind != "" && behind[0] != '#' {
		return Var{}, p.fail(closed, "there is text behind the quoted value of %s: quote all of it", name)
	}
	return Var{name, value}, nil
}

// name reads up to the equals sign.
func (p *parser) name() (string, error) {
	line, _, _ := strings.Cut(p.rest, "\n")
	before, _, found := strings.Cut(line, "=")
	if !found {
		return "", p.fail(p.line, "want NAME=value")
	}
	p.rest = p.rest[len(before)+1:]
	name := strings.TrimSpace(before)
	if rest, ok := strings.CutPrefix(name, "export"); ok && rest != strings.TrimLeft(rest, " \t") {
		name = strings.TrimLeft(rest, " \t")
	}
	if !posix.IsName(name) {
		return "", p.fail(p.line, "what stands before the equals sign is not a name: use letters, digits and underscores, and no digit first")
	}
	return name, nil
}

// plain returns a value without quotes, which ends before a comment.
func plain(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}

// quoted reads a value in quotes, which begins here.
func (p *parser) quoted(quote byte) (value string, closed bool) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return b.String(), true
		case c == '\\' && quote == '"' && i+1 < len(p.rest) && escapes[p.rest[i+1]] != 0:
			i++
			b.WriteByte(escapes[p.rest[i]])
		default:
			if c == '\n' {
				p.line++
			}
			b.WriteByte(c)
		}
	}
	return "", false
}

// escapes holds the escapes in double quotes. Any other backslash is literal.
var escapes = [256]byte{'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '$': '$'}
