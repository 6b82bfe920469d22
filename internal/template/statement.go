package template

import "mvdan.cc/sh/v3/syntax"

func (w *walker) stmts(stmts []*syntax.Stmt) {
	for _, s := range stmts {
		w.stmt(s)
	}
}

func (w *walker) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	if !w.nested {
		w.at = int(s.Pos().Offset())
	}
	if call, ok := s.Cmd.(*syntax.CallExpr); ok {
		w.call(call, s.Redirs)
		return
	}
	w.command(s.Cmd)
	w.redirects(s.Redirs)
}

func (w *walker) command(cmd syntax.Command) {
	switch n := cmd.(type) {
	case *syntax.Subshell:
		w.stmts(n.Stmts)
	case *syntax.Block:
		w.stmts(n.Stmts)
	case *syntax.IfClause:
		w.ifClause(n)
	case *syntax.WhileClause:
		w.stmts(n.Cond)
		w.stmts(n.Do)
	case *syntax.ForClause:
		w.loop(n)
	case *syntax.CaseClause:
		w.caseClause(n)
	case *syntax.BinaryCmd:
		w.stmt(n.X)
		w.stmt(n.Y)
	case *syntax.FuncDecl:
		w.function(n)
	case *syntax.ArithmCmd:
		w.arithm(n.X, surroundings{quote: arithmetic, number: true})
	case *syntax.TestClause:
		w.test(n.X)
	case *syntax.DeclClause:
		w.declaration(n)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			w.arithm(x, surroundings{quote: bare, number: true})
		}
	case *syntax.TimeClause:
		w.stmt(n.Stmt)
	case *syntax.CoprocClause:
		w.word(n.Name, denied(codeName, "names a variable"))
		w.stmt(n.Stmt)
	}
}

func (w *walker) ifClause(n *syntax.IfClause) {
	for ; n != nil; n = n.Else {
		w.stmts(n.Cond)
		w.stmts(n.Then)
	}
}

func (w *walker) loop(n *syntax.ForClause) {
	switch l := n.Loop.(type) {
	case *syntax.WordIter:
		w.impossible(l.Name.Value, "names a variable")
		w.words(l.Items, surroundings{words: true, loop: true, number: w.c.counted[l.Name.Value], plain: true})
	case *syntax.CStyleLoop:
		count := surroundings{quote: arithmetic, number: true}
		w.arithm(l.Init, count)
		w.arithm(l.Cond, count)
		w.arithm(l.Post, count)
	}
	w.stmts(n.Do)
}

func (w *walker) caseClause(n *syntax.CaseClause) {
	w.word(n.Word, surroundings{joins: true})
	for _, item := range n.Items {
		w.words(item.Patterns, surroundings{joins: true})
		w.stmts(item.Stmts)
	}
}

func (w *walker) function(n *syntax.FuncDecl) {
	if n.Name != nil {
		w.impossible(n.Name.Value, "stands in the name of a function")
	}
	outer := w.fn
	if n.Name != nil {
		w.fn = n.Name.Value
	}
	w.stmt(n.Body)
	w.fn = outer
}

func (w *walker) test(x syntax.TestExpr) {
	switch n := x.(type) {
	case *syntax.Word:
		w.word(n, surroundings{joins: true})
	case *syntax.ParenTest:
		w.test(n.X)
	case *syntax.UnaryTest:
		if word, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) {
			w.word(word, evaluated(codeImpossible, "names a variable, which the shell evaluates"))
			return
		}
		w.test(n.X)
	case *syntax.BinaryTest:
		w.comparison(n)
	}
}

func (w *walker) comparison(n *syntax.BinaryTest) {
	switch n.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		for _, x := range []syntax.TestExpr{n.X, n.Y} {
			if word, ok := x.(*syntax.Word); ok {
				w.word(word, surroundings{number: true, plain: true})
			}
		}
		return
	}
	w.test(n.X)
	w.test(n.Y)
}

// declaration walks declare, local, export, readonly and their like, whose options change what a value does there.
func (w *walker) declaration(n *syntax.DeclClause) {
	value := surroundings{joins: true}
	if n.Variant.Value == "nameref" {
		value = denied(codeImpossible, "names a variable that others stand for")
	}
	for _, a := range n.Args {
		if a.Naked && a.Name == nil {
			value = w.declared(a.Value, value)
			continue
		}
		w.assign(a, value)
	}
}

// declared takes an option of a declaration, or refuses a name that comes from a value.
func (w *walker) declared(option *syntax.Word, value surroundings) surroundings {
	lit := option.Lit()
	if lit == "" || lit[0] != '-' && lit[0] != '+' {
		if isAssignment(option) {
			w.word(option, surroundings{joins: true, number: value.number, plain: value.number, fault: value.fault})
			return value
		}
		w.word(option, evaluated(codeName, "names a variable"))
		return value
	}
	for _, letter := range lit[1:] {
		switch letter {
		case 'i':
			value.number = true
		case 'n':
			value = denied(codeImpossible, "names a variable that others stand for")
		}
	}
	return value
}

func (w *walker) assign(a *syntax.Assign, value surroundings) {
	count := surroundings{quote: arithmetic, number: true}
	if a.Name != nil {
		w.impossible(a.Name.Value, "stands in the name of a variable")
		value = w.assigned(a.Name.Value, value)
	}
	w.arithm(a.Index, count)
	w.word(a.Value, value)
	if a.Array == nil {
		return
	}
	value.words, value.joins = true, false
	for _, e := range a.Array.Elems {
		w.arithm(e.Index, count)
		w.word(e.Value, value)
	}
}

// assigned looks whether the shell evaluates what this variable holds.
func (w *walker) assigned(name string, value surroundings) surroundings {
	switch name {
	case "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND", "ENV", "BASH_ENV":
		return evaluated(codeImpossible, "would be expanded again as the value of "+name)
	case "RANDOM", "SRANDOM", "SECONDS", "LINENO", "OPTIND", "HISTCMD":
		value.number, value.plain = true, true
	}
	if w.c.counted[name] {
		value.number, value.plain = true, true
	}
	return value
}

// denied are surroundings in which no value may stand. The text goes on after the placeholder.
func denied(code, why string) surroundings { return surroundings{fault: finding{code, why}} }

// evaluated are surroundings that run what stands in them, which is why no text of someone else may.
func evaluated(code, why string) surroundings {
	return surroundings{fault: finding{code, why}, joins: true, evaluated: true}
}

func (w *walker) redirects(redirs []*syntax.Redirect) {
	for _, r := range redirs {
		w.redirect(r)
	}
}

func (w *walker) redirect(r *syntax.Redirect) {
	switch {
	case r.Hdoc != nil:
		w.word(r.Word, denied(codeImpossible, "stands in the delimiter of a heredoc"))
		w.heredoc(r)
	case r.Op == syntax.WordHdoc:
		w.word(r.Word, surroundings{joins: true})
	default:
		w.word(r.Word, surroundings{file: r.Op != syntax.RdrIn})
	}
}
