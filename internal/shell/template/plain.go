package template

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/shell"
)

// Plain is a text without a shell: a prompt, a value of env, a path.
type Plain struct {
	Diags []Diag // warnings

	pieces []piece
	slots  []slot
}

// CompilePlain compiles such a text. Placeholders are replaced by their values as they are, and $$ is a dollar.
// An unknown name is an error, since nobody after prodigy gives it a value. The error is a *CompileError.
func CompilePlain(src string, n Names) (*Plain, error) { return compilePlain(src, n, false) }

// CompileEarly is CompilePlain for a text that is bound before all names are known: an unknown name stays as it
// is, unless it looks like a mistyped one.
func CompileEarly(src string, n Names) (*Plain, error) { return compilePlain(src, n, true) }

// compilePlain reads the text as a script that no shell sees. An early text keeps its $$, as it keeps unknown names.
func compilePlain(src string, n Names, early bool) (*Plain, error) {
	early = early || n.open
	c := newCompiler(src, Options{Names: n})
	c.noShell = true
	if err := c.scan(); err != nil {
		return nil, err
	}
	c.refuseUnknown(early)
	constantText := func(s string) string {
		if early {
			return s
		}
		return strings.ReplaceAll(s, "$$", "$")
	}
	p := &Plain{}
	last := 0
	for _, r := range c.refs {
		p.pieces = append(p.pieces, constant(constantText(src[last:r.start])), c.plainPiece(r, early))
		if at := len(p.pieces) - 1; p.pieces[at].slot >= 0 {
			p.pieces[at].slot = len(p.slots)
			p.slots = append(p.slots, slot{expr: r.expr, written: r.written})
		}
		last = r.end
	}
	// ${name%.txt}, ${#name} and their like, which only a shell can do.
	for _, u := range c.natives {
		message := u.written + " is not a placeholder: a name, as in ${item.name}, may be followed by a default, as in ${item.name:-none}, or a filter, as in ${item.name|url}" +
			asText(u.written)
		if open, ends := strings.CutSuffix(u.written, ".}"); ends {
			message = fmt.Sprintf("%s needs a field name: %s.name}", u.written, open)
		}
		c.fail(u.offset, codePlaceholder, "%s", message)
	}
	p.pieces = append(p.pieces, constant(constantText(src[last:])))
	for _, d := range c.diags {
		if d.Severity == Warning {
			p.Diags = append(p.Diags, d)
		}
	}
	return p, c.failure()
}

// asText is what an error about an unknown name adds.
func asText(written string) string { return "; use $" + written + " for the literal text" }

// refuseUnknown reports each ${name} of nobody, or early only those that look like a name of prodigy, and makes
// text of $${name}.
func (c *compiler) refuseUnknown(early bool) {
	for _, u := range c.undeclared {
		text, meant := c.unknown("${"+u.name+"}", u.name)
		switch {
		case early && !meant:
		case strings.HasPrefix(u.written, "$$"):
			c.refs = append(
				c.refs, &ref{kind: literal, start: u.offset, end: u.offset + len(u.written), written: u.written},
			)
		default:
			c.fail(u.offset, codeUnknown, "%s%s", text, asText(u.written))
		}
	}
	slices.SortFunc(c.refs, func(a, b *ref) int { return cmp.Compare(a.start, b.start) })
}

// plainPiece returns what a ref becomes.
func (c *compiler) plainPiece(r *ref, early bool) piece {
	switch {
	case r.kind == literal:
		return constant(r.written[1:])
	case r.kind == unknownRef:
		// Early, only what is nearly a name of prodigy is an error: the root may be known later.
		if !early || r.meant {
			r.fault.text += asText(r.written)
			c.report(Error, r.start, r.fault)
		}
		return constant(r.written)
	case r.fault.code != "":
		c.report(Error, r.start, r.fault)
	case r.kind == short:
		c.lintShortPath(r.expr.root, r.start, r.end)
	}
	return piece{text: r.written, quote: asIs}
}

