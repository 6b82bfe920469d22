package template

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// collectArithmetic notes the variables that the script uses in arithmetic. bash runs the command in a[$(cmd)]
// when it finds that in the value of a variable there, so what is assigned to such a variable must be a number:
// ${item.n} in n=${item.n}; echo $((n + 1)), and in f() { echo $(($1)); }; f ${item.n}.
//
// fn is the function that the code of file stands in. It is empty for a script, and a name of its own for the code of
// sh -c, whose $1 is another one.
func (c *compiler) collectArithmetic(file *syntax.File, fn string) {
	in := scriptFunctions{fn, functionsOf(file)}
	for node := range syntax.Preorder(file) {
		switch n := node.(type) {
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			c.count(n, in)
		case *syntax.ParamExp:
			c.count(n.Index, in)
			if n.Slice != nil {
				c.count(n.Slice.Offset, in)
				c.count(n.Slice.Length, in)
			}
		case *syntax.Assign:
			c.count(n.Index, in)
		case *syntax.BinaryTest:
			if n.Op >= syntax.TsEql && n.Op <= syntax.TsGtr {
				c.count(n, in)
			}
		case *syntax.DeclClause:
			c.countDeclared(n)
		}
	}
	// In a=$b; echo $((a)) the value of b is evaluated as well. Each round adds at least one variable, or is the last.
	for before := -1; before < len(c.arithmeticVars); {
		before = len(c.arithmeticVars)
		for node := range syntax.Preorder(file) {
			switch n := node.(type) {
			case *syntax.Assign:
				if n.Name != nil && n.Value != nil && c.arithmeticVars[n.Name.Value] {
					c.countWord(n.Value, in)
				}
			case *syntax.CallExpr:
				c.countArguments(n, in)
			}
		}
	}
}

// countArguments counts the variables that are given to functions whose parameters count.
func (c *compiler) countArguments(call *syntax.CallExpr, in scriptFunctions) {
	if len(call.Args) == 0 || call.Args[0].Lit() == "" {
		return
	}
	for i, word := range call.Args[1:] {
		if c.arithmeticVars[parameterOf(call.Args[0].Lit(), strconv.Itoa(i+1))] {
			c.countWord(word, in)
		}
	}
}

// countWord counts the variables that make up a word.
func (c *compiler) countWord(word *syntax.Word, in scriptFunctions) {
	for _, part := range word.Parts {
		c.countDirect(part, in)
	}
}

// scriptFunctions tells in which function of a file something stands.
type scriptFunctions struct {
	outside string // the name for what stands in none
	spans   []functionSpan
}

// key is the key of a variable, or of the parameter of the function that the expansion stands in.
func (f scriptFunctions) key(p *syntax.ParamExp) string {
	fn := f.outside
	for _, s := range f.spans {
		if offset := p.Pos().Offset(); s.start <= offset && offset < s.end {
			fn = s.name
		}
	}
	return variableKey(fn, p.Param.Value)
}

// countDirect counts the variable of $x and "$x". What a command prints is its own affair.
func (c *compiler) countDirect(part syntax.WordPart, in scriptFunctions) {
	switch p := part.(type) {
	case *syntax.ParamExp:
		if p.Param != nil && c.sentinelIndex(p.Param.Value) < 0 {
			c.arithmeticVars[in.key(p)] = true
		}
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			c.countDirect(inner, in)
		}
	}
}

// count takes every name below a node, which may be nil: one too many only asks for a number where any text would do.
func (c *compiler) count(node syntax.Node, in scriptFunctions) {
	if node == nil {
		return
	}
	for n := range syntax.Preorder(node) {
		if lit, ok := n.(*syntax.Lit); ok && syntax.ValidName(lit.Value) {
			c.arithmeticVars[lit.Value] = true
		}
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil && p.Param.Value != "" && isDigit(p.Param.Value[0]) {
			c.arithmeticVars[in.key(p)] = true
		}
	}
}

// countDeclared takes the names of declare -i.
func (c *compiler) countDeclared(n *syntax.DeclClause) {
	integer := slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool {
		return a.Naked && a.Name == nil && strings.HasPrefix(a.Value.Lit(), "-") && strings.Contains(a.Value.Lit(), "i")
	})
	if !integer {
		return
	}
	for _, a := range n.Args {
		if a.Name != nil {
			c.arithmeticVars[a.Name.Value] = true
		}
	}
}

// parameterOf returns the key of a positional parameter of a function. No variable has a NUL in its name.
func parameterOf(fn, n string) string { return fn + "\x00" + n }

// variableKey returns the key of a variable in compiler.arithmeticVars: its name, or that of a parameter.
func variableKey(fn, name string) string {
	if name != "" && isDigit(name[0]) {
		return parameterOf(fn, name)
	}
	return name
}

// functionSpan is a function and where its body is in the parsed text.
type functionSpan struct {
	name       string
	start, end uint
}

// functionsOf returns the functions that a file declares, those within others after these.
func functionsOf(file *syntax.File) []functionSpan {
	var found []functionSpan
	for node := range syntax.Preorder(file) {
		if f, ok := node.(*syntax.FuncDecl); ok && f.Name != nil {
			found = append(found, functionSpan{f.Name.Value, f.Pos().Offset(), f.End().Offset()})
		}
	}
	return found
}
