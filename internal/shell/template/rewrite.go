package template

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// assemble makes the template of the refs and their places. The heredocs come first, since a ref is written in another
// way where they lose their quotes; the exports are known when every ref has been resolved.
func (c *compiler) assemble() (*Template, error) {
	edits := c.heredocEdits()
	display := make([]piece, 0, 2*len(c.refs)+1)
	last := 0
	for i, r := range c.refs {
		script, shown := c.resolve(r)
		script.ref = i
		edits = append(edits, edit{[2]int{r.parseStart, c.parseEnd(i)}, script})
		display = append(display, constant(c.src[last:r.start]), shown)
		last = r.end
	}
	display = append(display, constant(c.src[last:]))
	c.finishExports()
	if c.file != nil {
		c.lintUnresolved(c.file)
	}
	pieces, ok := merge(c.parseText, edits)
	if !ok {
		c.fail(c.firstOffset(), codeInternal,
			"internal error: placeholders in this text cannot be told apart; please report this")
	}
	if err := c.failure(); err != nil {
		return nil, err
	}
	// Each placeholder is a variable of its own there, a list has one element, and code that is pasted is not known.
	unknown := slices.Repeat([][]string{{"${PRODIGY_RAW}"}}, len(c.slots))
	c.checkValues(write(pieces, c.slots, unknown, func(p *piece) string { return sentinelName + strconv.Itoa(p.ref) }))
	if err := c.failure(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.diags, func(a, b Diag) int { return cmp.Compare(a.Offset, b.Offset) })
	t := &Template{Diags: c.diags, pieces: pieces, display: display, slots: c.slots, roots: c.used}
	for _, use := range check.ByKey(c.exports) {
		t.slots = append(t.slots, *use)
	}
	t.argv, t.redirects = c.plainCommand(c.file)
	return t, nil
}

// write returns the script of pieces, with as many references as the lists have elements. The pieces that are pasted have
// their code in values, by slot, and the others refer to a variable.
func write(pieces []piece, slots []slot, values [][]string, variable func(*piece) string) string {
	var script strings.Builder
	for i := range pieces {
		p := &pieces[i]
		if p.slot < 0 {
			script.WriteString(p.text)
			continue
		}
		switch slots[p.slot].mode {
		case pastedCode:
			script.WriteString(values[p.slot][0])
		case separate:
			var elements []string
			for n := range values[p.slot] {
				elements = append(elements, unquoted.reference(variable(p)+"_"+strconv.Itoa(n)))
			}
			script.WriteString(encode(strings.Join(elements, " "), p.around))
		default:
			script.WriteString(encode(p.quote.reference(variable(p)), p.around))
		}
	}
	return script.String()
}

// merge applies the edits to the text. It returns false when they overlap.
func merge(text string, edits []edit) ([]piece, bool) {
	slices.SortFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.span[0], b.span[0]), cmp.Compare(a.span[1], b.span[1]))
	})
	pieces := make([]piece, 0, 2*len(edits)+1)
	last := 0
	for _, e := range edits {
		if e.span[0] < last {
			return nil, false
		}
		pieces = append(pieces, constant(text[last:e.span[0]]), e.piece)
		last = e.span[1]
	}
	return append(pieces, constant(text[last:])), true
}

// heredocEdits rewrites the quoted heredocs that hold values; the others stay as they are.
func (c *compiler) heredocEdits() []edit {
	var edits []edit
	for n := range c.heredocs {
		d := &c.heredocs[n]
		// One in nested code is filled in by the next shell.
		d.rewritten = slices.ContainsFunc(d.refs, func(at span) bool {
			r := c.refs[at.ref]
			return r.isValue() && len(r.places) == 1 && r.places[0].quote == quotedHeredoc && !c.shadowed(r)
		})
		if !d.rewritten {
			continue
		}
		edits = append(edits, d.edits(c.parseText)...)
		// For a ref in nested code it is the last of the quotes around that, as with sh <<'EOF'.
		for _, at := range d.refs {
			places := c.refs[at.ref].places
			for i := range places {
				if around := places[i].around; len(around) > 0 {
					around[len(around)-1] = heredoc
				} else {
					places[i].quote = heredoc
				}
			}
		}
	}
	return edits
}

// shadowed reports whether a ref that a shell could read too is a variable of the script.
func (c *compiler) shadowed(r *ref) bool {
	return (r.kind == simple || r.kind == short) && c.sets[r.expr.root]
}

// resolve decides what stands in the script for a ref, and what a reader is shown. In a comment only the root is
// written, since no value belongs there.
func (c *compiler) resolve(r *ref) (script, shown piece) {
	passthrough := constant(r.written)
	if len(r.places) != 1 {
		f := r.fault
		if f.code == "" {
			f = finding{codeInternal, r.written + " cannot be analyzed here; please report this"}
		}
		c.report(Error, r.start, f)
		return passthrough, passthrough
	}
	p := r.places[0]
	switch {
	case p.escaped:
		return c.escaped(r, p), passthrough
	case p.quote == comment && (r.kind == dotted || r.kind == simple && !c.shadowed(r)):
		return constant(r.expr.root), passthrough
	case p.quote == comment:
		return passthrough, passthrough
	case r.kind == unknownRef:
		return c.unknownRef(r, p), passthrough
	case c.shadowed(r):
		return c.asWritten(r), passthrough
	case c.refuses(r, p):
		return passthrough, passthrough
	case r.kind == literal:
		return constant(encode(p.quote.write(r.written[1:]), p.around)), passthrough
	}
	return c.fill(r, p)
}

