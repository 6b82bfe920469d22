//go:build unix

package main

import (
	"context"
	"slices"
	"strings"
)

// reduced returns the smallest script that still does what found asks for, without parts of s and with simpler ones.
func reduced(ctx context.Context, l *lab, s *script, found func(trial) bool) (*script, trial, error) {
	t, err := l.try(ctx, s, always)
	if err != nil || !found(t) {
		return s, t, err
	}
	for again := true; again; {
		again = false
		for _, simpler := range s.simpler() {
			st, err := l.try(ctx, simpler, always)
			if err != nil {
				return s, t, err
			}
			if found(st) && (simpler.outside() == "") == (s.outside() == "") {
				s, t, again = simpler, st, true
				break
			}
		}
	}
	return s, t, nil
}

// simpler returns scripts that are simpler than s by one step, those that leave out most first.
func (s *script) simpler() []*script {
	var list []*script
	for i := range s.flows {
		c := s.clone()
		c.flows, c.styles = slices.Delete(c.flows, i, i+1), slices.Delete(c.styles, i, i+1)
		list = append(list, c)
	}
	if s.bash {
		c := s.clone()
		c.bash = false
		list = append(list, c)
	}
	for _, plain := range plainSources() {
		if s.source == plain {
			break
		}
		if s.source.constant == plain.constant {
			c := s.clone()
			c.source = plain
			list = append(list, c)
		}
	}
	for i, f := range s.flows {
		if f != assignments[0] {
			c := s.clone()
			c.flows[i] = assignments[0]
			list = append(list, c)
		}
	}
	for i, st := range s.styles {
		if st != quoted {
			c := s.clone()
			c.styles[i] = quoted
			list = append(list, c)
		}
	}
	return list
}

// plainSources are the sources that any other is reduced to, the plainest first.
func plainSources() []*source {
	i := slices.IndexFunc(sources, func(s *source) bool { return s.name == "$capture" })
	return []*source{sources[0], sources[i]}
}

func (s *script) clone() *script {
	c := *s
	c.flows, c.styles = slices.Clone(s.flows), slices.Clone(s.styles)
	return &c
}

// holds reports whether s is the reduced script other with more in it, so that it need not be reduced to be known.
func (s *script) holds(other *script) bool {
	if s.sink != other.sink || other.bash && !s.bash || s.source != other.source && !slices.Contains(plainSources(), other.source) {
		return false
	}
	if s.source.placeholder() != other.source.placeholder() {
		return false
	}
	rest := other.flows
	for _, f := range s.flows {
		if len(rest) > 0 && (f == rest[0] || rest[0] == assignments[0]) {
			rest = rest[1:]
		}
	}
	return len(rest) == 0
}

// class is a reduced script and how many scripts were reduced to it.
type class struct {
	script *script
	trial  trial
	count  int
}

// classes collects scripts of a kind, reduced.
type classes struct {
	found func(trial) bool
	list  []*class
	most  int // of them to be reduced; the rest is counted in beyond
	later int
}

// add counts s, and reduces it unless its class is known.
func (cs *classes) add(ctx context.Context, l *lab, s *script) error {
	for _, c := range cs.list {
		if s.holds(c.script) {
			c.count++
			return nil
		}
	}
	if len(cs.list) >= cs.most {
		cs.later++
		return nil
	}
	small, t, err := reduced(ctx, l, s, cs.found)
	if err != nil {
		return err
	}
	for _, c := range cs.list {
		if c.script.String() == small.String() {
			c.count++
			return nil
		}
	}
	cs.list = append(cs.list, &class{script: small, trial: t, count: 1})
	return nil
}

// sorted returns the classes, the most frequent first.
func (cs *classes) sorted() []*class {
	slices.SortStableFunc(cs.list, func(a, b *class) int {
		if a.count != b.count {
			return b.count - a.count
		}
		return strings.Compare(a.script.String(), b.script.String())
	})
	return cs.list
}
