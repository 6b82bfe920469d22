package taint

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"

	"prodigy/internal/posix"
)

// inner returns a frame for code of the same shell and the same parameters.
func (f *shellFrame) inner() *shellFrame {
	in := *f
	in.set = f.owner()
	in.out = nil
	return &in
}

// branch returns the frame of code that may run or not.
func (t *analysis) branch(f *shellFrame, node any) *shellFrame {
	in := f.inner()
	in.cond++
	in.region = t.regionOf(f.region, node, region{})
	return in
}

// within returns f for one of several readings of the same code: what is assigned there need not be assigned.
func (t *analysis) within(f *shellFrame, node any) *shellFrame {
	in := *f
	in.set = f.owner()
	in.region = t.regionOf(f.region, node, region{})
	return &in
}

// fork returns the frame of a subshell, which changes nothing outside.
func (t *analysis) fork(f *shellFrame, node any) *shellFrame {
	in := *f
	in.region = t.regionOf(f.region, node, region{fork: true})
	own := f.owner()
	in.params, in.loose, in.moved = own.params, own.loose, own.moved
	in.set, in.out, in.fed = nil, nil, false
	in.cond++
	return &in
}

// call returns the frame of a function's body.
func (f *shellFrame) call(t *analysis, fn *syntax.FuncDecl, node any, params texts) *shellFrame {
	var guards []guard
	if node != any(fn) {
		guards = f.namedGuards()
	}
	return &shellFrame{
		guards: guards,
		ctx:    t.context(f.ctx, node, ""), proc: f.proc, depth: f.depth, cond: f.cond + 1, stdin: f.stdin, fed: f.fed,
		region: t.regionOf(f.region, regionNode{node, fn}, region{anytime: node == any(fn) || len(t.again[fn]) > 0}),
		params: params.with(t.again[fn]...), zero: f.owner().zero, chain: append(slices.Clip(f.chain), fn),
	}
}

// word returns what a word expands to where it is not split: in an assignment, say.
func (t *analysis) word(f *shellFrame, w *syntax.Word) texts {
	if w == nil {
		return empty
	}
	return flat(t.parts(f, w.Parts, inAssignment, w))
}

// argument returns what a word of a command expands to, words in one text.
func (t *analysis) argument(f *shellFrame, w *syntax.Word) texts {
	return t.parts(f, w.Parts, inCommand, w)
}

// wordPlace says what a shell does with the expansions in a word.
type wordPlace uint8

const (
	inCommand wordPlace = iota // splits them
	inAssignment
	inQuotes
	inHeredoc
)

func (t *analysis) parts(f *shellFrame, parts []syntax.WordPart, at wordPlace, node any) texts {
	out := empty
	for _, part := range parts {
		next := t.part(f, part, at)
		if len(next) == 0 {
			next = empty
		}
		out = t.joined(out, next, node)
	}
	return out
}

func (t *analysis) part(f *shellFrame, part syntax.WordPart, at wordPlace) texts {
	switch p := part.(type) {
	case *syntax.Lit:
		return texts{shell.Unescape(p.Value, map[wordPlace]string{inQuotes: shell.InDouble, inHeredoc: shell.InHeredoc}[at])}
	case *syntax.SglQuoted:
		text := p.Value
		if p.Dollar {
			text = shell.UnescapeAnsi(text)
		}
		if text == "" && at == inCommand {
			return texts{nothing}
		}
		return texts{text}
	case *syntax.DblQuoted:
		in := t.parts(f, p.Parts, inQuotes, p)
		if at == inCommand && slices.Contains(in, "") && !isAllParameters(p) {
			in = in.with(nothing)
			in = slices.DeleteFunc(slices.Clone(in), func(s string) bool { return s == "" })
		}
		return in
	case *syntax.ParamExp:
		in := t.expansion(f, p, at)
		if at == inCommand && !t.isOuterWord(p) {
			return t.split(in)
		}
		return in
	case *syntax.CmdSubst:
		in := t.substitution(f, p)
		if at == inCommand {
			return t.split(in)
		}
		return in
	case *syntax.ArithmExp:
		t.arithm(f, p.X)
		return t.opaque(p)
	case *syntax.ProcSubst:
		return t.processFile(f, p)
	case *syntax.ExtGlob:
		return texts{p.Op.String() + p.Pattern.Value + ")"}
	}
	return t.opaque(part)
}

