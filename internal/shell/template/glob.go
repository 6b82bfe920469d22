package template

import (
	"fmt"
	"regexp"
	"strings"
)

// glob is the argument of |pattern: * and ? stand for anything but a slash, ** for anything, [a-z] for one of
// these. Without a slash it is about the last part of a path.
type glob struct {
	src string
	re  *regexp.Regexp
}

func newGlob(src string) (*glob, error) {
	re, err := regexp.Compile("^" + globRegexp(src) + "$")
	if err != nil {
		return nil, fmt.Errorf("%q is not a pattern like *.go or src/**/*.go", src)
	}
	return &glob{src, re}, nil
}

// globRegexp translates a pattern to a regular expression in which a dot matches newlines, too: names of files may have
// them.
func globRegexp(src string) string {
	var b strings.Builder
	for i := 0; i < len(src); i++ {
		rest := src[i:]
		switch c := src[i]; {
		case strings.HasPrefix(rest, "**/"): // any number of directories, or none: **/x matches x
			b.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[' && strings.Contains(rest, "]"):
			class, _, _ := strings.Cut(rest[1:], "]")
			// A ! at the start means ^, and elsewhere itself.
			b.WriteString(
				"[" + strings.Replace(class, "!", "^", min(1, strings.Count(class[:min(1, len(class))], "!"))) + "]",
			)
			i += len(class) + 1
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return "(?s:" + b.String() + ")"
}
