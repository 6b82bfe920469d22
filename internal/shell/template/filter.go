package template

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"prodigy/internal/shell"
)

var filterNames = []string{
	"raw", "sh", "json", "url", "int", "ordinal", "words", "basename", "dirname", "noext", "file", "opt", "pattern",
	"default",
}

// filter is one of the filters of a placeholder.
type filter struct {
	name string
	glob *glob // of pattern
}

func (f filter) String() string {
	if f.glob == nil {
		return "|" + f.name
	}
	return "|" + f.name + ":" + escapeArgument(f.glob.src)
}

// Filer is a Resolver that can put a value into a private file, which lasts as long as the command that the
// value is for.
type Filer interface {
	File(content string) (path string, err error)
}

// makesList reports whether the filter gives any number of words.
func (f filter) makesList() bool { return f.name == "words" || f.name == "opt" || f.name == "pattern" }

// filtered returns the value after one filter. Filters that only change where a value may stand leave it as it is.
func filtered(v Value, f filter, r Resolver) (Value, error) {
	switch f.name {
	case "sh":
		return Text(shell.Quote(v.String())), nil
	case "json":
		return Text(v.literal()), nil
	case "url":
		return Text(strings.ReplaceAll(url.QueryEscape(v.String()), "+", "%20")), nil
	case "basename":
		return Text(path.Base(v.String())), nil
	case "dirname":
		return Text(path.Dir(v.String())), nil
	case "noext":
		return Text(withoutExtension(v.String())), nil
	case "int", "ordinal":
		n, err := parseWhole(v.String())
		if err != nil {
			return Value{}, fmt.Errorf("asks for a whole number, and %w", err)
		}
		if f.name == "ordinal" {
			n++
		}
		return Text(strconv.FormatInt(n, 10)), nil
	case "file":
		return inFile(v, r)
	}
	return v, nil
}

// withoutExtension returns a path without the last dot of its last part and what follows.
func withoutExtension(p string) string {
	dot := strings.LastIndexByte(p, '.')
	if dot < 0 || strings.Contains(p[dot:], "/") {
		return p
	}
	return p[:dot]
}

// expanded returns the words that a filter makes of a value. single: the value is one word already.
func expanded(v Value, f filter, single bool) []Value {
	switch {
	case f.name == "opt" && v.isEmpty():
		return nil
	case f.name == "opt":
		return []Value{v}
	case f.name == "pattern" && single:
		return f.glob.matching([]Value{v})
	case f.name == "pattern" && v.isArray():
		return f.glob.matching(v.elements())
	}
	var words []Value
	for _, word := range splitBlanks(v.String()) {
		words = append(words, Text(word))
	}
	if f.name == "pattern" {
		return f.glob.matching(words)
	}
	return words
}

// inFile returns the path of a file that holds the value.
func inFile(v Value, r Resolver) (Value, error) {
	files, ok := r.(Filer)
	if !ok {
		return Value{}, errors.New("asks for a file, which there is none of here")
	}
	path, err := files.File(v.String())
	if err != nil {
		return Value{}, fmt.Errorf("asks for a file: %w", err)
	}
	return Text(path), nil
}

// wholeNumber returns a whole number of 64 bits in plain decimal: shells read 010 as eight, and 08 as an error.
func wholeNumber(s string) (string, error) {
	n, err := parseWhole(s)
	return strconv.FormatInt(n, 10), err
}

func parseWhole(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its value %s is not a whole number", shown(s))
	}
	return n, nil
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

// splitBlanks splits text at blanks, tabs and newlines.
func splitBlanks(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
}

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

func globRegexp(src string) string {
	var b strings.Builder
	for i := 0; i < len(src); i++ {
		rest := src[i:]
		switch c := src[i]; {
		case strings.HasPrefix(rest, "**/"):
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

func (g *glob) matching(all []Value) []Value {
	var some []Value
	for _, v := range all {
		text := v.String()
		if !strings.Contains(g.src, "/") {
			text = path.Base(text)
		}
		if g.re.MatchString(text) {
			some = append(some, v)
		}
	}
	return some
}
