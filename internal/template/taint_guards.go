package template

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// guard is a variable of which the script has checked that it is a number, since when.
type guard struct {
	name string
	tick int
}

// isGuarded reports whether a variable was checked to be a number and has not been assigned since.
func (t *taint) isGuarded(f *shellFrame, name string) bool {
	at := slices.IndexFunc(f.guards, func(g guard) bool { return g.name == name })
	if at < 0 {
		return false
	}
	since := f.guards[at].tick
	return !slices.ContainsFunc(t.vars[name], func(s *site) bool { return s.tick > since })
}

func (t *taint) addGuard(f *shellFrame, name string) {
	f.guards = slices.DeleteFunc(slices.Clone(f.guards), func(g guard) bool { return g.name == name })
	f.guards = append(f.guards, guard{name, t.tick})
}

// caseGuard takes case $n in *[!0-9]*) exit 1;; esac.
func (t *taint) caseGuard(f *shellFrame, n *syntax.CaseClause) {
	name := plainVariable(n.Word)
	if name == "" || len(n.Items) == 0 || !leaves(n.Items[0].Stmts) || n.Items[0].Op != syntax.Break {
		return
	}
	for _, p := range n.Items[0].Patterns {
		if lit := wordText(p); lit == "*[!0-9]*" || lit == "*[^0-9]*" {
			t.addGuard(f, name)
		}
	}
}

// checked returns the variable of [[ $n =~ ^[0-9]+$ ]], and whether the check is turned round by !.
func checked(s *syntax.Stmt) (name string, negated bool) {
	test, ok := s.Cmd.(*syntax.TestClause)
	if !ok {
		return "", false
	}
	x := test.X
	negated = s.Negated
	if not, ok := x.(*syntax.UnaryTest); ok && not.Op == syntax.TsNot {
		x, negated = not.X, !negated
	}
	match, ok := x.(*syntax.BinaryTest)
	if !ok || match.Op != syntax.TsReMatch {
		return "", false
	}
	value, okValue := match.X.(*syntax.Word)
	pattern, okPattern := match.Y.(*syntax.Word)
	if !okValue || !okPattern {
		return "", false
	}
	switch strings.Replace(wordText(pattern), "-?", "", 1) {
	case "^[0-9]+$", "^[0-9]*$", "^[[:digit:]]+$":
		return plainVariable(value), negated
	}
	return "", false
}

// orGuard takes [[ $n =~ ^[0-9]+$ ]] || exit 1.
func (t *taint) orGuard(f *shellFrame, n *syntax.BinaryCmd) {
	name, negated := checked(n.X)
	if name != "" && leaves([]*syntax.Stmt{n.Y}) && (n.Op == syntax.OrStmt) == !negated {
		t.addGuard(f, name)
	}
}

// ifGuard takes if [[ ! $n =~ ^[0-9]+$ ]]; then exit 1; fi, and sets what holds within the branch of the right way round.
func (t *taint) ifGuard(f, then *shellFrame, n *syntax.IfClause) {
	if len(n.Cond) != 1 {
		return
	}
	name, negated := checked(n.Cond[0])
	switch {
	case name == "":
	case !negated:
		t.addGuard(then, name)
	case leaves(n.Then) && n.Else == nil:
		t.addGuard(f, name)
	}
}

// leaves reports whether statements end by leaving the code around them.
func leaves(stmts []*syntax.Stmt) bool {
	if len(stmts) == 0 {
		return false
	}
	last := stmts[len(stmts)-1]
	if last.Background || len(last.Redirs) > 0 {
		return false
	}
	switch n := last.Cmd.(type) {
	case *syntax.Block:
		return leaves(n.Stmts)
	case *syntax.CallExpr:
		return len(n.Args) > 0 && slices.Contains([]string{"exit", "return", "continue"}, n.Args[0].Lit())
	}
	return false
}

// plainVariable returns the name of $n, ${n} and "$n".
func plainVariable(word *syntax.Word) string {
	if word == nil || len(word.Parts) != 1 {
		return ""
	}
	part := word.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	if !ok || p.Param == nil || !p.Short && !isPlainExpansion(p) {
		return ""
	}
	return p.Param.Value
}
