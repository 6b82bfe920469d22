package ai

import (
	"bytes"
	"strings"

	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
)

// This file reads the many lines of a stream of which nothing is kept: only numbers that are summed, and ids.
// They are gone through once, and not held against the grammar of JSON. Whatever is not quite simple is left to
// the slow path, which finds the same.

// scanNode is a place in a document that something is looked for at or below.
type scanNode struct {
	names    []string
	children []*scanNode
	every    *scanNode // for all members or elements
	slot     int       // where the values of this place go; below 0: nowhere
}

// scanner looks for the values of some paths in one document.
type scanner struct {
	root  *scanNode
	slots map[string]int // by path
}

const maxScanDepth = 64

func newScanner() *scanner { return &scanner{root: &scanNode{slot: -1}, slots: map[string]int{}} }

// add returns the slot of a path; below 0: the slow path has to look for it.
func (s *scanner) add(p path) int {
	var key strings.Builder
	node := s.root
	for _, name := range p {
		key.WriteString("." + name)
		if name == "*" {
			if node.every == nil {
				node.every = &scanNode{slot: -1}
			}
			node = node.every
			continue
		}
		if name != "" && name[0] >= '0' && name[0] <= '9' {
			return -1 // it may be an index
		}
		var next *scanNode
		for i, known := range node.names {
			if known == name {
				next = node.children[i]
			}
		}
		if next == nil {
			next = &scanNode{slot: -1}
			node.names, node.children = append(node.names, name), append(node.children, next)
		}
		node = next
	}
	if node.slot < 0 {
		node.slot = len(s.slots)
		s.slots[key.String()] = node.slot
	}
	return node.slot
}

// scan looks through a document. It reports false if it is not simple.
func (s *scanner) scan(doc []byte, found [][][]byte) bool {
	for i := range found {
		found[i] = found[i][:0]
	}
	end, ok := s.root.scan(doc, 0, found, 0)
	return ok && end == len(doc)
}

// scan looks through the value that starts at i, and returns where it has ended.
func (n *scanNode) scan(doc []byte, i int, found [][][]byte, depth int) (end int, ok bool) {
	if i >= len(doc) || depth > maxScanDepth {
		return 0, false
	}
	start := i
	switch c := doc[i]; {
	case n == nil || len(n.names) == 0 && n.every == nil || c != '{' && c != '[':
		end = rawjson.ValueEnd(doc, i)
		ok = end > i && (c != '"' || doc[end-1] == '"')
	case c == '{':
		end, ok = n.object(doc, i, found, depth)
	default:
		end, ok = n.array(doc, i, found, depth)
	}
	if ok && n != nil && n.slot >= 0 {
		found[n.slot] = append(found[n.slot], doc[start:end])
	}
	return end, ok
}

func (n *scanNode) object(doc []byte, i int, found [][][]byte, depth int) (end int, ok bool) {
	var seen uint64 // names that were met: of two the last counts
	for i++; ; i++ {
		i = skipBlanks(doc, i)
		if i < len(doc) && doc[i] == '}' && seen == 0 {
			return i + 1, true
		}
		if i >= len(doc) || doc[i] != '"' {
			return 0, false
		}
		colon := rawjson.ValueEnd(doc, i)
		if colon-i < 2 || doc[colon-1] != '"' {
			return 0, false
		}
		name := doc[i+1 : colon-1]
		if len(n.names) > 0 && bytes.IndexByte(name, '\\') >= 0 {
			return 0, false
		}
		child := n.every
		for at, known := range n.names {
			if string(name) == known {
				if seen&(1<<(at%63)) != 0 || n.every != nil || len(n.names) > 62 {
					return 0, false
				}
				seen |= 1 << (at % 63)
				child = n.children[at]
			}
		}
		if i = skipBlanks(doc, colon); i >= len(doc) || doc[i] != ':' {
			return 0, false
		}
		if i, ok = child.scan(doc, skipBlanks(doc, i+1), found, depth+1); !ok {
			return 0, false
		}
		seen |= 1 << 63
		if i = skipBlanks(doc, i); i >= len(doc) {
			return 0, false
		}
		switch doc[i] {
		case ',':
		case '}':
			return i + 1, true
		default:
			return 0, false
		}
	}
}

func (n *scanNode) array(doc []byte, i int, found [][][]byte, depth int) (end int, ok bool) {
	if i = skipBlanks(doc, i+1); i < len(doc) && doc[i] == ']' {
		return i + 1, true
	}
	for ; ; i++ {
		if i, ok = n.every.scan(doc, skipBlanks(doc, i), found, depth+1); !ok {
			return 0, false
		}
		if i = skipBlanks(doc, i); i >= len(doc) {
			return 0, false
		}
		switch doc[i] {
		case ',':
		case ']':
			return i + 1, true
		default:
			return 0, false
		}
	}
}

