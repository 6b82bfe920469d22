package taint

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

// stmts interprets statements and returns what they print.
func (t *analysis) stmts(f *shellFrame, stmts []*syntax.Stmt) texts {
	out := empty
	before := len(t.redirected)
	for _, s := range stmts {
		out = t.joined(out, t.stmt(f, s), s)
	}
	for _, r := range t.redirected[before:] {
		t.collected(f, r, out)
	}
	t.redirected = t.redirected[:before]
	return out
}

// collected takes what was printed to where a redirection leads.
func (t *analysis) collected(f *shellFrame, r *syntax.Redirect, out texts) {
	in := t.fork(f, r)
	for _, name := range t.word(in, r.Word) {
		t.written(name, out)
	}
	for _, p := range in.out {
		reader := t.fork(f, p)
		reader.stdin = out
		t.stmts(reader, p.Stmts)
	}
}

// stmt interprets a statement and returns what it prints.
func (t *analysis) stmt(f *shellFrame, s *syntax.Stmt) texts {
	if s == nil || t.exhausted {
		return empty
	}
	if start, ok := t.starts[s]; ok {
		defer func(before int) { t.at = before }(t.at)
		t.at = start
	}
	t.steps++
	t.exhausted = t.steps > max(minSteps, len(t.Text)*stepsPerKiB/1024)
	if s.Background || s.Coprocess {
		f = t.fork(f, s)
	}
	in := f
	if len(s.Redirs) > 0 {
		in = f.inner()
		if slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool { return r.Hdoc == nil && r.Op != syntax.WordHdoc }) {
			in.region = t.regionOf(f.region, s, region{}) // it does not run without the file
		}
		t.input(f, in, s)
	}
	// What >(…) reads is known when the command has run.
	out := t.command(in, s)
	for _, p := range in.out {
		reader := t.fork(f, p)
		reader.stdin = t.joined(out, in.stdin, p)
		out = t.joined(out, t.stmts(reader, p.Stmts), p)
	}
	in.out = nil
	return t.output(f, s, out)
}

// input sets what a command reads by its redirections.
func (t *analysis) input(f, in *shellFrame, s *syntax.Stmt) {
	for _, r := range s.Redirs {
		var brings texts
		switch {
		case r.Hdoc != nil && shell.IsQuoted(r.Word):
			if body := shell.HeredocText(r); body != nil {
				brings = texts{body.Value}
			}
		case r.Hdoc != nil:
			brings = flat(t.parts(f, r.Hdoc.Parts, inHeredoc, r))
		case r.Op == syntax.WordHdoc:
			brings = t.word(f, r.Word)
		case r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut:
			for _, name := range t.word(f, r.Word) {
				content := t.content(f, name)
				if content == nil {
					content = t.remains([]string{name}, r, perhaps)
					if len(t.marksIn(name)) > 0 { // the file is chosen by data, its content is another's
						content = t.opaque(r)
					}
				}
				brings = brings.with(content...)
			}
		case r.Op == syntax.DplIn:
			brings = t.fds
		default:
			continue
		}
		if len(brings) == 0 {
			brings = empty
		}
		switch {
		case r.N != nil && r.N.Value != "0", isExec(s):
			t.fds = t.grown(t.fds, brings)
			if f.fed && isExec(s) && (r.N == nil || r.N.Value == "0") { // the shell goes on reading there
				t.code(f, brings, false, nil, r)
			}
		default:
			in.stdin = brings
		}
	}
	if isExec(s) && len(t.fds) > 0 {
		f.owner().stdin = f.owner().stdin.with(t.fds...)
		f.stdin = f.stdin.with(t.fds...)
	}
}

func (t *analysis) grown(a, b texts) texts {
	merged := t.bounded(a.with(b...), "fd")
	t.changed = t.changed || !slices.Equal(merged, a)
	return merged
}

func isExec(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) == 1 && call.Args[0].Lit() == "exec"
}

