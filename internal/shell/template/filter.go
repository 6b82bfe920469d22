package template

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// Filer is a Resolver that can put a value into a private file, which lasts as long as the command that the
// value is for.
type Filer interface {
	File(content string) (path string, err error)
}

// filtered returns the value after one filter. Filters that only change where a value may stand leave it as it is.
func filtered(v Value, f pipe, r Resolver) (Value, error) {
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
		return Text(strings.TrimSuffix(v.String(), path.Ext(v.String()))), nil
	case "int", "ordinal":
		n, err := parseWhole(v.String())
		if err != nil {
			return Value{}, fmt.Errorf("requires an integer, and %w", err)
		}
		if f.name == "ordinal" {
			n++
		}
		return Text(strconv.FormatInt(n, 10)), nil
	case "file":
		files, ok := r.(Filer)
		if !ok {
			return Value{}, errors.New("needs a file, which is not available here")
		}
		name, err := files.File(v.String())
		if err != nil {
			return Value{}, fmt.Errorf("needs a file: %w", err)
		}
		return Text(name), nil
	}
	return v, nil
}

// expanded returns the words that a filter makes of a value. opt leaves out an empty one, words splits it at blanks,
// and pattern keeps the words that match. single reports whether the value is one word already, which pattern does not
// split.
func expanded(v Value, f pipe, single bool) []Value {
	switch {
	case f.name == "opt" && v.isEmpty():
		return nil
	case f.name == "opt":
		return []Value{v}
	case f.name == "pattern" && single:
		return f.matching([]Value{v})
	case f.name == "pattern" && v.isArray():
		return f.matching(v.elements())
	}
	isBlank := func(r rune) bool { return strings.ContainsRune(" \t\n", r) }
	words := check.Each(strings.FieldsFunc(v.String(), isBlank), Text)
	if f.name == "pattern" {
		return f.matching(words)
	}
	return words
}

func parseWhole(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("its value %s is not an integer", shown(s))
	}
	return n, nil
}

// matching returns the values that match.
func (f pipe) matching(all []Value) []Value {
	var some []Value
	for _, v := range all {
		text := v.String()
		if !strings.Contains(f.pattern, "/") {
			text = path.Base(text)
		}
		if doublestar.MatchUnvalidated(f.pattern, text) {
			some = append(some, v)
		}
	}
	return some
}
