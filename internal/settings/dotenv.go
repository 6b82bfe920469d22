package settings

import (
	"fmt"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// dotenvVar is one variable of a file.
type dotenvVar struct {
	Name, Value string
}

// dotenvQuoted finds a value in quotes at the start of a text, and what stands behind it on its last line.
var dotenvQuoted = check.Regexp(`^(?s:"((?:\\.|[^"\\])*)"|'([^']*)')([^\n]*)`)

// dotenvComment finds a comment behind a value without quotes.
var dotenvComment = check.Regexp(`(?:^|[ \t])#.*`)

// dotenvEscapes reads the escapes in double quotes. Any other backslash is literal.
var dotenvEscapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`, `\$`, `$`)

// parseDotenv reads a file of variables, one NAME=value a line. It returns them in order; of duplicate names,
// the last one counts. An error has the number of its line, and not its text, which may be a secret.
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
		return nil, fmt.Errorf("line %d: a NUL byte is not allowed in a variable", 1+strings.Count(before, "\n"))
	}
	var vars []dotenvVar
	for at := 0; at < len(text); {
		fail := func(end int, format string, args ...any) error {
			return fmt.Errorf("line %d: %s", 1+strings.Count(text[:end], "\n"), fmt.Sprintf(format, args...))
		}
		line, _, _ := strings.Cut(text[at:], "\n")
		end := at + len(line)
		if blank := strings.TrimSpace(line); blank == "" || blank[0] == '#' {
			at = end + 1
			continue
		}
		before, value, found := strings.Cut(line, "=")
		if !found {
			return nil, fail(at, "must be NAME=value")
		}
		name := strings.TrimSpace(before)
		if rest, ok := strings.CutPrefix(name, "export"); ok && rest != strings.TrimLeft(rest, " \t") {
			name = strings.TrimLeft(rest, " \t")
		}
		if !shell.IsName(name) {
			return nil, fail(at, "invalid variable name before \"=\": use letters, digits and underscores, not starting "+
				"with a digit")
		}
		value = strings.TrimLeft(value, " \t")
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			begin := end - len(value)
			parts := dotenvQuoted().FindStringSubmatch(text[begin:])
			if parts == nil {
				return nil, fail(at, "unclosed quote in the value of %s", name)
			}
			end = begin + len(parts[0])
			if behind := strings.TrimSpace(parts[3]); behind != "" && behind[0] != '#' {
				return nil, fail(end, "unexpected text after the quoted value of %s", name)
			}
			value = dotenvEscapes.Replace(parts[1]) + parts[2]
		} else {
			value = strings.TrimSpace(dotenvComment().ReplaceAllString(value, ""))
		}
		vars = append(vars, dotenvVar{name, value})
		at = end + 1
	}
	return vars, nil
}
