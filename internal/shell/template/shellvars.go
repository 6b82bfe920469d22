package template

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
)

// collectSets notes the variables that the script itself sets: those names are the shell's then.
func (c *compiler) collectSets(file *syntax.File) {
	for node := range syntax.Preorder(file) {
		switch n := node.(type) {
		case *syntax.CallExpr: // x=1, read x
			c.setByCall(n)
		case *syntax.DeclClause: // export x=1
			for _, a := range n.Args {
				c.setLit(a.Name)
			}
		case *syntax.WordIter: // for x in …
			c.setLit(n.Name)
		case *syntax.ParamExp: // ${x:=1}
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				c.setLit(n.Param)
			}
		case *syntax.BinaryArithm: // ((x += 1))
			if op := n.Op.String(); strings.HasSuffix(op, "=") && !check.Among("== != <= >=", op) {
				c.setArithm(n.X)
			}
		case *syntax.UnaryArithm: // ((x++))
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				c.setArithm(n.X)
			}
		case *syntax.CoprocClause: // coproc x { …; }
			if n.Name != nil {
				c.sets[n.Name.Lit()] = true
			}
		}
	}
}

func (c *compiler) setLit(name *syntax.Lit) {
	if name != nil {
		c.sets[name.Value] = true
	}
}

func (c *compiler) setArithm(x syntax.ArithmExpr) {
	if word, ok := x.(*syntax.Word); ok {
		c.sets[word.Lit()] = true
	}
}

// setByCall takes name=value without a command, and the arguments of read and its like. An assignment in front
// of a command holds for that command only.
func (c *compiler) setByCall(call *syntax.CallExpr) {
	if len(call.Args) == 0 {
		for _, a := range call.Assigns {
			c.setLit(a.Name)
		}
		return
	}
	args := call.Args[1:]
	switch call.Args[0].Lit() {
	case "read", "getopts", "mapfile", "readarray", "export", "readonly", "local", "typeset", "declare":
	case "printf":
		if len(args) < 2 || args[0].Lit() != "-v" {
			return
		}
		args = args[1:2]
	default:
		return
	}
	for _, a := range args {
		if name, _, _ := strings.Cut(leadingLit(a), "="); syntax.ValidName(name) {
			c.sets[name] = true
		}
	}
}

// leadingLit returns the literal text that a word starts with.
func leadingLit(word *syntax.Word) string {
	if lit, ok := word.Parts[0].(*syntax.Lit); ok {
		return lit.Value
	}
	return ""
}

// nativeUse notes that the shell itself expands a name. One that would steer the shell is left to the
// environment as it is.
func (c *compiler) nativeUse(name string, s quoteContext, required, child bool) {
	if !c.names.declared(name) {
		if c.names.root(name) {
			c.rootUses[name] = true
		}
		return
	}
	c.used[name] = true
	if ReservedName(name) {
		return
	}
	e := c.exports[name]
	if e == nil {
		e = &exportedVar{name: name}
		c.exports[name] = e
	}
	// One name has one variable, so the strictest of its uses counts.
	e.number = e.number || s.number
	e.required = e.required || required
	e.child = e.child || child
}

// finishExports drops the names that the script sets itself. A name that nobody exports has no use for the
// shell's operators.
func (c *compiler) finishExports() {
	for name := range c.exports {
		if c.sets[name] {
			delete(c.exports, name)
		}
	}
	for _, n := range c.natives {
		if c.rootUses[n.name] && !c.sets[n.name] {
			c.report(Error, n.offset, finding{
				codePlaceholder,
				fmt.Sprintf("%s applies a shell operator to a prodigy value; assign it to a shell variable first: v=${%s}", n.written, n.name),
			})
		}
	}
}