func isAllParameters(q *syntax.DblQuoted) bool {
	if len(q.Parts) != 1 {
		return false
	}
	p, ok := q.Parts[0].(*syntax.ParamExp)
	return ok && p.Param != nil && (p.Param.Value == "@" || p.Index != nil)
}

// substitution returns what $(…) brings.
func (t *analysis) substitution(f *shellFrame, p *syntax.CmdSubst) texts {
	var out texts
	for _, text := range t.stmts(t.fork(f, p), p.Stmts) {
		out = out.with(strings.TrimRight(text, "\n"))
	}
	return t.change(out, func(m mark) mark { m.piped = false; return m })
}

// processFile returns the name of the file that <(…) or >(…) stands for.
func (t *analysis) processFile(f *shellFrame, p *syntax.ProcSubst) texts {
	name := t.mark(mark{source: -1, node: p})
	if p.Op == syntax.CmdIn {
		t.written(name, t.stmts(t.fork(f, p), p.Stmts))
	} else {
		own := f
		own.out = append(own.out, p)
	}
	return texts{name}
}

// expansion returns what $name, ${name…} brings.
func (t *analysis) expansion(f *shellFrame, p *syntax.ParamExp, at wordPlace) texts {
	if p.NestedParam != nil {
		return t.part(f, p.NestedParam, inAssignment)
	}
	if p.Param == nil {
		return t.opaque(p)
	}
	name := p.Param.Value
	t.subscript(f, name, p.Index)
	if p.Slice != nil {
		t.arithm(f, p.Slice.Offset)
		t.arithm(f, p.Slice.Length)
	}
	if p.Length || p.Width {
		return t.opaque(p)
	}
	in := t.value(f, name, p, at)
	switch {
	case p.Excl && p.Names == 0 && p.Index != nil:
		in = t.read(f, keysOf(name))
	case p.Excl && p.Names == 0:
		t.leak(sink{what: "${!" + name + "}", remedy: nameSink.remedy, least: likely}, t.dangerousNames(in)...)
		in = t.indirect(f, in, p)
	case p.Repl != nil:
		in = t.replaced(f, p, in)
	case p.Slice != nil:
		if name != "@" && name != "*" {
			in = t.remains(in, p, sure).with(in...)
			break
		}
		if in = t.sliced(f.owner().params); name == "*" || at == inAssignment || at == inHeredoc {
			in = flat(in)
		}
	case p.Exp != nil:
		in = t.operator(f, p, in)
	}
	return in
}

// value returns what a variable or the parameters hold, as the place takes them.
func (t *analysis) value(f *shellFrame, name string, p *syntax.ParamExp, at wordPlace) texts {
	own := f.owner()
	if name == "@" || name == "*" {
		in := own.params
		if name == "*" || at == inAssignment || at == inHeredoc {
			return flat(in)
		}
		return in
	}
	if isDigit(name[0]) {
		return t.parameter(f, name)
	}
	in := t.read(f, name)
	if !slices.ContainsFunc(in, func(s string) bool { return strings.Contains(s, itemEnd) }) {
		return in
	}
	index, _ := p.Index.(*syntax.Word)
	switch {
	case index != nil && index.Lit() == "@" && (at == inQuotes || at == inCommand):
		var out texts
		for _, text := range in {
			out = out.with(strings.ReplaceAll(text, itemEnd, fieldEnd))
		}
		return out
	case index != nil && (index.Lit() == "@" || index.Lit() == "*"):
		return flat(in)
	}
	return elements(in)
}

