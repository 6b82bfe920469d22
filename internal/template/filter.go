package template

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/posix"
)

var filterNames = []string{"raw", "sh", "json", "url", "int", "words", "basename", "file", "opt", "pattern", "default"}

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

// Filer is a Resolver that can put a value into a private file, which lasts as long as the command that the value is for.
type Filer interface {
	File(content string) (path string, err error)
}

// unknownFilter says what is wrong with the name of a filter, or nothing.
func unknownFilter(name string) string {
	if slices.Contains(filterNames, name) {
		return ""
	}
	return fmt.Sprintf("unknown filter |%s (known: %s)", name, strings.Join(filterNames, ", "))
}

// makesList tells whether the filter gives any number of words.
func (f filter) makesList() bool { return f.name == "words" || f.name == "opt" || f.name == "pattern" }

// filtered returns the value after one filter. Filters that only change where a value may stand leave it as it is.
func filtered(v Value, f filter, r Resolver) (Value, error) {
	switch f.name {
	case "sh":
		return Text(posix.Quote(v.String())), nil
	case "json":
		return Text(v.literal()), nil
	case "url":
		return Text(strings.ReplaceAll(url.QueryEscape(v.String()), "+", "%20")), nil
	case "basename":
		return Text(path.Base(v.String())), nil
	case "int":
		n, err := wholeNumber(v.String())
		if err != nil {
			return Value{}, fmt.Errorf("asks for a whole number, and %w", err)
		}
		return Text(n), nil
	case "file":
		return inFile(v, r)
	}
	return v, nil
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
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return "", fmt.Errorf("its value %s is not a whole number", shown(s))
	}
	return strconv.FormatInt(n, 10), nil
}

// shown quotes a value for a message. A long one is not shown, not even its beginning: half of a secret would not be masked.
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