func skipBlanks(doc []byte, i int) int {
	for i < len(doc) && rawjson.IsBlank(doc[i]) {
		i++
	}
	return i
}

// scanPick is what the fast path needs to know of a pick.
type scanPick struct {
	*Pick
	slots  []int // of its fields
	begins []int // of the ids of tools that begin
	ends   []int
	sums   []scanSum
	slow   bool // something is kept of its lines
}

type scanSum struct {
	at          int // in the sums of the preset
	value, once int // slots; below 0: none
	count       bool
}

// compileScan makes the fast path of p.
func (p *Preset) compileScan() {
	p.scanner, p.scanPicks = nil, nil
	if p.Parse != JSONL {
		return
	}
	s := newScanner()
	for _, pick := range p.picks {
		sp := scanPick{Pick: pick, slow: pick.kept || pick.session}
		slot := func(path path) int {
			n := s.add(path)
			sp.slow = sp.slow || n < 0
			return n
		}
		for _, f := range pick.fields {
			if n := s.add(f.path); n < 0 {
				return // no line can be told without it
			} else {
				sp.slots = append(sp.slots, n)
			}
		}
		for _, w := range p.waits {
			sp.slow = sp.slow || w.pick == pick.name
		}
		for _, b := range p.toolBegins {
			if b.pick == pick.name {
				sp.begins = append(sp.begins, slot(b.path))
			}
		}
		for _, e := range p.toolEnds {
			if e.pick == pick.name {
				sp.ends = append(sp.ends, slot(e.path))
			}
		}
		for i, sum := range p.sums {
			if sum.join && (sum.pick == pick.name || sum.after == pick.name) {
				sp.slow = true
			}
			if sum.pick != pick.name || sum.join {
				continue
			}
			sp.slow = sp.slow || sum.less != nil
			one := scanSum{at: i, value: -1, once: -1, count: sum.count}
			if sum.sum {
				one.value = slot(sum.path)
			}
			if sum.once != nil {
				one.once = slot(sum.once)
			}
			sp.sums = append(sp.sums, one)
		}
		p.scanPicks = append(p.scanPicks, sp)
	}
	p.scanner = s
}

// quick takes a document of which nothing is kept. It reports false, and takes nothing, if it is not such a
// document or not a simple one.
func (r *Reading) quick(doc []byte) bool {
	s := r.preset.scanner
	if s == nil {
		return false
	}
	if r.found == nil {
		r.found = make([][][]byte, len(s.slots))
	}
	if !s.scan(doc, r.found) {
		return false
	}
	r.fitting = r.fitting[:0]
	for i := range r.preset.scanPicks {
		p := &r.preset.scanPicks[i]
		fits := true
		for at, slot := range p.slots {
			if len(r.found[slot]) == 0 || !p.fields[at].is(r.found[slot][0]) {
				fits = false
				break
			}
		}
		if !fits {
			continue
		}
		if p.slow {
			return false
		}
		r.fitting = append(r.fitting, p)
	}
	var says sign
	for _, p := range r.fitting {
		r.quicklyPicked(p)
		says |= p.sign
	}
	r.sawLine(says)
	return true
}

// is reports whether a raw value is the one that is wanted.
func (f *fieldTest) is(raw []byte) bool {
	if len(f.quoted) > 0 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return bytes.Equal(raw, f.quoted)
	}
	return filter.ValueOf(raw).Equal(f.want)
}

// quicklyPicked is picked for lines of which nothing is kept.
func (r *Reading) quicklyPicked(p *scanPick) {
	r.at[p.name] = r.number
	r.signs.Known = true
	for _, slot := range p.begins {
		for _, id := range r.found[slot] {
			r.toolBegins(id)
		}
	}
	for _, slot := range p.ends {
		for _, id := range r.found[slot] {
			delete(r.tools, string(id))
		}
	}
	for _, sum := range p.sums {
		v := &r.values[sum.at]
		if sum.once >= 0 {
			var id []byte
			if found := r.found[sum.once]; len(found) > 0 {
				id = found[0]
			}
			if !v.first(id) {
				continue
			}
		}
		if sum.count {
			v.any = true
			v.sum++
			continue
		}
		for _, raw := range r.found[sum.value] {
			if f, ok := number(raw); ok {
				v.any = true
				v.sum += f
			}
		}
	}
}
