package template

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
)

// collectVariables notes the variables that code sets, whose names are the shell's then, and those that it uses in
// arithmetic. bash runs the command in a[$(cmd)] when it finds that in the value of a variable there, so what is
// assigned to such a variable must be a number: ${item.n} in n=${item.n}; echo $((n + 1)), and in
// f() { echo $(($1)); }; f ${item.n}.
//
// fn is the function that the code stands in. It is empty for a script, and a name of its own for the code of sh -c,
// whose $1 is another one. In a=$b; echo $((a)) the value of b is evaluated as well, so the code is read until that
// brings no more variables.
func (c *compiler) collectVariables(code syntax.Node, fn string) {
	for before := -1; before < len(c.arithmeticVars); {
		before = len(c.arithmeticVars)
		c.readVariables(code, fn)
	}
}

func (c *compiler) readVariables(code syntax.Node, fn string) {
	syntax.Walk(code, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				c.readVariables(n.Body, n.Name.Value)
				return false
			}
		case *syntax.CallExpr: // x=1, read x, f 1
			c.setByCall(n)
			for i, word := range n.Args {
				if name := n.Args[0].Lit(); name != "" && c.arithmeticVars[variableKey(name, strconv.Itoa(i))] {
					c.countWord(word, fn)
				}
			}
		case *syntax.Assign:
			c.count(n.Index, fn)
			if n.Name != nil && n.Value != nil && c.arithmeticVars[n.Name.Value] {
				c.countWord(n.Value, fn)
			}
		case *syntax.DeclClause: // export x=1, declare -i x
			integer := slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool {
				return a.Name == nil && strings.HasPrefix(a.Value.Lit(), "-") && strings.Contains(a.Value.Lit(), "i")
			})
			for _, a := range n.Args {
				c.setLit(a.Name)
				if integer && a.Name != nil {
					c.arithmeticVars[a.Name.Value] = true
				}
			}
		case *syntax.WordIter: // for x in …
			c.setLit(n.Name)
		case *syntax.ParamExp: // ${x:=1}, ${a[x]}, ${s:x}
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				c.setLit(n.Param)
			}
			c.count(n.Index, fn)
			if n.Slice != nil {
				c.count(n.Slice.Offset, fn)
				c.count(n.Slice.Length, fn)
			}
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			c.count(n, fn)
		case *syntax.BinaryTest: // [[ x -eq 1 ]]
			if n.Op >= syntax.TsEql && n.Op <= syntax.TsGtr {
				c.count(n, fn)
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
		return true
	})
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
		lit, _ := a.Parts[0].(*syntax.Lit)
		if lit == nil {
			continue
		}
		if name, _, _ := strings.Cut(lit.Value, "="); syntax.ValidName(name) {
			c.sets[name] = true
		}
	}
}

// count takes every name below a node, which may be nil: one too many only asks for a number where any text would do.
func (c *compiler) count(node syntax.Node, fn string) {
	if node == nil {
		return
	}
	for n := range syntax.Preorder(node) {
		if lit, ok := n.(*syntax.Lit); ok && syntax.ValidName(lit.Value) {
			c.arithmeticVars[lit.Value] = true
		}
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			c.arithmeticVars[variableKey(fn, p.Param.Value)] = true
		}
	}
}

// countWord takes the variables that make up a word: $x and "$x". What a command prints is its own affair.
func (c *compiler) countWord(word *syntax.Word, fn string) {
	syntax.Walk(word, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Word, *syntax.DblQuoted:
			return true
		case *syntax.ParamExp:
			if n.Param != nil {
				c.arithmeticVars[variableKey(fn, n.Param.Value)] = true
			}
		}
		return false
	})
}

// variableKey returns the key of a variable in compiler.arithmeticVars: its name, or for a positional parameter also
// that of its function. No variable has a NUL in its name.
func variableKey(fn, name string) string {
	if name != "" && isDigit(name[0]) {
		return fn + "\x00" + name
	}
	return name
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
		e = &slot{variable: name, expr: &expr{root: name}, written: "$" + name, plain: true, optional: true}
		c.exports[name] = e
	}
	// One name has one variable, so the strictest of its uses counts.
	e.number = e.number || s.number
	e.optional = e.optional && !required
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
			c.fail(n.offset, codePlaceholder,
				"%s applies a shell operator to a prodigy value; assign it to a shell variable first: v=${%s}", n.written, n.name)
		}
	}
}