// parameter returns what $1 and its like hold. Behind a word that may be several, each place may hold anything that follows.
func (t *analysis) parameter(f *shellFrame, name string) texts {
	own := f.owner()
	if g := f.guardOf(name); g != nil && own.moved <= g.tick && !g.word {
		return t.opaque("$" + name)
	}
	n, err := strconv.Atoi(name)
	if err == nil && n == 0 && own.zero != nil {
		return t.named(own.zero, name)
	}
	if err != nil || n == 0 {
		return t.opaque("$0")
	}
	var out texts
	for _, text := range own.params {
		fields := fieldsOf(text)
		for i, x := range fields {
			switch {
			case own.loose || x.many && i < n:
				out = out.with(t.change(texts{x.text}, func(m mark) mark { m.sure = min(m.sure, sure); return m })...)
			case i == n-1 || i < n && slices.ContainsFunc(fields[:i], func(b field) bool { return b.many }),
				i >= n && slices.ContainsFunc(fields[:n], func(b field) bool { return b.many }):
				out = out.with(x.text)
			}
		}
	}
	if len(out) == 0 {
		out = empty
	}
	return t.named(out, name)
}

// sliced returns the parameters from any of them on.
func (t *analysis) sliced(in texts) texts {
	out := empty
	for _, text := range in {
		fields := fieldsOf(text)
		for from := range min(len(fields), maxTexts) {
			out = out.with(joinFields(fields[from:]))
		}
	}
	return t.bounded(out, "slice")
}

// indirect returns what the variables hold whose names the texts are.
func (t *analysis) indirect(f *shellFrame, names texts, node any) texts {
	var out texts
	for _, name := range names {
		name, index, _ := strings.Cut(name, "[")
		if syntax.ValidName(name) {
			t.arithText(f, strings.TrimSuffix(index, "]"), nil)
			out = out.with(t.read(f, name)...)
		} else if len(name) > 0 && isDigit(name[0]) {
			out = out.with(t.parameter(f, name)...)
		}
	}
	return out.with(t.remains(names, node, likely)...)
}

// replaced returns what ${x/a/b} brings. What has lost all but harmless characters is data no more.
func (t *analysis) replaced(f *shellFrame, p *syntax.ParamExp, in texts) texts {
	orig, with := t.word(f, p.Repl.Orig), t.word(f, p.Repl.With)
	if p.Repl.All && len(orig) == 1 && isStrictClass(orig[0]) {
		return t.opaque(p).with(with...)
	}
	return t.remains(append(slices.Clone(in), with...), p, sure).with(in...)
}

// isStrictClass reports whether a pattern is one of all characters but letters, digits and a few that no shell takes for more.
func isStrictClass(pattern string) bool {
	in, ok := strings.CutSuffix(strings.TrimPrefix(pattern, "["), "]")
	if !ok || pattern[0] != '[' || len(in) < 2 || in[0] != '!' && in[0] != '^' {
		return false
	}
	return isHarmless(strings.NewReplacer("[:alnum:]", "a", "[:alpha:]", "a", "[:digit:]", "0").Replace(in[1:]))
}

// isHarmless reports whether no character of a text means anything to a shell.
func isHarmless(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r >= 0x80 || !posix.IsNameByte(byte(r)) && !strings.ContainsRune("-.,:@%+", r)
	}) < 0
}