// output takes what a command prints to where its redirections lead, and returns what is left for its own output.
func (t *analysis) output(f *shellFrame, s *syntax.Stmt, out texts) texts {
	left := out
	for _, r := range s.Redirs {
		if r.N != nil && r.N.Value != "1" {
			if !slices.Contains(t.numbered, r) {
				t.numbered, t.changed = append(t.numbered, r), true
			}
			continue
		}
		switch {
		case isOutput(r.Op):
			if isExec(s) {
				t.redirected = append(t.redirected, r)
				continue
			}
			t.collected(f, r, out)
			left = empty
		case r.Op == syntax.DplOut:
			if r.Word.Lit() == "2" && !t.merged {
				left = empty
			} else if r.Word.Lit() != "1" && r.Word.Lit() != "2" {
				t.fds = t.grown(t.fds, out)
			}
			for _, numbered := range t.numbered {
				if numbered.N.Value == r.Word.Lit() && numbered.Op != syntax.DplOut && numbered.Op != syntax.DplIn {
					t.collected(f, numbered, out)
				}
			}
		}
	}
	return left
}

// isOutput reports whether a redirection leads to a file.
func isOutput(op syntax.RedirOperator) bool {
	return slices.Contains([]syntax.RedirOperator{syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut}, op)
}

// command interprets a command and returns what it prints.
func (t *analysis) command(f *shellFrame, s *syntax.Stmt) texts {
	switch n := s.Cmd.(type) {
	case nil:
		return f.stdin // $(< file)
	case *syntax.CallExpr:
		return t.call(f, n)
	case *syntax.Subshell:
		return t.stmts(t.fork(f, n), n.Stmts)
	case *syntax.Block:
		return t.stmts(f, n.Stmts)
	case *syntax.IfClause:
		return t.ifClause(f, n)
	case *syntax.WhileClause:
		in := t.loop(f, n)
		out := t.stmts(in, n.Cond)
		return t.joined(out, t.stmts(in, n.Do), n)
	case *syntax.ForClause:
		return t.forClause(f, n)
	case *syntax.CaseClause:
		return t.caseClause(f, n)
	case *syntax.BinaryCmd:
		return t.binary(f, n)
	case *syntax.FuncDecl:
		if n.Name != nil && !slices.Contains(t.funcs[n.Name.Value], n) {
			t.funcs[n.Name.Value] = append(t.funcs[n.Name.Value], n)
			t.changed = true
		}
		if n.RsrvWord && !n.Parens && t.mayBeDash { // dash takes function for a command, and runs what follows
			return t.stmt(t.branch(f, n), n.Body)
		}
	case *syntax.ArithmCmd:
		t.arithm(f, n.X)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			t.arithm(f, x)
		}
	case *syntax.TestClause:
		t.test(f, n.X)
	case *syntax.DeclClause:
		t.declaration(f, n)
	case *syntax.TimeClause:
		return t.stmt(f, n.Stmt)
	case *syntax.CoprocClause:
		in := t.fork(f, n)
		in.stdin = in.stdin.with(t.fds...)
		t.fds = t.grown(t.fds, t.stmt(in, n.Stmt))
	}
	return empty
}

func (t *analysis) ifClause(f *shellFrame, n *syntax.IfClause) texts {
	out := empty
	for ; n != nil; n = n.Else {
		in := t.branch(f, n)
		since := t.tick
		out = t.joined(out, t.stmts(f, n.Cond), n)
		after := t.ifGuards(f, in, since, n)
		then := t.stmts(in, n.Then)
		if n.Else == nil {
			then = then.with("")
		}
		out = t.joined(out, then, n)
		if n.Else != nil { // it runs in turn when the condition does not hold
			f = t.branch(f, n.Else)
		}
		t.addGuards(f, since, after)
	}
	return out
}

// loop returns the frame of a loop's body. Where the body moves the parameters, each may be anywhere.
func (t *analysis) loop(f *shellFrame, node syntax.Node) *shellFrame {
	in := t.branch(f, node)
	in.region = t.regionOf(f.region, node, region{loop: true})
	for x := range syntax.Preorder(node) {
		if call, ok := x.(*syntax.CallExpr); ok && len(call.Args) > 0 && (call.Args[0].Lit() == "shift" || call.Args[0].Lit() == "set") {
			f.owner().loose = true
		}
	}
	return in
}

