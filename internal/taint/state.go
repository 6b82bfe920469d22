package taint

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

type analysis struct {
	Script
	found     []Finding
	marks     []mark
	markIndex map[mark]int

	sourceOf map[string]int       // of Sources, by the variable that brings it
	starts   map[*syntax.Stmt]int // of the statements of the script itself, not of code in it
	at       int                  // where the innermost of them begins that is being interpreted

	dataFiles  map[string]int // by the variable with the name of the file that brings it
	vars       map[string][]*site
	siteOf     map[siteKey]*site
	integers   map[string]bool // variables that the shell evaluates whenever they are assigned
	maps       map[string]bool // associative arrays, whose subscripts are text
	mapped     map[string]bool // those that are declared so far
	indexed    map[string]bool // arrays of numbers, which stay so
	exported   map[string]bool
	files      map[string]texts   // what was written to files, by their names
	refs       map[string]bool    // variables that stand for others
	redirected []*syntax.Redirect // of exec: what all that follows prints to
	numbered   []*syntax.Redirect // of descriptors other than 1
	fds        texts              // what descriptors other than the standard ones bring
	funcs      map[string][]*syntax.FuncDecl
	called     map[*syntax.FuncDecl]bool
	again      map[*syntax.FuncDecl]texts // what functions that call themselves are given then
	aliases    map[string]texts
	contexts   map[contextKey]int
	parsed     map[string]*syntax.File

	regions     []region
	regionIndex map[regionKey]int
	readonly    map[string]bool // variables that an assignment may not change
	hasRefs     bool            // a variable stands for another, so that the order of assignments says nothing
	mayExport   map[int]bool    // the processes in which code that is not known may export variables
	mayBeDash   bool            // what only bash knows may do nothing, or something else
	lastInShell bool            // the last command of a pipe runs in the shell itself

	round     int
	tick      int
	steps     int
	changed   bool
	last      bool // the round that reports
	exhausted bool
	tooDeep   bool
	usesLast  bool // the script uses $_
	otherIFS  bool // words may be split at other characters than blanks
	merged    bool // the script joins its standard error to its output
}

// site is an assignment to a variable.
type site struct {
	tick    int
	round   int
	region  int
	within  []int // the regions of the readings that region is around, when it is blurred
	proc    int   // the process that makes it
	value   texts
	adds    bool // to what the variable holds already
	over    bool // it held for one command, which has run
	always  bool // whichever shell runs the code
	blurred bool // it stands for several readings of the same code
	wide    bool // it had too many values to follow one by one
}

type siteKey struct {
	name string
	node any
	ctx  int
}

type contextKey struct {
	outer int
	node  any
	text  string
}

// context returns the number of a way into code: what is assigned on one way is not mixed with what is assigned on another.
func (t *analysis) context(outer int, node any, text string) int {
	key := contextKey{outer, node, text}
	n, ok := t.contexts[key]
	if !ok {
		n = len(t.contexts) + 1
		t.contexts[key] = n
	}
	return n
}

// opaqueName begins the names that stand in nested code for marks.
const opaqueName = "PRODIGY_X"

func opaqueVariable(i int) string { return opaqueName + strconv.Itoa(i) }

// guard is a variable of which the script has checked what it holds, since when: a number or one of some constant texts, or just a word
// of letters and digits.
type guard struct {
	name string
	tick int
	word bool
}

// shellFrame is where a command is interpreted: in a function, in nested code, behind a pipe.
type shellFrame struct {
	ctx    int
	region int
	proc   int // the process of a shell; variables that are not exported stay in theirs
	depth  int
	cond   int         // it may run or not, or more than once
	stdin  texts       // what it may read
	params texts       // its positional parameters, words in one text
	zero   texts       // $0
	loose  bool        // the parameters move in a loop, so that each may be anywhere
	moved  int         // when the parameters were set last
	set    *shellFrame // whose parameters set and shift change; nil: its own
	guards []guard
	fed    bool                // the shell reads its code from its input
	chain  []*syntax.FuncDecl  // the functions around it
	out    []*syntax.ProcSubst // >(…) of the command under way
}

func (f *shellFrame) owner() *shellFrame {
	if f.set != nil {
		return f.set
	}
	return f
}

// keysOf is the variable that stands for the keys of an array.
func keysOf(name string) string { return name + "[" }

