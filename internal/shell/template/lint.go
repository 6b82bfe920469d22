package template

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// optionsMatterTo are programs that take a file name with a dash in front for an option that changes what they do.
const optionsMatterTo = `tar git ssh scp find rsync sort curl wget rm cp mv ln grep cat ls touch chmod chown mkdir rmdir
	xargs zip unzip sed awk`

// warn reports a finding about a ref as a warning. The text goes on after the placeholder.
func (c *compiler) warn(r *ref, code, why string) {
	c.report(Warning, r.start, finding{code, r.written + " " + why})
}

// lintPlace warns about places where a value is safe from the shell, but perhaps not what was meant.
func (c *compiler) lintPlace(r *ref, p place) {
	switch {
	case r.expr.has("raw"):
		c.warn(r, "PS106", "is inserted as shell code; its author could run any command")
	case p.file:
		c.warn(r, "PS116", "is a redirection target and may point outside the working directory")
	case p.loop && p.words && !r.expr.isList():
		name := strings.TrimSuffix(r.written, "}")
		c.warn(r, "PS115", fmt.Sprintf("is a single word, so the loop runs once; use %s[*]} or %s|words}", name, name))
	}
}

// sourceOf returns a part of a tree as it is written.
func sourceOf(node syntax.Node) string {
	var b strings.Builder
	_ = syntax.NewPrinter().Print(&b, node)
	return b.String()
}

// lintCall warns about commands that make something else of their arguments.
func (c *compiler) lintCall(args []string, nodes []*syntax.Word) {
	name := shell.ProgramName(args[0])
	switch {
	case name == "printf" && len(nodes) > 1:
		for _, at := range c.sentinelsIn(sourceOf(nodes[1])) {
			if r := c.refs[at.ref]; r.isValue() {
				c.warn(r, "PS104", "is in a printf format string, where % and \\ are special; use printf '%s' followed by the value")
			}
		}
	case name == "xargs" || name == "find":
		// Names are pasted into code by find . -exec sh -c 'rm {}' ';'.
		for i, a := range args {
			if shell.IsShell(a) && i+2 < len(args) && strings.HasPrefix(args[i+1], "-") && strings.Contains(sourceOf(nodes[i+2]), "{}") {
				c.report(Warning, c.firstOffset(), finding{"PS109", fmt.Sprintf(
					"%s inserts each name into shell code for {}; pass it as an argument: sh -c '… \"$1\"' _ {}",
					args[0])})
			}
		}
	}
	if check.Among(optionsMatterTo, name) {
		c.lintOptions(name, args, nodes)
	}
}

// lintOptions warns about values that begin an argument, up to a -- that ends the options.
func (c *compiler) lintOptions(name string, args []string, nodes []*syntax.Word) {
	for i, word := range nodes[1:] {
		if args[i+1] == "--" {
			return
		}
		if r := c.leadingRef(word); r != nil && !c.isTrusted(r.expr) && r.expr.root != "item_id" {
			c.warn(r, "PS111", "may start with a dash and be parsed as an option of "+name+"; put -- or ./ before it")
		}
	}
}

// leadingRef returns the ref that a word starts with, or nil.
func (c *compiler) leadingRef(word *syntax.Word) *ref {
	if p, ok := shell.Leading(word).(*syntax.ParamExp); ok {
		if i := c.refOf(p); i >= 0 && c.refs[i].isValue() {
			return c.refs[i]
		}
	}
	return nil
}

// lintUnresolved warns of each ${name} that the shell is left with although a value of prodigy was probably meant:
// nothing in the script sets it, so it would be empty without a word. What the script sources or evaluates may set
// anything.
func (c *compiler) lintUnresolved(file *syntax.File) {
	for node := range syntax.Preorder(file) {
		call, ok := node.(*syntax.CallExpr)
		if ok && len(call.Args) > 0 && check.Among(". source eval", call.Args[0].Lit()) {
			return
		}
	}
	for node := range syntax.Preorder(file) {
		p, ok := node.(*syntax.ParamExp)
		if !ok || p.Param == nil || c.sets[p.Param.Value] {
			continue
		}
		if p.Short && !c.names.declared(p.Param.Value) {
			c.lintShortPath(p.Param.Value, c.sourceOffset(int(p.Pos().Offset())), c.sourceOffset(int(p.End().Offset())))
		}
		if !shell.IsPlainExpansion(p) {
			continue
		}
		if text, meant := c.unknown("${"+p.Param.Value+"}", p.Param.Value); meant {
			c.report(Warning, c.sourceOffset(int(p.Pos().Offset())),
				finding{codeUnresolved, text + "; the script never sets it"})
		}
	}
}

// lintShortPath warns of $item.path: that is the whole item and then the text ".path".
func (c *compiler) lintShortPath(name string, start, end int) {
	if field := c.fieldBehind(name, end); field != "" {
		c.report(Warning, start, finding{codeUnresolved, fmt.Sprintf(
			"$%s.%s expands $%s and then \".%s\"; use ${%s.%s} (or ${%s}.%s)", name, field, name, field, name, field, name, field)})
	}
}

// fieldBehind returns the key in ".key" at end, behind a $name that may have such a field. Of a text or a parameter,
// $name.txt is what it seems.
func (s *scanner) fieldBehind(name string, end int) string {
	is, _ := s.names.Lookup(name)
	if !is.Root || is.Text || is.Declared && !is.Data || !strings.HasPrefix(s.src[end:], ".") {
		return ""
	}
	field := s.src[end+1:]
	field = field[:shell.NameLen(field)]
	if field == "" || is.Fields != nil && !slices.Contains(is.Fields, field) {
		return ""
	}
	return field
}
