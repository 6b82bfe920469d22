package template

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/spelling"
)

const codeStray = "PS120"

// lintStrays warns of each ${name} that the shell is left with although a value of prodigy was probably meant: nothing in the script
// sets it, so it would be empty without a word. What the script sources or evaluates may set anything.
func (c *compiler) lintStrays(file *syntax.File) {
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
		if !isPlainExpansion(p) {
			continue
		}
		if text := c.stray(p.Param.Value); text != "" {
			c.report(Warning, c.sourceOffset(int(p.Pos().Offset())), finding{codeStray, text + "; nothing in this text sets it for the shell"})
		}
	}
}

// stray says what is wrong with a ${name} of nobody, if it looks like one of prodigy's.
func (s *scanner) stray(name string) string {
	if slices.Contains([]string{"item_id", "item_index", "item_total", "attempt"}, name) {
		return fmt.Sprintf("${%s} is known only %s", name, knownOnly("worker"))
	}
	if place := knownOnly(name); place != "" {
		return fmt.Sprintf("${%s} is known only %s", name, place)
	}
	if near := s.misspelled(name); near != "" {
		return fmt.Sprintf("${%s} is no value of prodigy (did you mean ${%s}?)", name, near)
	}
	return ""
}

// misspelled returns the known name of which another is a slip of one or two letters, if it is. Names in capitals are those of the
// environment.
func (s *scanner) misspelled(name string) string {
	if name == strings.ToUpper(name) {
		return ""
	}
	best, least := "", 1+min(len(name)/3, 2)
	for _, k := range s.names.all() {
		if d := spelling.Distance(name, k); d < least && len(name) > 2 {
			best, least = k, d
		}
	}
	return best
}

// isPlainExpansion tells whether p is ${name} and no more: a script that asks for a default knows that the name may be unset.
func isPlainExpansion(p *syntax.ParamExp) bool {
	return !p.Short && p.Param != nil && p.Exp == nil && p.Slice == nil && p.Repl == nil && p.Index == nil && !p.Length && !p.Excl
}

// runsUnseen tells whether a script runs code of which its text says nothing.
func runsUnseen(file *syntax.File) bool {
	for node := range syntax.Preorder(file) {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 && slices.Contains([]string{".", "source", "eval"}, call.Args[0].Lit()) {
			return true
		}
	}
	return false
}

const codeOtherBraces = "PS121"

// lintBracesOfOthers warns of {{ name }}, the placeholders of other tools, where the name is one of prodigy.
func (c *compiler) lintBracesOfOthers() {
	for at := 0; ; {
		open := strings.Index(c.src[at:], "{{")
		if open < 0 {
			return
		}
		start := at + open
		at = start + len("{{")
		inside, _, closed := strings.Cut(c.src[at:], "}}")
		if !closed || strings.Contains(inside, "\n") {
			continue
		}
		inside = strings.TrimSpace(strings.Trim(inside, "-"))
		root := inside[:nameLen(inside)]
		rest := strings.TrimSpace(inside[len(root):])
		is, known := c.names.Lookup(root)
		if known = known && (is.Root || is.Declared) || knownOnly(root) != ""; !known || rest != "" && rest[0] != '.' && rest[0] != '[' && rest[0] != '|' {
			continue
		}
		path, _, _ := strings.Cut(inside, "|")
		c.report(Warning, start, finding{codeOtherBraces, fmt.Sprintf("{{ %s }} stays as it is: a value of prodigy is written ${%s}", inside, strings.TrimSpace(path))})
	}
}

// lintShortPath warns of $item.path: that is the whole item and then the text ".path".
func (c *compiler) lintShortPath(name string, start, end int) {
	if field := c.fieldBehind(name, end); field != "" {
		c.report(Warning, start, finding{codeStray, fmt.Sprintf(
			"$%s.%s is $%s and then the text .%s: write ${%s.%s}, or ${%s}.%s if that is meant", name, field, name, field, name, field, name, field)})
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
	field = field[:nameLen(field)]
	if field == "" || is.Fields != nil && !slices.Contains(is.Fields, field) {
		return ""
	}
	return field
}
