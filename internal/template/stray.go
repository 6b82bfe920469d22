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
		if !ok || !isPlainExpansion(p) || c.sets[p.Param.Value] {
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
