package taint

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

// proof is what a check shows of a variable.
type proof struct {
	name string
	word bool
}

func (f *shellFrame) guardOf(name string) *guard {
	at := slices.IndexFunc(f.guards, func(g guard) bool { return g.name == name })
	if at < 0 {
		return nil
	}
	return &f.guards[at]
}

// namedGuards returns what is known of variables, without that of parameters.
func (f *shellFrame) namedGuards() []guard {
	return slices.DeleteFunc(slices.Clone(f.guards), func(g guard) bool { return isDigit(g.name[0]) })
}

// isGuarded reports whether a variable was checked to be harmless and has not been assigned since.
func (t *analysis) isGuarded(f *shellFrame, name string) bool {
	g := f.guardOf(name)
	return g != nil && !g.word && t.holds(g)
}

// holds reports whether nothing was assigned to the variable since it was checked.
func (t *analysis) holds(g *guard) bool {
	return !t.hasRefs && !slices.ContainsFunc(t.vars[g.name], func(s *site) bool { return s.tick > g.tick })
}

// addGuards notes what a check that began at a tick has shown.
func (t *analysis) addGuards(f *shellFrame, since int, proofs []proof) {
	for _, p := range proofs {
		if i, ok := t.sourceOf[p.name]; ok && t.Sources[i].List {
			continue // it stands for any number of words
		}
		if g := f.guardOf(p.name); g != nil && t.holds(g) && !g.word && p.word {
			continue // more is known
		}
		f.guards = slices.DeleteFunc(slices.Clone(f.guards), func(g guard) bool { return g.name == p.name })
		f.guards = append(f.guards, guard{p.name, since, p.word})
	}
}

// caseGuard takes case $n in *[!0-9]*) exit 1;; esac, and case $n in a | b) … ;; *) exit 1;; esac.
func (t *analysis) caseGuard(f *shellFrame, since int, n *syntax.CaseClause) {
	name := plainVariable(n.Word)
	if name == "" {
		return
	}
	for _, item := range n.Items {
		if item.Op != syntax.Break {
			return
		}
		if !t.leaves(f, item.Stmts) {
			if !constantPatterns(item) {
				return
			}
			continue
		}
		for _, p := range item.Patterns {
			switch lit := shell.WordText(p); {
			case lit == "*" || lit == "*[!0-9]*" || lit == "*[^0-9]*":
				t.addGuards(f, since, []proof{{name: name}})
				return
			case strings.HasPrefix(lit, "*[") && strings.HasSuffix(lit, "]*") && isStrictClass(lit[1:len(lit)-1]):
				t.addGuards(f, since, []proof{{name, true}})
				return
			}
		}
	}
}

// itemGuard notes within an item of case what its patterns say.
func (t *analysis) itemGuard(in *shellFrame, since int, n *syntax.CaseClause, item *syntax.CaseItem) {
	if name := plainVariable(n.Word); name != "" && constantPatterns(item) {
		t.addGuards(in, since, []proof{{name: name}})
	}
}

// constantPatterns reports whether only some constant texts match.
func constantPatterns(item *syntax.CaseItem) bool {
	return !slices.ContainsFunc(item.Patterns, func(p *syntax.Word) bool { return !isConstantPattern(p) })
}

