package template

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// Plain is a text without a shell: a prompt, a value of env, a path.
type Plain struct {
	Diags []Diag // warnings

	src string

	// parts make up the text, in order. The last one has no slot.
	parts []plainPart
}

// plainPart is constant text, and then a value unless slot is nil.
type plainPart struct {
	text string
	slot *slot
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
	p := &Plain{src: src}
	last := 0
	for _, r := range c.refs {
		p.parts = append(p.parts, c.plainPart(r, constantText(src[last:r.start]), early))
		last = r.end
	}
	// ${name%.txt}, ${#name} and their like, which only a shell can do.
	for _, u := range c.natives {
		message := u.written + " is not a placeholder: a name, as in ${item.name}, may be followed by a default, as in ${item.name:-none}, or a filter, as in ${item.name|url}" +
			asText(u.written)
		if open, ends := strings.CutSuffix(u.written, ".}"); ends {
			message = fmt.Sprintf("%s needs a field name: %s.name}", u.written, open)
		}
		c.report(Error, u.offset, finding{codePlaceholder, message})
	}
	p.parts = append(p.parts, plainPart{text: constantText(src[last:])})
	c.lintBracesOfOthers()
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
		text := c.unresolved(u.name)
		if text == "" && !early {
			text = c.unknownInText(u.name)
		}
		switch {
		case text == "":
		case strings.HasPrefix(u.written, "$$"):
			c.refs = append(
				c.refs, &ref{kind: literal, start: u.offset, end: u.offset + len(u.written), written: u.written},
			)
		default:
			c.report(Error, u.offset, finding{codeUnknown, text + asText(u.written)})
		}
	}
	slices.SortFunc(c.refs, func(a, b *ref) int { return cmp.Compare(a.start, b.start) })
}

// unknownInText says what is wrong with a ${name} of nobody in a text that no shell reads.
func (s *scanner) unknownInText(name string) string {
	if name == strings.ToUpper(name) {
		return fmt.Sprintf(
			"${%s} is not a prodigy value, and no shell expands this text: use ${env.%s} for the environment variable",
			name, name,
		)
	}
	if name == "output" && s.known("last") {
		return "${output} is not a prodigy value, and no shell expands this text: use ${last.output}"
	}
	return fmt.Sprintf(
		"${%s} is not a prodigy value, and no shell expands this text (known: %s)", name,
		strings.Join(s.names.all(), ", "),
	)
}

// plainPart returns what a ref becomes, with the constant text before it.
func (c *compiler) plainPart(r *ref, before string, early bool) plainPart {
	switch {
	case r.kind == literal:
		return plainPart{text: before + r.written[1:]}
	case r.kind == unknownRef:
		// Early, only what is nearly a name of prodigy is an error: the root may be known later.
		if !early || strings.Contains(r.fault.text, "did you mean") || knownOnly(r.root()) != "" {
			r.fault.text += asText(r.written)
			c.report(Error, r.start, r.fault)
		}
		return plainPart{text: before + r.written}
	case r.fault.code != "":
		c.report(Error, r.start, r.fault)
	case r.kind == short:
		c.lintShortPath(r.expr.root, r.start, r.end)
	}
	return plainPart{text: before, slot: &slot{expr: r.expr, written: r.written, mode: oneText}}
}

// Before returns the text before its first placeholder whose root is one of those, or nil when it has no such
// placeholder.
func (p *Plain) Before(of func(root string) bool) *Plain {
	for i, part := range p.parts {
		if part.slot != nil && of(part.slot.expr.root) {
			return &Plain{src: p.src, parts: append(slices.Clone(p.parts[:i]), plainPart{text: part.text})}
		}
	}
	return nil
}

// Data returns the first placeholder, as written, whose value comes from an item, a command or a parameter. A
// value of the environment that prodigy was started with is not meant, nor one that the workflow file or
// prodigy itself has made.
func (p *Plain) Data(n Names) (written string, ok bool) {
	c := &compiler{scanner: &scanner{names: n}}
	for _, part := range p.parts {
		if part.slot == nil || part.slot.expr == nil || part.slot.expr.root == "env" || c.isTrusted(part.slot.expr) {
			continue
		}
		if is, _ := n.Lookup(part.slot.expr.root); !is.Constant {
			return part.slot.written, true
		}
	}
	return "", false
}

// Uses reports whether the text holds a placeholder whose root is this name.
func (p *Plain) Uses(root string) bool {
	return slices.ContainsFunc(
		p.parts, func(part plainPart) bool { return part.slot != nil && part.slot.expr.root == root },
	)
}

// Bind returns the text with its values. The error is a *BindError.
func (p *Plain) Bind(r Resolver) (string, error) {
	return p.with(func(_ string, s *slot) (string, error) { return s.text(r) })
}

// with returns the text with a value in each place. value also gets the constant text before the place, from
// the one before.
func (p *Plain) with(value func(before string, s *slot) (string, error)) (string, error) {
	var b strings.Builder
	before := ""
	for _, part := range p.parts {
		b.WriteString(part.text)
		before += part.text
		if part.slot == nil {
			continue
		}
		text, err := value(before, part.slot)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		before = ""
	}
	return b.String(), nil
}

// Turn makes of a value what takes its place. It gets the constant text before it, from the value before, and
// how it is written.
type Turn func(before, written, value string) (string, error)

// Fill is Bind with each value turned.
func (p *Plain) Fill(r Resolver, turn Turn) (string, error) {
	return p.with(func(before string, s *slot) (string, error) {
		text, err := s.text(r)
		if err != nil {
			return "", err
		}
		return turn(before, s.written, text)
	})
}

// Sample is Fill with the same value in every place.
func (p *Plain) Sample(value string, turn Turn) (string, error) {
	return p.with(func(before string, s *slot) (string, error) { return turn(before, s.written, value) })
}

// Render is Bind for display: a placeholder without a value stays as it was written.
func (p *Plain) Render(r Resolver) string {
	// The function returns no error, and so there is none.
	text, _ := p.with(func(_ string, s *slot) (string, error) {
		if text, err := s.text(r); err == nil {
			return text, nil
		}
		return s.written, nil
	})
	return text
}

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
		c.report(Error, 0, finding{codeUnknown, c.unknownExpression(inner)})
		return nil, c.failure()
	}
	r := c.refs[0]
	if r.fault.code != "" {
		c.report(Error, r.start, r.fault)
	}
	return &Expression{expr: r.expr, written: r.written}, c.failure()
}

// unknownExpression is the message for a text that is no placeholder of a known name.
func (c *compiler) unknownExpression(inner string) string {
	if end := shell.NameLen(inner); end == len(inner) {
		return c.unknown(0, len("${")+end)
	}
	line, _, _ := strings.Cut(inner, "\n")
	return fmt.Sprintf("%q is not a value (use item.name or ${item.name})", line[:min(len(line), 60)])
}

// Value returns the value, or false when there is none. The error is a *BindError.
func (s *Expression) Value(r Resolver) (Value, bool, error) {
	list, err := s.expr.values(r, s.written)
	if missing, ok := errors.AsType[*BindError](err); ok && missing.Missing {
		return Value{}, false, nil
	}
	if err != nil {
		return Value{}, false, err
	}
	if len(list) == 1 && !s.expr.isList() {
		return list[0], true, nil
	}
	elements := check.Each(list, Value.literal)
	return JSON(json.RawMessage("[" + strings.Join(elements, ",") + "]")), true, nil
}

// Document returns the JSON document that v stands for; false when it is a text that nothing else is known of.
func (v Value) Document() (json.RawMessage, bool) { return v.raw, len(v.raw) > 0 }