// Before returns the text before its first placeholder whose root is one of those, or nil when it has no such
// placeholder.
func (p *Plain) Before(of func(root string) bool) *Plain {
	for i, part := range p.pieces {
		if part.slot >= 0 && of(p.slots[part.slot].expr.root) {
			return &Plain{pieces: p.pieces[:i], slots: p.slots[:part.slot]}
		}
	}
	return nil
}

// Data returns the first placeholder, as written, whose value comes from an item, a command or a parameter. A
// value of the environment that prodigy was started with is not meant, nor one that the workflow file or
// prodigy itself has made.
func (p *Plain) Data(n Names) (written string, ok bool) {
	c := &compiler{scanner: &scanner{names: n}}
	for _, s := range p.slots {
		if is, _ := n.Lookup(s.expr.root); !is.Constant && s.expr.root != "env" && !c.isTrusted(s.expr) {
			return s.written, true
		}
	}
	return "", false
}

// Bind returns the text with its values. The error is a *BindError.
func (p *Plain) Bind(r Resolver) (string, error) {
	return p.Fill(r, func(_, _, value string) (string, error) { return value, nil })
}

// Turn makes of a value what takes its place. It gets the constant text before it, from the value before, and
// how it is written.
type Turn func(before, written, value string) (string, error)

// Fill is Bind with each value turned.
func (p *Plain) Fill(r Resolver, turn Turn) (string, error) {
	return p.with(turn, func(s *slot) (string, error) {
		list, err := s.list(r)
		return strings.Join(list, " "), err
	})
}

// Sample is Fill with the same value in every place.
func (p *Plain) Sample(value string, turn Turn) (string, error) {
	return p.with(turn, func(*slot) (string, error) { return value, nil })
}

func (p *Plain) with(turn Turn, value func(*slot) (string, error)) (string, error) {
	var b strings.Builder
	before := ""
	for _, part := range p.pieces {
		if part.slot < 0 {
			b.WriteString(part.text)
			before += part.text
			continue
		}
		s := &p.slots[part.slot]
		text, err := value(s)
		if err == nil {
			text, err = turn(before, s.written, text)
		}
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		before = ""
	}
	return b.String(), nil
}

// Render is Bind for display: a placeholder without a value stays as it was written.
func (p *Plain) Render(r Resolver) string { return render(p.pieces, p.slots, r) }

// Expression is one placeholder that stands alone: its value keeps its kind.
type Expression struct {
	expr    *expr
	written string
}

// CompileExpression compiles what would stand between the braces of a placeholder. The error is a *CompileError.
func CompileExpression(inner string, n Names) (*Expression, error) {
	src := "${" + inner + "}"
	c := newCompiler(src, Options{Names: n})
	if err := c.scan(); err != nil {
		return nil, err
	}
	if len(c.refs) != 1 || c.refs[0].start != 0 || c.refs[0].end != len(src) {
		line, _, _ := strings.Cut(inner, "\n")
		text := fmt.Sprintf("%q is not a value (use item.name or ${item.name})", line[:min(len(line), 60)])
		if shell.IsName(inner) {
			text, _ = c.unknown(src, inner)
		}
		c.fail(0, codeUnknown, "%s", text)
		return nil, c.failure()
	}
	r := c.refs[0]
	if r.fault.code != "" {
		c.report(Error, r.start, r.fault)
	}
	return &Expression{expr: r.expr, written: r.written}, c.failure()
}

// Operand returns the value as one side of a comparison, or false if it is missing. A text has no type there, so that it
// can be compared with a number. The error is a *BindError.
func (s *Expression) Operand(r Resolver) (filter.Value, bool, error) {
	list, err := s.expr.values(r, s.written)
	missing, ok := errors.AsType[*BindError](err)
	switch {
	case ok && missing.Missing:
		return filter.Value{}, false, nil
	case err != nil:
		return filter.Value{}, false, err
	case len(list) != 1 || s.expr.isList():
		elements := check.Each(list, Value.literal)
		return filter.ValueOf([]byte("[" + strings.Join(elements, ",") + "]")), true, nil
	case len(list[0].raw) > 0:
		return filter.ValueOf(list[0].raw), true, nil
	}
	return filter.Untyped(list[0].String()), true, nil
}