// joinFields returns words in one text.
func joinFields(words []field) string {
	all := make([]string, len(words))
	for i, x := range words {
		all[i] = x.text
		if x.text == "" {
			all[i] = nothing
		}
		if x.many {
			all[i] += several
		}
	}
	return strings.Join(all, fieldEnd)
}

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
		if t.regions[r].anytime {
			return true
		}
		if t.regions[r].loop && (t.contains(r, s.region) || slices.ContainsFunc(s.within, func(in int) bool { return t.contains(r, in) })) {
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

// A text of the analysis is what a word may expand to: constant text with marks in it. A mark stands for a part that is known only when
// the script runs. It is written as its number between NUL bytes, which no script can hold.
//
// fieldEnd separates the words that an expansion splits into, itemEnd the elements of an array. several follows a mark that a shell
// may split into any number of words.
const (
	markByte = "\x00"
	fieldEnd = "\x01"
	itemEnd  = "\x02"
	several  = "\x03"
	nothing  = "\x04" // a word of quotes with nothing between them
)

const (
	maxTexts   = 16   // that a word may expand to, before they are taken together
	maxTextLen = 8192 // of one of them
)

// certainty says how surely a value gets somewhere.
type certainty uint8

const (
	perhaps certainty = iota // a program that the analysis does not know has been given it
	likely                   // on some path, or changed by a program that copies its input
	sure
)

// mark is a part of a text that only a run knows. A mark of no source is harmless: its node keeps it apart from others.
type mark struct {
	source int // -1: none
	place  int // of the source, from 1; 0: its only one
	sure   certainty
	word   bool   // |url leaves no character that a shell takes for more than a letter
	quoted bool   // |sh, ${x@Q} and printf %q bring quotes that hold for one more shell
	inert  bool   // it is JSON or begins with a quote: alone it is no number, no name and no program
	via    string // the variable it came through last; empty: none
	piped  bool   // through the pipe of a program that is not known
	node   any
}

// texts are the alternatives of what a word may expand to. No texts at all: nothing is known of it yet.
type texts []string

var empty = texts{""}

func (a texts) with(b ...string) texts {
	out := a
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(slices.Clip(out), s)
		}
	}
	return out
}

// mark returns the text of m.
func (t *analysis) mark(m mark) string {
	i, ok := t.markIndex[m]
	if !ok {
		i = len(t.marks)
		t.marks = append(t.marks, m)
		t.markIndex[m] = i
	}
	return markByte + strconv.Itoa(i) + markByte
}

// opaque returns the text of what cannot be known and brings no data.
func (t *analysis) opaque(node any) texts { return texts{t.mark(mark{source: -1, node: node})} }

// pieces calls constant and marked with the parts of a text, in order.
func (t *analysis) pieces(text string, constant func(string), marked func(i int)) {
	for text != "" {
		before, rest, ok := strings.Cut(text, markByte)
		if before != "" {
			constant(before)
		}
		if !ok {
			return
		}
		number, after, _ := strings.Cut(rest, markByte)
		i, err := strconv.Atoi(number)
		if err != nil {
			return
		}
		marked(i)
		text = after
	}
}

// marksIn returns the marks of values in the texts.
func (t *analysis) marksIn(all ...string) []mark {
	var found []mark
	for _, text := range all {
		if !strings.Contains(text, markByte) {
			continue
		}
		t.pieces(text, func(string) {}, func(i int) {
			if m := t.marks[i]; m.source >= 0 && !slices.Contains(found, m) {
				found = append(found, m)
			}
		})
	}
	return found
}

// change returns the texts with each mark of a value replaced.
func (t *analysis) change(in texts, change func(m mark) mark) texts {
	if !slices.ContainsFunc(in, hasMarks) {
		return in
	}
	var out texts
	for _, text := range in {
		if !hasMarks(text) {
			out = out.with(text)
			continue
		}
		var b strings.Builder
		t.pieces(text, func(s string) { b.WriteString(s) }, func(i int) {
			m := t.marks[i]
			if m.source >= 0 {
				m = change(m)
			}
			b.WriteString(t.mark(m))
		})
		out = out.with(b.String())
	}
	return out
}

// remains returns what a program may print that has been given the texts: something unknown, and the values in them.
func (t *analysis) remains(in []string, node any, at certainty) texts {
	var b strings.Builder
	b.WriteString(t.mark(mark{source: -1, node: node}))
	for _, m := range t.marksIn(in...) {
		m.sure, m.quoted, m.inert = min(m.sure, at), false, false
		b.WriteString(t.mark(m))
	}
	return texts{b.String()}
}

