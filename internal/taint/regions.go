package taint

import "mvdan.cc/sh/v3/syntax"

// region is a stretch of code that runs as a whole: the script, a branch, the body of a loop or function, code for another shell.
// Regions form a tree. An assignment in a region comes before everything behind it in that region and in those within it.
type region struct {
	parent  int  // of the script itself: -1
	fork    bool // another process: nothing that it assigns is seen outside
	loop    bool // it may run again
	anytime bool // nobody knows when it runs: a trap, a function that no known code calls or that calls itself
}

type regionKey struct {
	parent int
	node   any
	is     region
}

// regionNode is the body of a function that is called at a node.
type regionNode struct{ node, fn any }

// regionOf returns the region of a node within another one. It is the same in each round.
func (t *analysis) regionOf(parent int, node any, is region) int {
	is.parent = parent
	key := regionKey{parent, node, is}
	i, ok := t.regionIndex[key]
	if !ok {
		i = len(t.regions)
		t.regions = append(t.regions, is)
		t.regionIndex[key] = i
	}
	return i
}

// contains reports whether region b is a or lies within it.
func (t *analysis) contains(a, b int) bool {
	for ; b > a; b = t.regions[b].parent { // a region is younger than those around it
	}
	return a == b
}

// common returns the innermost region around two.
func (t *analysis) common(a, b int) int {
	for a != b {
		if a > b {
			a = t.regions[a].parent
		} else {
			b = t.regions[b].parent
		}
	}
	return a
}

// dominator returns the last assignment before this place that a run cannot have gone round, or nil.
func (t *analysis) dominator(f *shellFrame, name string) *site {
	if t.hasRefs || t.readonly[name] || t.readonly["*"] {
		return nil
	}
	var last *site
	for _, s := range t.vars[name] {
		if s.always && !s.blurred && !s.over && !s.adds && s.round == t.round && t.contains(s.region, f.region) && (last == nil || s.tick > last.tick) {
			last = s
		}
	}
	if last == nil {
		return nil
	}
	for r := f.region; r != last.region; r = t.regions[r].parent {
		if t.regions[r].anytime {
			return nil
		}
	}
	return last
}

// reaches reports whether what was assigned at s may still be there, when last is the last assignment that a run cannot have gone round.
func (t *analysis) reaches(f *shellFrame, s, last *site) bool {
	if t.hasRefs {
		return true
	}
	anytime := false
	for r := s.region; r >= 0; r = t.regions[r].parent {
		if t.regions[r].fork && !t.contains(r, f.region) {
			return false
		}
		anytime = anytime || t.regions[r].anytime
	}
	switch {
	case anytime || s == last:
		return true
	case s.round == t.round:
		return last == nil || s.tick > last.tick
	}
	// It stands behind this place: a run gets here again from there only by a loop that begins behind the last assignment.
	for r := f.region; r >= 0 && (last == nil || r != last.region); r = t.regions[r].parent {
		if t.regions[r].anytime || t.regions[r].loop && t.contains(r, s.region) {
			return true
		}
	}
	return false
}

// always notes that code which gets to s makes the assignment, whichever shell runs it.
func always(s *site) {
	if s != nil {
		s.always = true
	}
}

// isOuterWord reports whether an expansion stands for a text of the code around this one that is quoted as one word.
func (t *analysis) isOuterWord(p *syntax.ParamExp) bool {
	m, ok := t.outerMark(p)
	return ok && m.quoted
}