// operator returns what ${x:-word} and its like bring.
func (t *analysis) operator(f *shellFrame, p *syntax.ParamExp, in texts) texts {
	op := p.Exp.Op
	if op == syntax.OtherParamOps {
		switch p.Exp.Word.Lit() {
		case "P":
			t.leak(sink{what: "${" + p.Param.Value + "@P}", remedy: "the shell expands it as a prompt, so leave @P out", least: likely}, in...)
			return t.remains(in, p, sure)
		case "Q":
			return t.change(in, func(m mark) mark { m.quoted, m.inert = true, true; return m })
		case "A", "K", "k":
			return t.change(in, quotedOnce)
		}
		return in
	}
	word := empty
	if p.Exp.Word != nil {
		word = t.word(f, p.Exp.Word)
	}
	switch op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return word.with("")
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
		return t.orDefault(in, word)
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		mayBeEmpty := func(s string) bool { return s == "" || !isConstant(s) }
		if t.dominator(f, p.Param.Value) == nil || slices.ContainsFunc(in, mayBeEmpty) {
			t.assign(f, p.Param.Value, p, word, true)
		}
		return t.orDefault(in, word)
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return in
	}
	// A part of a text: the constant ones may change, the marks stay.
	var out texts
	for _, text := range in {
		if len(t.marksIn(text)) == 0 {
			out = out.with(text)
			out = out.with(t.opaque(p)...)
			continue
		}
		out = out.with(text)
		out = out.with(t.remains(texts{text}, p, sure)...)
	}
	return out
}

func quotedOnce(m mark) mark { m.quoted = true; return m }

func (t *analysis) orDefault(in, word texts) texts {
	var out texts
	for _, text := range in {
		if text != "" {
			out = out.with(text)
		}
	}
	return out.with(word...)
}

// read returns what a variable may hold here: what the assignments gave it that may have been the last ones before this place. The
// nearest of them is sure, unless it only added; the others are likely.
func (t *analysis) read(f *shellFrame, name string) texts {
	if n, ok := strings.CutPrefix(name, opaqueName); ok {
		return t.outerText(n)
	}
	if t.isGuarded(f, name) {
		return t.opaque("$" + name)
	}
	var out texts
	certain := true
	sites := t.vars[name]
	last := t.dominator(f, name)
	for _, late := range []bool{false, true} {
		for _, s := range slices.Backward(sites) {
			if s.over || (s.round != t.round) != late || !t.reaches(f, s, last) {
				continue
			}
			value := s.value
			if len(out) > maxTexts && !slices.ContainsFunc(value, hasMarks) {
				value = nil // bounded takes so many together, and keeps the marks only
			}
			if s.proc != f.proc && !t.isExported(name) {
				if !t.mayExport[s.proc] {
					continue
				}
				value = t.lowered(value, likely)
			} else if !certain || late {
				value = t.lowered(value, likely)
			}
			out = out.with(value...)
			if !late && !s.adds {
				certain = false
			}
		}
		certain = false
	}
	if i, ok := t.sourceOf[name]; ok && (last == nil || t.Inherited(name) && !t.Assigned(name)) {
		src := t.Sources[i]
		text := t.mark(mark{source: i, place: t.placeOf(src), sure: sure, quoted: src.Quoted, word: src.Word, inert: src.JSON})
		if src.List {
			text += several
		}
		out = out.with(text)
	} else if len(out) == 0 {
		out = t.unset(name)
	}
	if g := f.guardOf(name); g != nil && t.holds(g) {
		out = t.change(out, func(m mark) mark { m.word = true; return m })
	}
	return t.bounded(t.named(out, name), name)
}

// placeOf returns which of the places of a source the statement holds that is being interpreted, from 1, or 0 when it has only one.
func (t *analysis) placeOf(src Source) int {
	for i, p := range src.Places {
		if p.Start >= t.at {
			return i + 1
		}
	}
	return 0
}

// unset returns what a variable holds that the script does not set.
func (t *analysis) unset(name string) texts {
	switch name {
	case "SHELL", "BASH", "_":
		return texts{"sh"}
	case "IFS":
		return texts{" \t\n"}
	}
	return t.opaque("$" + name)
}

// export notes that the children of a shell see a variable, or with * all of them.
func (t *analysis) export(name string) {
	if !t.exported[name] {
		t.exported[name], t.changed = true, true
	}
}

// exportUnknown notes that this process may export any variable.
func (t *analysis) exportUnknown(f *shellFrame) {
	if !t.mayExport[f.proc] {
		t.mayExport[f.proc], t.changed = true, true
	}
}

