package template

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

var filterNames = []string{"raw", "sh", "json", "url", "int", "words", "basename"}

// unknownFilter says what is wrong with the name of a filter, or nothing.
func unknownFilter(name string) string {
	switch {
	case slices.Contains(filterNames, name):
		return ""
	case name == "file":
		return "the filter |file is not supported yet; feed large values through a heredoc"
	}
	return fmt.Sprintf("unknown filter |%s (known: %s)", name, strings.Join(filterNames, ", "))
}

// filtered returns the value after one filter. Filters that only change where a value may stand leave it as it is.
func filtered(v Value, filter string) (Value, error) {
	switch filter {
	case "sh":
		return Text(shellQuote(v.String())), nil
	case "json":
		return Text(v.literal()), nil
	case "url":
		return Text(strings.ReplaceAll(url.QueryEscape(v.String()), "+", "%20")), nil
	case "basename":
		return Text(path.Base(v.String())), nil
	case "int":
		n, err := wholeNumber(v.String())
		return Text(n), err
	}
	return v, nil
}

// wholeNumber returns a whole number of 64 bits in plain decimal: shells read 010 as eight, and 08 as an error.
func wholeNumber(s string) (string, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return "", fmt.Errorf("its value %s is not a whole number", shorten(s))
	}
	return strconv.FormatInt(n, 10), nil
}

// shorten quotes a value for a message.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}

// splitBlanks splits text at blanks, tabs and newlines.
func splitBlanks(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
}
