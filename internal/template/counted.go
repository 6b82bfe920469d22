package template

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// collectCounted notes the variables that the script uses in arithmetic. bash runs the command in a[$(cmd)] when it finds that
// in the value of a variable there, so what is assigned to such a variable must be a number.
func (c *compiler) collectCounted(file *syntax.File) {
	for node := range syntax.Preorder(file) {
		switch n := node.(type) {
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			c.count(n)
		case *syntax.ParamExp:
			c.countIn(n.Index)
			if n.Slice != nil {
				c.countIn(n.Slice.Offset)
				c.countIn(n.Slice.Length)
			}
		case *syntax.Assign:
			c.countIn(n.Index)
		case *syntax.BinaryTest:
			if n.Op >= syntax.TsEql && n.Op <= syntax.TsGtr {
				c.count(n)
			}
		case *syntax.DeclClause:
			c.countDeclared(n)
		}
	}
	for c.countSources(file) {
	}
}

// countSources counts the variables whose values are assigned to counted ones. It tells whether that added any.
func (c *compiler) countSources(file *syntax.File) bool {
	before := len(c.counted)
	for node := range syntax.Preorder(file) {
		if a, ok := node.(*syntax.Assign); ok && a.Name != nil && a.Value != nil && c.counted[a.Name.Value] {
			for _, part := range a.Value.Parts {
				c.countDirect(part)
			}
		}
	}
	return len(c.counted) > before
}

// countDirect counts the variable of $x and "$x". What a command prints is its own affair.
func (c *compiler) countDirect(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.ParamExp:
		if p.Param != nil && c.sentinelIndex(p.Param.Value) < 0 {
			c.counted[p.Param.Value] = true
		}
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			c.countDirect(inner)
		}
	}
}

func (c *compiler) countIn(x syntax.ArithmExpr) {
	if x != nil {
		c.count(x)
	}
}

// count takes every name below a node: one too many only asks for a number where any text would do.
func (c *compiler) count(node syntax.Node) {
	for n := range syntax.Preorder(node) {
		if lit, ok := n.(*syntax.Lit); ok && syntax.ValidName(lit.Value) {
			c.counted[lit.Value] = true
		}
	}
}

// countDeclared takes the names of declare -i.
func (c *compiler) countDeclared(n *syntax.DeclClause) {
	integer := slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool {
		return a.Naked && a.Name == nil && isIntegerOption(a.Value.Lit())
	})
	if !integer {
		return
	}
	for _, a := range n.Args {
		if a.Name != nil {
			c.counted[a.Name.Value] = true
		}
	}
}

func isIntegerOption(lit string) bool {
	return len(lit) > 1 && lit[0] == '-' && slices.Contains([]byte(lit), 'i')
}