func (t *analysis) isExported(name string) bool {
	return t.exported["*"] || t.exported[name] || t.Inherited(name)
}

// outerMark returns the mark that an expansion in nested code stands for.
func (t *analysis) outerMark(p *syntax.ParamExp) (mark, bool) {
	if p.Param == nil {
		return mark{}, false
	}
	number, ok := strings.CutPrefix(p.Param.Value, opaqueName)
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i >= len(t.marks) {
		return mark{}, false
	}
	return t.marks[i], true
}

// outerText returns what stands in nested code at the place of a mark. That data stands there was reported already.
func (t *analysis) outerText(number string) texts {
	i, err := strconv.Atoi(number)
	if err != nil || i >= len(t.marks) {
		return empty
	}
	m := t.marks[i]
	if m.source >= 0 && !m.quoted && !m.word {
		return t.opaque(m)
	}
	if m.quoted {
		m.quoted, m.inert = false, false
	}
	return texts{t.mark(m)}
}

func (t *analysis) lowered(in texts, to certainty) texts {
	return t.change(in, func(m mark) mark { m.sure = min(m.sure, to); return m })
}

// named notes in the marks the variable that they came through.
func (t *analysis) named(in texts, name string) texts {
	if i, ok := t.sourceOf[name]; ok && t.Sources[i].Placeholder {
		return in
	}
	return t.change(in, func(m mark) mark { m.via = name; return m })
}

// assign gives a variable a value.
func (t *analysis) assign(f *shellFrame, name string, node any, value texts, adds bool) *site {
	if name == "" {
		return nil
	}
	t.steers(name, value)
	if t.refs[name] {
		for _, text := range value {
			t.name(f, text)
		}
	}
	if t.integers[name] {
		for _, text := range value {
			t.arithText(f, text, nil)
		}
		value = t.opaque(node)
	}
	t.tick++
	key := siteKey{name, node, f.ctx}
	s := t.siteOf[key]
	if s == nil {
		s = &site{}
		t.siteOf[key] = s
		t.vars[name] = append(t.vars[name], s)
		t.changed = true
	}
	if s.round == t.round && s.tick > 0 { // another reading of the same code
		if s.within == nil {
			s.within = []int{s.region}
		}
		if !slices.Contains(s.within, f.region) {
			s.within = append(s.within, f.region)
		}
		s.region, s.blurred = t.common(s.region, f.region), s.blurred || s.region != f.region
	} else {
		s.region, s.within, s.blurred = f.region, nil, false
	}
	s.tick, s.round, s.adds, s.proc, s.over, s.always = t.tick, t.round, adds, f.proc, false, false
	merged := s.value.with(value...)
	if s.wide || len(merged) > maxTexts { // once taken together, only new marks are news
		s.wide = true
		merged = t.remains(merged, name, sure)
	}
	if merged = t.bounded(merged, name); !slices.Equal(merged, s.value) {
		s.value, t.changed = merged, true
	}
	slices.SortStableFunc(t.vars[name], func(a, b *site) int { return a.tick - b.tick })
	return s
}

// appended gives a variable what it held, with a value behind it.
func (t *analysis) appended(f *shellFrame, name string, node any, value texts) {
	key := siteKey{name, node, f.ctx}
	own := t.siteOf[key]
	if own != nil {
		own.over = true // what it made itself in an earlier round is not there yet
	}
	if t.vars[name] != nil {
		value = t.joined(t.read(f, name), value, node)
	}
	t.assign(f, name, node, value, true)
}

// written notes what was written to a file.
func (t *analysis) written(name string, content texts) {
	name = strings.TrimPrefix(name, "./")
	if strings.HasPrefix(name, "/dev/") || len(content) == 0 {
		return
	}
	merged := t.bounded(t.files[name].with(flat(content)...), name)
	if !slices.Equal(merged, t.files[name]) {
		t.files[name] = merged
		t.changed = true
	}
}