func (t *analysis) forClause(f *shellFrame, n *syntax.ForClause) texts {
	in := t.loop(f, n)
	switch l := n.Loop.(type) {
	case *syntax.WordIter:
		if !l.InPos.IsValid() {
			for _, text := range f.owner().params {
				for _, x := range fieldsOf(text) {
					t.assign(in, l.Name.Value, l, texts{x.text}, true)
				}
			}
			break
		}
		var all texts
		for _, item := range l.Items {
			for _, text := range t.argument(f, item) {
				for _, x := range fieldsOf(text) {
					all = all.with(x.text)
				}
			}
		}
		always(t.assign(in, l.Name.Value, l, t.bounded(all, l), false))
	case *syntax.CStyleLoop:
		t.arithm(f, l.Init)
		t.arithm(in, l.Cond)
		t.arithm(in, l.Post)
	}
	return t.stmts(in, n.Do).with("")
}

func (t *analysis) caseClause(f *shellFrame, n *syntax.CaseClause) texts {
	since := t.tick
	t.word(f, n.Word)
	out := texts{""}
	for i, item := range n.Items {
		in := t.branch(f, item)
		for _, p := range item.Patterns {
			t.word(f, p)
		}
		if i == 0 || n.Items[i-1].Op == syntax.Break {
			t.itemGuard(in, since, n, item)
		}
		out = out.with(t.stmts(in, item.Stmts)...)
	}
	t.caseGuard(f, since, n)
	return t.bounded(out, n)
}

func (t *analysis) binary(f *shellFrame, n *syntax.BinaryCmd) texts {
	if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
		reader := t.fork(f, n.Y)
		if t.lastInShell {
			reader.region = t.regionOf(f.region, n.Y, region{})
		}
		reader.stdin = t.change(t.stmt(t.fork(f, n.X), n.X), func(m mark) mark { m.piped = true; return m })
		return t.stmt(reader, n.Y)
	}
	since := t.tick
	out := t.stmt(f, n.X)
	in := t.branch(f, n.Y)
	holds, fails := t.proves(n.X)
	if n.Op == syntax.OrStmt {
		holds, fails = fails, holds
	}
	t.addGuards(in, since, holds)
	out = t.joined(out, t.stmt(in, n.Y).with(""), n)
	if t.leaves(f, []*syntax.Stmt{n.Y}) {
		t.addGuards(f, since, fails)
	}
	return out
}

func (t *analysis) test(f *shellFrame, x syntax.TestExpr) {
	switch n := x.(type) {
	case *syntax.Word:
		t.word(f, n)
	case *syntax.ParenTest:
		t.test(f, n.X)
	case *syntax.UnaryTest:
		word, ok := n.X.(*syntax.Word)
		if !ok || n.Op != syntax.TsVarSet && n.Op != syntax.TsRefVar {
			t.test(f, n.X)
			return
		}
		for _, name := range t.word(f, word) {
			t.name(f, name)
		}
	case *syntax.BinaryTest:
		x, okX := n.X.(*syntax.Word)
		y, okY := n.Y.(*syntax.Word)
		if !okX || !okY {
			t.test(f, n.X)
			t.test(f, n.Y)
			return
		}
		left, right := t.word(f, x), t.word(f, y)
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, text := range slices.Concat(left, right) {
				t.arithText(f, text, nil)
			}
		case syntax.TsReMatch:
			t.assign(f, "BASH_REMATCH", n, t.remains(left, n, sure).with(left...), true)
		}
	}
}