// escaped leaves \${…} to the shell, which makes text of it.
func (c *compiler) escaped(r *ref, p place) piece {
	if p.backquotes > 0 && r.kind == dotted {
		c.fail(r.start, codeEscaped, "%s follows a backslash in backquotes; use $(...)", r.written)
	}
	if r.kind == simple || r.kind == short {
		c.nativeUse(r.expr.root, quoteContext{}, false, p.child)
	}
	return c.asWritten(r)
}

// unknownRef leaves a dotted name of nobody where it is text, and refuses it where the shell would choke on it, or
// prodigy is surely meant.
func (c *compiler) unknownRef(r *ref, p place) piece {
	if c.sets[r.root()] && !looksDotted(r.written[len("${")+len(r.root()):]) {
		return c.asWritten(r) // a variable of the script, with an operator of the shell
	}
	if p.quote != single && p.quote != ansi && p.quote != quotedHeredoc && (len(p.around) > 0 || !c.inRewritten(r)) {
		c.report(Error, r.start, r.fault)
		return constant(r.written)
	}
	if r.meant {
		c.fail(r.start, r.fault.code, "%s%s", r.fault.text, asText(r.written))
		return constant(r.written)
	}
	return c.asWritten(r)
}

// asWritten returns the text of a ref. In a heredoc that loses its quotes the text needs backslashes.
func (c *compiler) asWritten(r *ref) piece {
	if c.inRewritten(r) {
		return constant(heredoc.write(r.written))
	}
	return constant(r.written)
}

// refuses reports why a ref cannot stand at its place.
func (c *compiler) refuses(r *ref, p place) bool {
	f := r.fault
	switch {
	case r.kind == literal && (p.number && p.quote == arithmetic):
		f = finding{codeImpossible, r.written + " is literal text, which cannot be used in arithmetic"}
	case r.kind == literal && p.backquotes > 0 && p.quote != unquoted && p.quote != single:
		f = finding{codeEscaped, r.written + " cannot be used in backquotes; use $(...)"}
	case f.code != "":
	// A number, or a word that prodigy made, does no harm where the shell evaluates what stands there.
	case p.fault.code != "" && !(p.evaluated && r.kind != literal && r.expr != nil && (r.expr.has("int") || c.isTrusted(r.expr))):
		f = finding{p.fault.code, r.written + " " + p.fault.text}
	case r.kind != literal && r.expr.has("raw") && !p.data && (p.backquotes > 0 || len(p.around) > 0):
		f = finding{codeRawThere, r.written + " inserts code into nested code or backquotes; use $(...)"}
	case r.kind != literal && r.expr.isList():
		f = misplacedList(r, p)
	}
	if f.code != "" {
		c.report(Error, r.start, f)
	}
	return f.code != ""
}

// misplacedList returns what is wrong with a list at a place that takes one word only.
func misplacedList(r *ref, p place) finding {
	switch {
	case p.command:
		return finding{codeListPlace, r.written + " is a list and cannot be a command name"}
	case p.number && !p.words:
		return finding{codeListPlace, r.written + " is a list and cannot be used in arithmetic"}
	case p.quote == unquoted && !p.words && !p.joinsList:
		return finding{codeListPlace, r.written + " is a list and must be a separate word; quote it to join it with spaces"}
	}
	return finding{}
}

// fill makes the slot of a ref. A $name where the shell expands it needs none: the shell finds the value in its
// environment under that name. In single quotes and arithmetic it is filled in like ${name}.
func (c *compiler) fill(r *ref, p place) (script, shown piece) {
	if r.kind == short && !p.number && (p.quote == unquoted || p.quote == double || p.quote == heredoc &&
		(len(p.around) > 0 || !c.inRewritten(r))) {
		c.lintShortPath(r.expr.root, r.start, r.end)
		c.nativeUse(r.expr.root, p.quoteContext, true, p.child)
		// The shell that runs the nested code is to expand it, not the one that reads its quotes.
		if len(p.around) > 0 {
			return constant(encode(r.written, p.around)), constant(r.written)
		}
		return c.asWritten(r), constant(r.written)
	}
	// The slot is the same for the same value in the same form.
	s := slot{expr: r.expr, written: r.written, mode: modeOf(r, p), number: p.number, plain: p.plain}
	key := fmt.Sprint(s.mode, s.number, s.plain, r.expr)
	i, ok := c.slotIndex[key]
	if !ok {
		i = len(c.slots)
		s.variable = sentinelName + strconv.Itoa(i)
		c.slots = append(c.slots, s)
		c.slotIndex[key] = i
	}
	c.slots[i].child = c.slots[i].child || p.child
	r.filled, r.slot = true, i
	script = piece{text: r.written, slot: i, quote: p.quote, around: p.around}
	shown = script
	if c.inRewritten(r) && len(p.around) == 0 {
		shown.quote = quotedHeredoc
	}
	c.lintPlace(r, p)
	c.used[r.expr.root] = true
	return script, shown
}
