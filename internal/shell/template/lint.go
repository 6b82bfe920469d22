package template

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

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
	if r.kind == short && (p.quote == single || p.quote == ansi || p.quote == quotedHeredoc || p.quote == heredoc &&
		c.inRewritten(r)) {
		c.report(Info, r.start, finding{codeFilledIn, r.written + " is expanded despite the single quotes"})
	}
	raw := r.expr.has("raw")
	switch {
	case raw:
		c.warn(r, "PS106", "is inserted as shell code; its author could run any command")
	case p.file:
		c.warn(r, "PS116", "is a redirection target and may point outside the working directory")
	case p.loop && p.words && !r.expr.isList():
		c.warn(r, "PS115", fmt.Sprintf("is a single word, so the loop runs once; use %s[*]} or %s|words}",
			strings.TrimSuffix(r.written, "}"), strings.TrimSuffix(r.written, "}")))
	case r.expr.root == "map" && len(r.expr.steps) == 1 && r.expr.steps[0].key == "results" && p.quote != heredoc && !r.expr.has("file"):
		c.warn(r, "PS117", "may be too large for an argument; use ${map.results_file}, or |file for the path of a temporary file")
	}
	// Formats around a placeholder that have an escape of their own.
	before, after := c.src[:r.start], c.src[r.end:]
	// "key": "${item.x}" in a heredoc, which breaks when the value has a quote.
	inJSON := strings.HasSuffix(before, `"`) && strings.HasPrefix(after, `"`) &&
		strings.HasSuffix(strings.TrimRight(strings.TrimSuffix(before, `"`), " "), ":")
	if inJSON && p.quote == heredoc && !r.expr.has("json") {
		c.warn(r, "PS113", "is inside a JSON string; use |json without the quotes")
	}
	// https://host/path?q=${item.x}. The value of a host or of a whole URL must not be encoded.
	wordStart := strings.LastIndexAny(before, " \t\n\"'") + 1
	_, path, isURL := strings.Cut(before[wordStart:], "://")
	if isURL && strings.ContainsAny(path, "/?") && !r.expr.has("url") {
		c.warn(r, "PS114", "is inside a URL; use |url unless the value is already encoded")
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
	if runsUnseen(file) {
		return
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

// runsUnseen reports whether a script runs code of which its text says nothing.
func runsUnseen(file *syntax.File) bool {
	for node := range syntax.Preorder(file) {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 &&
			check.Among(". source eval", call.Args[0].Lit()) {
			return true
		}
	}
	return false
}

// otherBraces matches {{ name }}, {{ name.path }} and {{ name | filter }}, the placeholders of other tools.
var otherBraces = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{-?[ \t]*((\w+)(?:[ \t]*[.\[|].*?)?)[ \t]*-?\}\}`)
})

// lintBracesOfOthers warns of such a placeholder where the name is one of prodigy.
func (c *compiler) lintBracesOfOthers() {
	if !strings.Contains(c.src, "{{") {
		return
	}
	for _, m := range otherBraces().FindAllStringSubmatchIndex(c.src, -1) {
		inside, root := c.src[m[2]:m[3]], c.src[m[4]:m[5]]
		is, _ := c.names.Lookup(root)
		if !is.Root && !is.Declared && knownOnly(root) == "" {
			continue
		}
		path, _, _ := strings.Cut(inside, "|")
		c.report(Warning, m[0], finding{
			codeOtherBraces,
			fmt.Sprintf("{{ %s }} is not expanded; use ${%s}", inside, strings.TrimSpace(path)),
		})
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