// declaration interprets declare, local, export, readonly and their like.
func (t *analysis) declaration(f *shellFrame, n *syntax.DeclClause) {
	integer, naked := false, n.Variant.Value == "export"
	reference := n.Variant.Value == "nameref"
	fixed := n.Variant.Value == "readonly"
	for _, a := range n.Args {
		if !a.Naked || a.Name != nil {
			continue
		}
		for _, text := range t.argument(f, a.Value) {
			for _, x := range fieldsOf(text) {
				switch {
				case strings.HasPrefix(x.text, "-"):
					integer = integer || strings.Contains(x.text, "i")
					reference = reference || strings.Contains(x.text, "n")
					naked = naked || strings.Contains(x.text, "x")
					fixed = fixed || strings.Contains(x.text, "r")
				case strings.HasPrefix(x.text, "+"):
				default:
					t.declared(f, x.text, integer, a)
					if name, _, _ := strings.Cut(x.text, "="); naked {
						t.export(name)
					}
				}
			}
		}
	}
	isMap := slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool {
		return a.Naked && a.Name == nil && strings.HasPrefix(a.Value.Lit(), "-") && strings.Contains(a.Value.Lit(), "A")
	})
	for _, a := range n.Args {
		if a.Name == nil {
			continue
		}
		if fixed && !t.readonly[a.Name.Value] {
			t.readonly[a.Name.Value], t.changed = true, true
		}
		if reference && !t.hasRefs {
			t.hasRefs, t.changed = true, true
		}
		if integer && !t.integers[a.Name.Value] {
			t.integers[a.Name.Value], t.changed = true, true
		}
		if isMap {
			t.maps[a.Name.Value], t.mapped[a.Name.Value] = true, true
		}
		if naked {
			t.export(a.Name.Value)
		}
		if naked && a.Naked {
			t.steers(a.Name.Value, t.read(f, a.Name.Value))
		}
		if reference && !t.refs[a.Name.Value] {
			t.refs[a.Name.Value], t.changed = a.Naked, t.changed || a.Naked
		}
		if reference && a.Value != nil {
			for _, name := range t.word(f, a.Value) {
				t.name(f, name)
				// Two names of one variable: what one is given, the other has.
				t.assign(f, a.Name.Value, a, t.read(f, name), true)
				if syntax.ValidName(name) {
					t.assign(f, name, a, t.read(f, a.Name.Value), true)
				}
			}
			continue
		}
		if !a.Naked {
			if s := t.assignment(f, a); s != nil && (!t.mayBeDash || slices.Contains([]string{"export", "readonly", "local"}, n.Variant.Value)) {
				s.always = a.Index == nil && !a.Append
			}
		}
	}
}

// declared interprets name=value that a declaration is given in a word that the parser does not read.
func (t *analysis) declared(f *shellFrame, text string, integer bool, node any) {
	name, value, isAssignment := strings.Cut(text, "=")
	if name = t.name(f, name); name == "" {
		return
	}
	if integer && !t.integers[name] {
		t.integers[name], t.changed = true, true
	}
	if !isAssignment {
		return
	}
	t.assign(f, name, node, texts{value}, false)
}

// index notes that a variable is an array of numbers, which declare -A does not change.
func (t *analysis) index(name string) {
	if !t.indexed[name] {
		t.indexed[name], t.changed = true, true
	}
}

// key notes a key of an array, which ${!name[@]} brings back.
func (t *analysis) key(f *shellFrame, name string, index syntax.ArithmExpr, node any) {
	if word, ok := index.(*syntax.Word); ok {
		t.assign(f, keysOf(name), node, t.word(f, word), true)
	}
}

// assignment interprets name=value.
func (t *analysis) assignment(f *shellFrame, a *syntax.Assign) *site {
	if a.Name == nil || a.Naked {
		return nil
	}
	name := a.Name.Value
	t.subscript(f, name, a.Index)
	t.key(f, name, a.Index, a)
	value := t.word(f, a.Value)
	if (a.Array != nil || a.Index != nil) && !t.mapped[name] {
		t.index(name)
	}
	if a.Array != nil {
		value = empty
		for i, e := range a.Array.Elems {
			t.subscript(f, name, e.Index)
			t.key(f, name, e.Index, e)
			if e.Value == nil {
				continue
			}
			element := t.argument(f, e.Value)
			if i > 0 {
				value = t.joined(value, texts{itemEnd}, a)
			}
			var words texts
			for _, text := range element {
				var fields []string
				for _, x := range fieldsOf(text) {
					if x.many {
						x.text += several
					}
					fields = append(fields, x.text)
				}
				words = words.with(strings.Join(fields, itemEnd))
			}
			value = t.joined(value, words, a)
		}
	}
	switch {
	case a.Append:
		if a.Array != nil && t.vars[name] != nil {
			value = t.joined(texts{itemEnd}, value, a)
		}
		t.appended(f, name, a, value)
		return t.siteOf[siteKey{name, a, f.ctx}]
	case a.Index != nil:
		return t.assign(f, name, a, value, true)
	}
	return t.assign(f, name, a, value, false)
}
