package ai

import (
	"bytes"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/rawjson"
)

// path leads to a value in a JSON document. A number is also the index in a list, and * stands for all members
// or elements.
type path []string

func parsePath(written string) path { return strings.Split(written, ".") }

// MarshalText implements encoding.TextMarshaler.
func (p path) MarshalText() ([]byte, error) { return []byte(strings.Join(p, ".")), nil }

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *path) UnmarshalYAML(n *yaml.Node) error {
	var written string
	err := n.Decode(&written)
	if written != "" {
		*p = parsePath(written)
	}
	return err
}

// splitPath returns the pick that a path begins with, and the rest.
func splitPath(written string) (pick string, rest path) {
	pick, below, ok := strings.Cut(written, ".")
	if !ok {
		return pick, nil
	}
	return pick, parsePath(below)
}

// in returns the value that p leads to, or nil.
func (p path) in(doc []byte) []byte {
	for raw := range p.all(doc) {
		return raw
	}
	return nil
}

// all yields the values that p leads to.
func (p path) all(doc []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) { p.each(doc, yield) }
}

func (p path) each(doc []byte, yield func([]byte) bool) bool {
	doc = bytes.TrimSpace(doc)
	switch {
	case len(doc) == 0:
		return true
	case len(p) == 0:
		return yield(doc)
	case p[0] == "*":
		for _, value := range rawjson.Members(doc) {
			if !p[1:].each(value, yield) {
				return false
			}
		}
		for element := range rawjson.Elements(doc) {
			if !p[1:].each(element, yield) {
				return false
			}
		}
		return true
	case doc[0] == '[':
		i := 0
		for element := range rawjson.Elements(doc) {
			if strconv.Itoa(i) == p[0] {
				return p[1:].each(element, yield)
			}
			i++
		}
		return true
	}
	return p[1:].each(rawjson.Member(doc, p[0]), yield)
}

// text returns the text that p leads to. See rawjson.Text.
func (p path) text(doc []byte) string { return rawjson.Text(p.in(doc)) }

// number reads a JSON number, or a text that is one, perhaps in thousands or millions, as in 2.4k.
func number(raw []byte) (float64, bool) {
	text := rawjson.Text(bytes.TrimSpace(raw))
	scale := 1.0
	switch {
	case strings.HasSuffix(text, "k"):
		scale = 1e3
	case strings.HasSuffix(text, "M"):
		scale = 1e6
	}
	f, err := strconv.ParseFloat(strings.TrimRight(text, "kM"), 64)
	return f * scale, err == nil && f >= 0
}

// firstPart returns at most n bytes of s.
func firstPart(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
