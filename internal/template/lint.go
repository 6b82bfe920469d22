package template

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var optionsMatterTo = []string{
	"tar", "git", "ssh", "scp", "find", "rsync", "sort", "curl", "wget", "rm", "cp", "mv", "ln", "grep", "cat", "ls", "touch",
	"chmod", "chown", "mkdir", "rmdir", "xargs", "zip", "unzip", "sed", "awk",
}

func (c *compiler) warn(r *ref, code, why string) {
	c.report(Warning, r.start, finding{code, r.written + " " + why})
}

// lintPlace warns about places where a value is safe from the shell, but perhaps not what was meant.
func (c *compiler) lintPlace(r *ref, p place) {
	if r.kind == short && (p.quote == single || p.quote == ansi || p.quote == quotedHeredoc || p.quote == heredoc && c.inRewritten(r)) {
		c.report(Info, r.start, finding{codeFilledIn, r.written + " is filled in although it stands in single quotes"})
	}
	raw := r.expr.has("raw")
	switch {
	case raw:
		c.warn(r, "PS106", "pastes its value as shell code; whoever writes the value chooses what runs")
	case p.file:
		c.warn(r, "PS116", "chooses the file of a redirection, which may lie outside the working directory")
	case p.loop && p.parts == 1 && p.quote == bare && !r.expr.isList():
		c.warn(r, "PS115", fmt.Sprintf("is one word, so the loop runs once; write %s[*]} or %s|words}", strings.TrimSuffix(r.written, "}"), strings.TrimSuffix(r.written, "}")))
	case r.expr.root == "map" && len(r.expr.steps) == 1 && r.expr.steps[0].key == "results" && p.quote != heredoc && !r.expr.has("file"):
		c.warn(r, "PS117", "may be too large for an argument; read ${map.results_file}, or write |file for the path of a file that holds it")
	}
	c.lintText(r, p)
}

// lintText warns about formats around a placeholder that have an escape of their own.
func (c *compiler) lintText(r *ref, p place) {
	before, after := c.src[:r.start], c.src[r.end:]
	inJSON := strings.HasSuffix(before, `"`) && strings.HasPrefix(after, `"`) && strings.HasSuffix(strings.TrimRight(strings.TrimSuffix(before, `"`), " "), ":")
	if inJSON && p.quote == heredoc && !r.expr.has("json") {
		c.warn(r, "PS113", "stands in a JSON string; write |json and leave out the quotes")
	}
	wordStart := strings.LastIndexAny(before, " \t\n\"'") + 1
	_, path, isURL := strings.Cut(before[wordStart:], "://")
	if isURL && strings.ContainsAny(path, "/?") && !r.expr.has("url") {
		c.warn(r, "PS114", "stands in a URL; write |url unless it is one already")
	}
}

// refsIn returns the refs anywhere in a part of the tree.
func (c *compiler) refsIn(node syntax.Node) []*ref {
	var found []*ref
	for n := range syntax.Preorder(node) {
		switch x := n.(type) {
		case *syntax.ParamExp:
			if x.Param != nil {
				if i := c.sentinelIndex(x.Param.Value); i >= 0 {
					found = append(found, c.refs[i])
				}
			}
		case *syntax.SglQuoted:
			for _, at := range c.sentinelsIn(x.Value) {
				found = append(found, c.refs[at.ref])
			}
		}
	}
	return slices.DeleteFunc(found, func(r *ref) bool { return r.kind == foreign || r.kind == literal })
}

// lintCall warns about commands that make something else of their arguments.
func (c *compiler) lintCall(args []string, nodes []*syntax.Word) {
	name := programName(args[0])
	switch {
	case name == "printf" && len(nodes) > 1:
		for _, r := range c.refsIn(nodes[1]) {
			c.warn(r, "PS104", "stands in the format of printf, where % and \\ have a meaning; write printf '%s' and the value behind it")
		}
	case name == "xargs" || name == "find":
		c.lintBraces(args, nodes)
	}
	if slices.Contains(optionsMatterTo, name) {
		c.lintOptions(name, args, nodes)
	}
}

// lintBraces warns about names that xargs or find pastes into code.
func (c *compiler) lintBraces(args []string, nodes []*syntax.Word) {
	for i, a := range args {
		if isShell(a) && i+2 < len(args) && strings.HasPrefix(args[i+1], "-") && holdsBraces(nodes[i+2]) {
			c.report(Warning, c.firstOffset(), finding{"PS109", fmt.Sprintf("%s pastes each name into shell code in place of {}; pass it as an argument: sh -c '… \"$1\"' _ {}", args[0])})
		}
	}
}

// holdsBraces tells whether {} stands in the constant text of a word.
func holdsBraces(word *syntax.Word) bool {
	for n := range syntax.Preorder(word) {
		lit, isLit := n.(*syntax.Lit)
		quoted, isQuoted := n.(*syntax.SglQuoted)
		if isLit && strings.Contains(lit.Value, "{}") || isQuoted && strings.Contains(quoted.Value, "{}") {
			return true
		}
	}
	return false
}

func (c *compiler) lintOptions(name string, args []string, nodes []*syntax.Word) {
	for i, word := range nodes[1:] {
		if args[i+1] == "--" {
			return
		}
		if r := c.leadingRef(word); r != nil && !c.isTrusted(r.expr) && r.expr.root != "item_id" {
			c.warn(r, "PS111", "may start with a dash, and "+name+" would take it for an option; write -- or ./ in front of it")
		}
	}
}

// leadingRef returns the ref that a word starts with, or nil.
func (c *compiler) leadingRef(word *syntax.Word) *ref {
	part := word.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) > 0 {
		part = q.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	if !ok || p.Param == nil {
		return nil
	}
	i := c.sentinelIndex(p.Param.Value)
	if i < 0 || c.refs[i].kind == foreign || c.refs[i].kind == literal {
		return nil
	}
	return c.refs[i]
}