// bounded takes the texts together when they have become too many or too long to follow one by one.
func (t *analysis) bounded(in texts, node any) texts {
	if len(in) <= maxTexts && !slices.ContainsFunc(in, func(s string) bool { return len(s) > maxTextLen }) {
		return in
	}
	return t.remains(in, node, sure)
}

// joined returns every text of a followed by every text of b.
func (t *analysis) joined(a, b texts, node any) texts {
	if len(a) == 0 || len(b) == 0 {
		return append(slices.Clone(a), b...)
	}
	if len(b) == 1 && b[0] == "" {
		return a
	}
	if len(a) == 1 && a[0] == "" {
		return b
	}
	if len(a)*len(b) > 4*maxTexts {
		return t.remains(slices.Concat(a, b), node, sure)
	}
	var out texts
	for _, x := range a {
		for _, y := range b {
			out = out.with(x + y)
		}
	}
	return t.bounded(out, node)
}

// split returns the texts as an expansion outside quotes splits them.
func (t *analysis) split(in texts) texts {
	var out texts
	for _, text := range in {
		if !strings.ContainsAny(text, " \t\n"+markByte) {
			out = out.with(text)
			continue
		}
		if t.otherIFS {
			out = out.with(flat(t.notInert(texts{text}))[0] + several)
		}
		var b strings.Builder
		t.pieces(text, func(s string) {
			for i := 0; i < len(s); i++ {
				if strings.IndexByte(" \t\n", s[i]) >= 0 {
					b.WriteString(fieldEnd)
					continue
				}
				b.WriteByte(s[i])
			}
		}, func(i int) {
			m := t.marks[i]
			if m.inert && !t.otherIFS { // what it begins with is not split off
				b.WriteString(t.mark(m) + fieldEnd)
			}
			m.inert = false
			b.WriteString(t.mark(m) + several)
		})
		out = out.with(b.String())
	}
	return out
}

// flat returns the texts as one word each: what separates words and elements becomes a blank.
func flat(in texts) texts {
	r := strings.NewReplacer(fieldEnd, " ", itemEnd, " ", several, "", nothing, "")
	var out texts
	for _, text := range in {
		if strings.ContainsAny(text, fieldEnd+itemEnd+several+nothing) {
			text = r.Replace(text)
		}
		out = out.with(text)
	}
	return out
}

// elements returns each element of arrays.
func elements(in texts) texts {
	var out texts
	for _, text := range in {
		out = out.with(flat(strings.Split(text, itemEnd))...)
	}
	return out
}

// field is one word of a command.
type field struct {
	text string
	many bool // it may be several words, or none
}

// isInert reports whether a text begins with a word that is no name and no program, whatever the value in it says.
func (t *analysis) isInert(text string) bool {
	number, rest, ok := strings.Cut(strings.TrimPrefix(text, markByte), markByte)
	if !ok || !strings.HasPrefix(text, markByte) || rest != "" && rest[0] != ' ' && rest[0] != '\n' {
		return false
	}
	i, err := strconv.Atoi(number)
	return err == nil && t.marks[i].inert
}

// isInertNumber reports whether an expression runs nothing, whatever the values in it say: they are numbers, or no part of any expression.
func (t *analysis) isInertNumber(text string) bool {
	inert := true
	t.pieces(text, func(s string) { inert = inert && !strings.Contains(s, "[") }, func(i int) { inert = inert && (t.marks[i].inert || t.marks[i].source < 0) })
	return inert
}

// notInert returns the texts after something has cut them.
func (t *analysis) notInert(in texts) texts {
	return t.change(in, func(m mark) mark { m.inert = false; return m })
}

// dangerousNames returns the texts without those that are no names.
func (t *analysis) dangerousNames(in texts) texts {
	return slices.DeleteFunc(slices.Clone(in), t.isInert)
}

// fieldsOf splits a text into words. An expansion outside quotes that comes to nothing is no word.
func fieldsOf(text string) []field {
	if text == "" {
		return nil
	}
	var fields []field
	for word := range strings.SplitSeq(text, fieldEnd) {
		if word == "" {
			continue
		}
		f := field{text: flat(texts{word})[0], many: strings.Contains(word, several)}
		fields = append(fields, f)
	}
	return fields
}

func textsOf(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.text
	}
	return all
}

func hasMarks(text string) bool { return strings.Contains(text, markByte) }

// isConstant reports whether nothing of a text depends on a run.
func isConstant(text string) bool { return !strings.Contains(text, markByte) }

// startsUnknown reports whether a text begins with something that only a run knows.
func startsUnknown(text string) bool { return strings.HasPrefix(text, markByte) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