// content returns what is known to stand in a file.
func (t *analysis) content(f *shellFrame, name string) texts {
	switch name = strings.TrimPrefix(name, "./"); {
	case name == "-" || name == "/dev/stdin" || name == "/dev/fd/0" || name == "/proc/self/fd/0":
		return f.stdin
	case shell.IsDescriptor(name):
		return t.fds
	}
	return t.files[name]
}

func sortedNames[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// arithm interprets an arithmetic expression: bash evaluates the values of the names in it, whatever they hold.
func (t *analysis) arithm(f *shellFrame, x syntax.ArithmExpr) {
	switch n := x.(type) {
	case *syntax.Word:
		if n == nil {
			return
		}
		for _, text := range t.word(f, n) {
			t.arithText(f, text, nil)
		}
	case *syntax.BinaryArithm:
		if word, ok := n.X.(*syntax.Word); ok && n.Op == syntax.Assgn && syntax.ValidName(word.Lit()) {
			t.assign(f, word.Lit(), n, t.opaque(n), f.cond > 0)
		} else {
			t.arithm(f, n.X)
		}
		t.arithm(f, n.Y)
	case *syntax.UnaryArithm:
		t.arithm(f, n.X)
	case *syntax.ParenArithm:
		t.arithm(f, n.X)
	case *syntax.FlagsArithm:
		t.arithm(f, n.X)
	}
}

// arithText looks for data in a text that is evaluated, and in the variables that it names.
func (t *analysis) arithText(f *shellFrame, text string, seen []string) {
	if !t.isInertNumber(text) {
		t.leak(arithSink, text)
	}
	if !isConstant(text) {
		var b strings.Builder
		t.pieces(text, func(s string) { b.WriteString(s) }, func(int) { b.WriteByte(' ') })
		text = b.String()
	}
	for at := 0; at < len(text); {
		n := posix.NameLen(text[at:])
		if n == 0 {
			for at++; at < len(text) && at > 0 && isDigit(text[at-1]) && posix.IsNameByte(text[at]); at++ {
			}
			continue
		}
		name := text[at : at+n]
		at += n
		if rest := strings.TrimLeft(text[at:], " "); strings.HasPrefix(rest, "=") && !strings.HasPrefix(rest, "==") {
			continue // it is assigned, not read
		}
		if slices.Contains(seen, name) || len(seen) > maxDepth {
			continue
		}
		for _, value := range t.read(f, name) {
			for element := range strings.SplitSeq(value, itemEnd) {
				t.arithText(f, element, append(slices.Clip(seen), name))
			}
		}
	}
}

// subscript interprets the index of an array. That of an associative array is text.
func (t *analysis) subscript(f *shellFrame, name string, index syntax.ArithmExpr) {
	if index == nil {
		return
	}
	if word, ok := index.(*syntax.Word); ok && (t.maps[name] && !t.indexed[name] || word.Lit() == "@" || word.Lit() == "*") {
		t.word(f, word)
		return
	}
	if word, ok := index.(*syntax.Word); ok { // some shells expand it again: no text is inert there
		for _, text := range t.word(f, word) {
			t.arithText(f, "["+text, nil)
		}
		return
	}
	t.arithm(f, index)
}

// name interprets a text that a builtin takes for the name of a variable, and returns the names it may be.
func (t *analysis) name(f *shellFrame, text string) string {
	if t.isInert(text) {
		return ""
	}
	if !isConstant(text) {
		t.exportUnknown(f)
	}
	t.leak(nameSink, text)
	name, index, isElement := strings.Cut(text, "[")
	if isElement {
		t.arithText(f, strings.TrimSuffix(index, "]"), nil)
	}
	if !syntax.ValidName(name) {
		return ""
	}
	return name
}

// isOuterWord reports whether an expansion stands for a text of the code around this one that is quoted as one word.
func (t *analysis) isOuterWord(p *syntax.ParamExp) bool {
	m, ok := t.outerMark(p)
	return ok && m.quoted
}
