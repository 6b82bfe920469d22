package settings

import (
	"fmt"
	"strings"

	"prodigy/internal/shell"
)

// dotenvVar is one variable of a file.
type dotenvVar struct {
	Name, Value string
}

// dotenvError is a mistake in a file. It does not contain the text of the line, which may be a secret.
type dotenvError struct {
	// Line counts from 1.
	Line    int
	Message string
}

// Error returns the message with its line.
func (e *dotenvError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// parseDotenv reads a file of variables, one NAME=value a line. It returns them in order; of duplicate names,
// the last one counts. The error is a *dotenvError.
//
//	# a comment, also behind a value: A=b # like this
//	PLAIN=to the end of the line, without the blanks around it
//	export PREFIX=is allowed
//	SINGLE='as it is, $HOME and \n included, over several lines if need be'
//	DOUBLE="with \n, \r, \t, \", \\ and \$ as escapes, over several lines if need be"
//
// Nothing is expanded and nothing is run: a dollar sign is a dollar sign.
func parseDotenv(data []byte) ([]dotenvVar, error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	if before, _, ok := strings.Cut(text, "\x00"); ok {
		return nil, &dotenvError{1 + strings.Count(before, "\n"), "a NUL byte, which no variable can hold"}
	}
	p := &dotenvParser{rest: text, line: 1}
	var vars []dotenvVar
	for p.more() {
		v, err := p.variable()
		if err != nil {
			return nil, err
		}
		vars = append(vars, v)
	}
	return vars, nil
}

// dotenvParser is a position in the file.
type dotenvParser struct {
	rest string
	// line is the number of the line that rest begins in, from 1.
	line int
}

// more skips blank lines and comments, and reports whether a line is left.
func (p *dotenvParser) more() bool {
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
func (p *dotenvParser) endLine() string {
	line, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	p.line++
	return line
}

// fail returns a mistake in a line.
func (p *dotenvParser) fail(line int, format string, args ...any) error {
	return &dotenvError{line, fmt.Sprintf(format, args...)}
}

// variable reads the variable that begins here, which may take several lines in quotes.
func (p *dotenvParser) variable() (dotenvVar, error) {
	name, err := p.name()
	if err != nil {
		return dotenvVar{}, err
	}
	p.rest = strings.TrimLeft(p.rest, " \t")
	if p.rest == "" || p.rest[0] != '"' && p.rest[0] != '\'' {
		return dotenvVar{name, unquotedValue(p.endLine())}, nil
	}
	began := p.line
	value, ok := p.quoted(p.rest[0])
	if !ok {
		return dotenvVar{}, p.fail(began, "the quote of %s is not closed", name)
	}
	closed := p.line
	if behind := strings.TrimSpace(p.endLine()); behind != "" && behind[0] != '#' {
		return dotenvVar{}, p.fail(closed, "unexpected text after the quoted value of %s", name)
	}
	return dotenvVar{name, value}, nil
}

// name reads up to the equals sign.
func (p *dotenvParser) name() (string, error) {
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
	if !shell.IsName(name) {
		return "", p.fail(p.line, "invalid variable name before \"=\": use letters, digits and underscores, not "+
			"starting with a digit")
	}
	return name, nil
}

// unquotedValue returns a value without quotes, which ends before a comment.
func unquotedValue(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}

// quoted reads a value in quotes, which begins here.
func (p *dotenvParser) quoted(quote byte) (value string, closed bool) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return b.String(), true
		case c == '\\' && quote == '"' && i+1 < len(p.rest) && dotenvEscapes[p.rest[i+1]] != 0:
			i++
			b.WriteByte(dotenvEscapes[p.rest[i]])
		default:
			if c == '\n' {
				p.line++
			}
			b.WriteByte(c)
		}
	}
	return "", false
}

// dotenvEscapes holds the escapes in double quotes. Any other backslash is literal.
var dotenvEscapes = [256]byte{'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '$': '$'}