func isConstantPattern(w *syntax.Word) bool {
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, `*?[\(|`) {
				return false
			}
		case *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if slices.ContainsFunc(p.Parts, func(part syntax.WordPart) bool { _, ok := part.(*syntax.Lit); return !ok }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// proves returns what a command shows of variables when it succeeds, and when it fails.
func (t *analysis) proves(s *syntax.Stmt) (holds, fails []proof) {
	if s.Background || s.Coprocess {
		return nil, nil
	}
	switch n := s.Cmd.(type) {
	case *syntax.CallExpr:
		holds, fails = testProves(n)
	case *syntax.TestClause:
		if holds, fails = expressionProves(n.X); t.mayBeDash {
			fails = nil // dash does not know [[, which fails then
		}
	case *syntax.BinaryCmd:
		x, notX := t.proves(n.X)
		y, notY := t.proves(n.Y)
		switch n.Op {
		case syntax.AndStmt:
			holds = append(x, y...)
		case syntax.OrStmt:
			holds, fails = both(x, y), append(notX, notY...)
		}
	}
	if s.Negated {
		return fails, holds
	}
	return holds, fails
}

// both returns what is shown by either of two checks.
func both(a, b []proof) []proof {
	var out []proof
	for _, p := range a {
		for _, q := range b {
			if p.name == q.name {
				out = append(out, proof{p.name, p.word || q.word})
			}
		}
	}
	return out
}

// testProves returns what [ "$x" = constant ] and [ "$x" -eq 1 ] show.
func testProves(call *syntax.CallExpr) (holds, fails []proof) {
	args := call.Args
	if len(args) > 0 && args[0].Lit() == "[" && args[len(args)-1].Lit() == "]" {
		args = args[:len(args)-1]
	} else if len(args) == 0 || args[0].Lit() != "test" {
		return nil, nil
	}
	negated := false
	if len(args) == 5 && args[1].Lit() == "!" {
		negated, args = true, args[1:]
	}
	if len(args) != 4 || !isOneWord(args[1]) || !isOneWord(args[3]) {
		return nil, nil
	}
	x, y := plainVariable(args[1]), plainVariable(args[3])
	switch op := args[2].Lit(); {
	case slices.Contains(shell.NumberTests, op):
		for _, name := range []string{x, y} {
			if name != "" {
				holds = append(holds, proof{name: name})
			}
		}
	case op == "=" || op == "==":
		holds = equalProves(x, y, args[1], args[3])
	case op == "!=":
		fails = equalProves(x, y, args[1], args[3])
	}
	if negated {
		return fails, holds
	}
	return holds, fails
}

func equalProves(x, y string, left, right *syntax.Word) []proof {
	switch {
	case x != "" && isConstantPattern(right):
		return []proof{{name: x}}
	case y != "" && isConstantPattern(left):
		return []proof{{name: y}}
	}
	return nil
}

// isOneWord reports whether a word is always one, whatever its expansions bring.
func isOneWord(w *syntax.Word) bool {
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if isAllParameters(p) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// expressionProves returns what an expression of [[ ]] shows of variables.
func expressionProves(x syntax.TestExpr) (holds, fails []proof) {
	switch n := x.(type) {
	case *syntax.ParenTest:
		return expressionProves(n.X)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsNot {
			holds, fails = expressionProves(n.X)
			return fails, holds
		}
	case *syntax.BinaryTest:
		left, okLeft := n.X.(*syntax.Word)
		right, okRight := n.Y.(*syntax.Word)
		switch {
		case n.Op == syntax.AndTest:
			x, _ := expressionProves(n.X)
			y, _ := expressionProves(n.Y)
			return append(x, y...), nil
		case n.Op == syntax.OrTest:
			x, notX := expressionProves(n.X)
			y, notY := expressionProves(n.Y)
			return both(x, y), append(notX, notY...)
		case !okLeft || !okRight || plainVariable(left) == "":
		case (n.Op == syntax.TsMatch || n.Op == syntax.TsMatchShort) && isConstantPattern(right):
			return []proof{{name: plainVariable(left)}}, nil
		case n.Op == syntax.TsNoMatch && isConstantPattern(right):
			return nil, []proof{{name: plainVariable(left)}}
		case n.Op == syntax.TsReMatch:
			return regexpProves(plainVariable(left), shell.WordText(right)), nil
		}
	}
	return nil, nil
}

// regexpProves returns what a match of a regular expression shows: ^[0-9]+$ a number, ^[a-z-]+$ a word.
func regexpProves(name, pattern string) []proof {
	switch strings.Replace(pattern, "-?", "", 1) {
	case "^[0-9]+$", "^[0-9]*$", "^[[:digit:]]+$":
		return []proof{{name: name}}
	}
	class, ok := strings.CutPrefix(strings.TrimRight(strings.TrimSuffix(pattern, "$"), "+*"), "^[")
	if ok && strings.HasSuffix(pattern, "$") && strings.Count(class, "]") == 1+strings.Count(class, ":]") && isStrictClass("[!"+class) {
		return []proof{{name, true}}
	}
	return nil
}

// ifGuards sets what holds within the branch of an if, and returns what holds where it is not taken, or, when it leaves the code, behind
// it.
func (t *analysis) ifGuards(f, then *shellFrame, since int, n *syntax.IfClause) []proof {
	if len(n.Cond) != 1 {
		return nil
	}
	holds, fails := t.proves(n.Cond[0])
	t.addGuards(then, since, holds)
	if n.Else != nil || t.leaves(f, n.Then) {
		return fails
	}
	return nil
}

// leaves reports whether statements end by leaving the code around them.
func (t *analysis) leaves(f *shellFrame, stmts []*syntax.Stmt) bool {
	if len(stmts) == 0 {
		return false
	}
	last := stmts[len(stmts)-1]
	if last.Background || last.Negated {
		return false
	}
	for _, r := range last.Redirs {
		if r.Op != syntax.DplOut || r.Word.Lit() != "1" && r.Word.Lit() != "2" { // it may fail
			return false
		}
	}
	switch n := last.Cmd.(type) {
	case *syntax.Block:
		return t.leaves(f, n.Stmts)
	case *syntax.CallExpr:
		if len(n.Args) == 0 {
			return false
		}
		switch n.Args[0].Lit() {
		case "exit":
			return true
		case "return":
			return len(f.chain) > 0
		case "continue", "break":
			for r := f.region; r >= 0; r = t.regions[r].parent {
				if t.regions[r].loop {
					return true
				}
			}
		}
	}
	return false
}

// plainVariable returns the name of $n, ${n} and "$n".
func plainVariable(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	parts := slices.DeleteFunc(slices.Clone(word.Parts), func(part syntax.WordPart) bool { // '' stands around a placeholder in single quotes
		q, ok := part.(*syntax.SglQuoted)
		return ok && q.Value == ""
	})
	if len(parts) != 1 {
		return ""
	}
	part := parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	if !ok || p.Param == nil || !p.Short && !shell.IsPlainExpansion(p) || p.Index != nil || !syntax.ValidName(p.Param.Value) && !isDigit(p.Param.Value[0]) {
		return ""
	}
	return p.Param.Value
}
