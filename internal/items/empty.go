package items

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ohler55/ojg/jp"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
)

// EmptyError means that no item was chosen, which the workflow does not allow.
type EmptyError struct {
	// Why says for people what left nothing.
	Why string

	// Glob reports whether the input is a pattern of file names.
	Glob bool

	// Stdin reports whether the input is the standard input, which cannot be read again.
	Stdin bool
}

func (e *EmptyError) Error() string {
	return e.Why + " (to allow an empty input, use on_empty: ok in a workflow, or prodigy map -r)"
}

// Mistaken reports whether a selection failed because what the workflow says of the items is not so, rather than since
// the items could not be read.
func Mistaken(err error) bool {
	_, bad := errors.AsType[*KeyError](err)
	_, missing := errors.AsType[*MissingKeyError](err)
	_, empty := errors.AsType[*EmptyError](err)
	return bad || missing || empty
}

// seen is what a selection remembers of the values that it has read, to tell people why none of them was chosen.
type seen struct {
	// read counts the values that the path has selected, and passed those that the filter has let through.
	read, passed int

	// fields are those of the first values.
	fields Fields

	// missing are the paths of the filter that no value has had so far.
	missing [][]string

	// mismatch describes a comparison of the filter that no value so far can meet because of its type.
	mismatch string

	// misplaced is a field of sort_by whose texts may have been meant as numbers. last is the last item to be sorted.
	misplaced string
	last      []byte

	// lists are the members of the first value that are lists and not empty, as paths, if it is an object. elements is
	// the length of the last of them.
	lists    []string
	elements int
}

// enough is how many values are looked at for a comparison of a wrong type, and for their fields.
const enough = 100

// note remembers what a value tells about the filter. After the first 100 values it costs only the look for fields that
// are still missing.
func (s *seen) note(raw []byte, f *filter.Filter, passes bool) {
	s.read++
	if s.read == 1 {
		s.noteLists(raw)
		if f != nil {
			s.missing = slices.Clone(f.Paths)
		}
	}
	if passes {
		s.passed++
	}
	s.missing = slices.DeleteFunc(s.missing, func(path []string) bool { return filter.Has(raw, path) })
	if f == nil || s.read > enough {
		return
	}
	s.fields.Add(raw)
	if wrong := f.Mismatch(raw); wrong != "" && s.mismatch == "" {
		s.mismatch = wrong + " compares a string with a number or a boolean, which are never equal: " +
			"use number(field), or quotes"
	}
}

// noteOrder notes whether the first items that are sorted have numbers that are texts.
func (s *seen) noteOrder(raw []byte, order filter.Order) {
	if s.read > enough || s.misplaced != "" {
		return
	}
	if s.last != nil {
		s.misplaced = order.Misplaced(s.last, raw)
	}
	s.last = append(s.last[:0], raw...)
}

// noteLists notes the members of an object that are lists and not empty.
func (s *seen) noteLists(raw []byte) {
	if raw[0] != '{' {
		return
	}
	for quoted, member := range rawjson.Members(raw) {
		n := 0
		if member[0] == '[' {
			for range rawjson.Elements(member) {
				n++
			}
		}
		if n > 0 {
			s.elements, s.lists = n, append(s.lists, jp.R().Child(rawjson.Unquote(quoted)).String())
		}
	}
}

// misspelt describes the fields of the filter that no value has. With nearOnly it leaves out those that are not nearly
// a field that is there: a field may well be optional when some items were chosen.
func (s *seen) misspelt(nearOnly bool) []string {
	var all []string
	names, _ := s.fields.Names()
	for _, path := range s.missing {
		if path[0] == "item" {
			path = path[1:]
		}
		text := fmt.Sprintf("no item has a field %q", strings.Join(path, "."))
		near := check.Nearest(path[0], names)
		if near != "" && near != path[0] {
			text += fmt.Sprintf(" (did you mean %q?)", near)
		} else if nearOnly {
			continue
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// nothing says that a source has no data.
func (s source) nothing(e Env) string {
	switch {
	case s.glob != "" && s.format != "":
		return "no items in the files that match " + s.glob
	case s.glob != "":
		return fmt.Sprintf("no file matches %s in %s", s.glob, e.Dir)
	case s.command != "":
		return "the input command prints no items"
	case s.job:
		return "the job has no matching results"
	case s.parts != nil:
		var all []string
		for _, part := range s.parts {
			all = append(all, part.nothing(e))
		}
		return strings.Join(all, ", and ")
	case s.stdin, s.file != "":
		words, _ := s.described()
		return words + " has no items"
	}
	return "the list is empty"
}
