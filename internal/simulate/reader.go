package simulate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/workflow"
)

// reader reads a YAML file strictly: a key that is not known is a problem. It goes on after a problem, to report all.
type reader struct {
	file     string
	problems []workflow.Problem
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, workflow.Problem{
		File: r.file, Line: max(1, n.Line), Col: max(1, n.Column),
		Message: fmt.Sprintf(format, args...),
	})
}

// err returns the problems as a *workflow.InvalidError, or nil.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b workflow.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return &workflow.InvalidError{Problems: r.problems}
}

// load returns the one document of a file, or nil.
func (r *reader) load(data []byte) *yaml.Node {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := d.Decode(&doc)
	if err == nil {
		if err = d.Decode(&more); err == nil {
			r.fail(&more, "there is a second document: write all in one")
			return nil
		}
	} else if errors.Is(err, io.EOF) {
		r.fail(&doc, "the file is empty")
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		at := &yaml.Node{}
		message := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
			at.Line, _ = strconv.Atoi(m[1])
			message = message[len(m[0]):]
		}
		r.fail(at, "no YAML: %s", message)
		return nil
	}
	return resolved(doc.Content[0])
}

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// field is a key that a mapping may have, and how its value is read.
type field struct {
	name string
	read func(n *yaml.Node)
}

// fields reads a mapping, which messages call by name.
func (r *reader) fields(n *yaml.Node, name string, known ...field) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s: want a mapping", name)
		return
	}
	seen := map[string]int{}
	var names []string
	for _, f := range known {
		names = append(names, f.name)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolved(n.Content[i+1])
		if line := seen[key.Value]; line > 0 {
			r.fail(key, "key %q is written twice (first in line %d)", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		at := slices.Index(names, key.Value)
		if at < 0 {
			r.fail(key, "unknown key %q in %s%s", key.Value, name, check.Hint(key.Value, names, check.OneOf(names)))
			continue
		}
		known[at].read(value)
	}
}

// list reads each element of a list. A single value is read as a list of one element.
func (r *reader) list(n *yaml.Node, read func(n *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		read(n)
		return
	}
	for _, each := range n.Content {
		read(resolved(each))
	}
}

func (r *reader) text(name string, to *string) field {
	return field{name, func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.fail(n, "%s: want a text", name)
			return
		}
		*to = n.Value
	}}
}

func (r *reader) texts(name string, to *[]string) field {
	return field{name, func(n *yaml.Node) {
		r.list(n, func(n *yaml.Node) {
			var one string
			r.text(name, &one).read(n)
			*to = append(*to, one)
		})
	}}
}

func (r *reader) flag(name string, to *bool) field {
	return field{name, func(n *yaml.Node) {
		if n.Tag != "!!bool" || n.Decode(to) != nil {
			r.fail(n, "%s: want true or false", name)
		}
	}}
}

// integer reads a whole number from least to most.
func (r *reader) integer(name string, least, most int, to *int) field {
	return field{name, func(n *yaml.Node) {
		if n.Tag != "!!int" || n.Decode(to) != nil || *to < least || *to > most {
			r.fail(n, "%s: want a whole number from %d to %d", name, least, most)
		}
	}}
}

func (r *reader) part(name string, to *float64) field {
	return field{name, func(n *yaml.Node) {
		if n.Tag != "!!int" && n.Tag != "!!float" || n.Decode(to) != nil || !(*to >= 0 && *to <= 1) {
			r.fail(n, "%s: want a number from 0 to 1", name)
		}
	}}
}

func (r *reader) duration(name string, to *time.Duration) field {
	return field{name, func(n *yaml.Node) {
		var err error
		if n.Kind != yaml.ScalarNode {
			r.fail(n, "%s: want a duration, such as 90s", name)
		} else if *to, err = duration.Parse(n.Value); err != nil {
			r.fail(n, "%s: %v", name, err)
		}
	}}
}

// span reads a range of numbers from 1: 2, 2-4 or 2-.
func (r *reader) span(name string, to *span) field {
	return field{name, func(n *yaml.Node) {
		first, last, ranged := strings.Cut(n.Value, "-")
		from, err := strconv.Atoi(first)
		until := from
		if ranged && last == "" {
			until = 0
		} else if ranged && err == nil {
			until, err = strconv.Atoi(last)
		}
		if n.Kind != yaml.ScalarNode || err != nil || from < 1 || until != 0 && until < from {
			r.fail(n, "%s: want a number from 1, or a range of them: 2, 2-4 or 2-", name)
			return
		}
		*to = span{from, until}
	}}
}

// span is a range of numbers from 1. The zero span has all.
type span struct {
	first int
	last  int // 0 without an end
}

func (s span) has(n int) bool { return n >= s.first && (s.last == 0 || n <= s.last) }
