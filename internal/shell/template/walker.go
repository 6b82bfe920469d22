package template

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

// walker finds the places of refs in a tree: that of the script, or of the code that the script gives to another
// shell. Each construct of the shell passes down a quoteContext, which says what a value would be there, until put
// notes it for a ref.
//
// A ref in nested code is met twice: in that code, and in the words that hold it. Only one of the two gives it a place,
// by its role. Usually that is the nested code; with |sh or |raw it is the words, and the nested code only notes that it
// has met it.
type walker struct {
	c *compiler

	// around are the quotes around nested code in which a ref stands, the nearest first, and roles the roles of refs,
	// both by the index of the ref.
	around map[int][]quoting
	roles  map[int]role

	// depth counts the code around this code: 0 is the script. Offsets in the tree of nested code mean nothing in the
	// text.
	depth int

	// child reports whether another process runs this code, which sees the environment only.
	child bool

	// remote is the program that runs this code where the environment may not arrive. It is empty if there is none.
	remote string

	// backquotes counts the `…` around the current node.
	backquotes int

	// fn is the function whose body this is, by which its parameters are known. See variableKey.
	fn string

	// at is where the statement stands in the whole text. For nested code it is that of the statement around it.
	at int
}

// role is what a walker does with a ref that it meets. The zero role gives it its place here.
type role uint8

const (
	placed role = iota + 1 // it has its place in nested code
	left                   // the shell outside of this nested code fills it in
	met                    // the same, and this code holds it outside quotes
	taken                  // nested code leaves it to this shell
)

// put notes that ref i stands in these surroundings.
func (w *walker) put(i int, s quoteContext) {
	r := w.c.refs[i]
	switch w.roles[i] {
	case placed:
		return
	case left, met:
		// The value itself is filled in by the shell outside.
		if r.expr.has("sh") && s.quote != unquoted && s.quote != comment {
			why := " is already quoted; move it outside the quotes of the nested code"
			r.fault = finding{codeShQuoted, r.written + why}
			return
		}
		w.roles[i] = met
		return
	}
	if w.remote != "" && s.quote != comment && r.isValue() {
		// Code for another machine or user, where the variable may be missing.
		name := strings.Trim(strings.TrimPrefix(r.written, "$"), "{}")
		s.fault = finding{codeRemote, fmt.Sprintf("is inside shell code run by %s, which may not receive prodigy's "+
			"environment; use ${%s|sh} outside quotes", w.remote, name)}
	}
	if w.backquotes > 2 {
		s.fault = finding{codeDeep, "is inside backquotes nested too deeply; use $(...)"}
	}
	r.places = append(r.places, place{
		quoteContext: s, data: w.roles[i] == taken, child: w.child, around: w.around[i], backquotes: w.backquotes,
	})
}

// comments places the refs that stand in comments.
func (w *walker) comments(file *syntax.File) {
	for node := range syntax.Preorder(file) {
		if n, ok := node.(*syntax.Comment); ok {
			for _, s := range w.c.sentinelsIn(n.Text) {
				w.put(s.ref, quoteContext{quote: comment})
			}
		}
	}
}

// word places the refs of a word. Only a ref that is all of it may become several words.
func (w *walker) word(word *syntax.Word, s quoteContext) {
	if word == nil {
		return
	}
	s.words = s.words && len(word.Parts) == 1
	for _, part := range word.Parts {
		w.part(part, s)
	}
}

func (w *walker) part(part syntax.WordPart, s quoteContext) {
	switch p := part.(type) {
	case *syntax.Lit:
		// The refs that the parser left in literal text are text behind a backslash. Otherwise no reference can work there.
		for _, at := range w.c.sentinelsIn(p.Value) {
			if backslashes(p.Value[:at.start])%2 == 0 {
				w.impossible(p.Value[at.start:at.end], "is used where a shell does not allow a value")
				continue
			}
			before := len(w.c.refs[at.ref].places)
			w.put(at.ref, s)
			if r := w.c.refs[at.ref]; len(r.places) > before {
				r.places[before].escaped = true
			}
		}
		// In arithmetic a name needs no dollar: $((count + 1)).
		if s.number {
			w.c.nativeUse(p.Value, quoteContext{number: true}, true, w.child)
		}
	case *syntax.SglQuoted:
		w.singleQuoted(p, s)
	case *syntax.DblQuoted:
		s.words, s.joinsList, s.quote = false, true, double
		for _, inner := range p.Parts {
			w.part(inner, s)
		}
	case *syntax.ParamExp:
		w.param(p, s)
	case *syntax.CmdSubst:
		// It begins anew: no quotes outside of it reach inside.
		outer := w.backquotes
		if p.Backquotes {
			w.backquotes++
		}
		w.stmts(p.Stmts)
		w.backquotes = outer
	case *syntax.ArithmExp:
		w.arithm(p.X, counted)
	case *syntax.ProcSubst:
		w.stmts(p.Stmts)
	case *syntax.ExtGlob:
		w.impossible(p.Pattern.Value, "is inside an extended glob, where placeholders are not supported")
	}
}

// impossible refuses the refs in a text.
func (w *walker) impossible(text, why string) {
	for _, at := range w.c.sentinelsIn(text) {
		w.put(at.ref, denied(codeImpossible, why))
	}
}

// singleQuoted places the refs of '…'. Inside "${x:-'…'}" shells take the quotes as text, whatever the tree says.
func (w *walker) singleQuoted(p *syntax.SglQuoted, s quoteContext) {
	if s.quote == arithmetic {
		w.impossible(p.Value, "is inside single quotes in arithmetic")
		return
	}
	if s.quote == unquoted {
		s.quote = single
		if p.Dollar {
			s.quote = ansi
		}
	}
	s.words, s.joinsList = false, true
	for _, at := range w.c.sentinelsIn(p.Value) {
		w.put(at.ref, s)
	}
}

// param places a sentinel, or walks an expansion of the shell itself, which may be one of a declared name.
func (w *walker) param(p *syntax.ParamExp, s quoteContext) {
	if i := w.c.refOf(p); i >= 0 {
		// It must be the plain expansion that withSentinels wrote, and stand where it was written. Anything else means
		// that the parser read the text in another way than we did.
		r := w.c.refs[i]
		pure := shell.IsPlainExpansion(p) && !p.Width && p.Names == 0
		moved := w.depth == 0 && w.backquotes == 0 && int(p.Pos().Offset()) != r.parseStart
		if !pure || moved {
			s.fault = finding{codeInternal, "cannot be analyzed here; please report this"}
		}
		w.put(i, s)
		return
	}
	if p.Param != nil {
		w.c.nativeUse(p.Param.Value, s, !shell.HasDefault(p), w.child)
	}
	w.operands(p, s)
}

// operands walks what stands inside an expansion of the shell. Patterns have quotes of their own, even within "…": a
// value in "${x%${item.ext}}" must be quoted there, or its * would match anything.
func (w *walker) operands(p *syntax.ParamExp, s quoteContext) {
	s.words, s.command, s.joinsList = false, false, true
	pattern := s
	pattern.quote = unquoted
	w.arithm(p.Index, counted)
	if p.Slice != nil {
		w.arithm(p.Slice.Offset, counted)
		w.arithm(p.Slice.Length, counted)
	}
	if p.Repl != nil {
		w.word(p.Repl.Orig, pattern)
		w.word(p.Repl.With, pattern)
	}
	if p.NestedParam != nil {
		w.part(p.NestedParam, s)
	}
	if p.Exp == nil {
		return
	}
	if shell.HasDefault(p) {
		if p.Param != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
			s = w.assigned(p.Param.Value, s)
		}
		w.word(p.Exp.Word, s)
		return
	}
	w.word(p.Exp.Word, pattern)
}

// arithm walks an expression whose words all stand in s.
func (w *walker) arithm(x syntax.ArithmExpr, s quoteContext) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(node syntax.Node) bool {
		word, is := node.(*syntax.Word)
		if is {
			w.word(word, s)
		}
		return !is
	})
}

func (w *walker) stmts(stmts []*syntax.Stmt) {
	for _, s := range stmts {
		w.stmt(s)
	}
}

// stmt walks a statement and its redirections. Those of a simple command are left to call, since the code that the
// command reads may stand in a heredoc.
func (w *walker) stmt(s *syntax.Stmt) {
	if w.depth == 0 {
		w.at = int(s.Pos().Offset())
	}
	if call, ok := s.Cmd.(*syntax.CallExpr); ok {
		w.call(call, s.Redirs)
		return
	}
	if s.Cmd != nil {
		syntax.Walk(s.Cmd, w.command)
	}
	w.redirects(s.Redirs)
}

// command visits a command that is not simple, and what is in it. Words that stand in it directly are texts to compare.
func (w *walker) command(node syntax.Node) bool {
	switch n := node.(type) {
	case *syntax.Stmt:
		w.stmt(n)
	case *syntax.Word:
		w.word(n, quoteContext{joinsList: true})
	case *syntax.ForClause:
		switch l := n.Loop.(type) {
		case *syntax.WordIter:
			w.impossible(l.Name.Value, "is used as a variable name")
			s := quoteContext{words: true, loop: true, number: w.c.arithmeticVars[l.Name.Value], plain: true}
			for _, word := range l.Items {
				w.word(word, s)
			}
		case *syntax.CStyleLoop:
			w.arithm(l.Init, counted)
			w.arithm(l.Cond, counted)
			w.arithm(l.Post, counted)
		}
		w.stmts(n.Do)
	case *syntax.FuncDecl:
		outer := w.fn
		if n.Name != nil {
			w.impossible(n.Name.Value, "is used in a function name")
			w.fn = n.Name.Value
		}
		w.stmt(n.Body)
		w.fn = outer
	case *syntax.ArithmCmd:
		w.arithm(n.X, counted)
	case *syntax.DeclClause:
		w.declaration(n)
	case *syntax.LetClause: // let "n = 1": words, which the shell evaluates
		for _, x := range n.Exprs {
			w.arithm(x, quoteContext{number: true})
		}
	case *syntax.CoprocClause:
		w.word(n.Name, denied(codeName, "is used as a variable name"))
		w.stmt(n.Stmt)
	case *syntax.UnaryTest: // [[ -v name ]] and [[ -R name ]]
		word, ok := n.X.(*syntax.Word)
		if !ok || n.Op != syntax.TsVarSet && n.Op != syntax.TsRefVar {
			return true
		}
		w.word(word, evaluated(codeImpossible, "is a variable name that the shell evaluates"))
	case *syntax.BinaryTest: // from -eq to -gt
		if n.Op < syntax.TsEql || n.Op > syntax.TsGtr {
			return true
		}
		for _, x := range []syntax.TestExpr{n.X, n.Y} {
			if word, ok := x.(*syntax.Word); ok {
				w.word(word, quoteContext{number: true, plain: true})
			}
		}
	default:
		return true
	}
	return false
}

// counted are the surroundings of $((…)), ((…)) and subscripts, where the shell evaluates what stands there.
var counted = quoteContext{quote: arithmetic, number: true}

// declaration walks declare, local, export, readonly and their like, whose options change what a value does there.
func (w *walker) declaration(n *syntax.DeclClause) {
	value := quoteContext{joinsList: true}
	if n.Variant.Value == "nameref" {
		value = denied(codeImpossible, "is the target of a name reference")
	}
	for _, a := range n.Args {
		if a.Naked && a.Name == nil {
			value = w.declared(a.Value, value)
			continue
		}
		w.assign(a, value)
	}
}

// declared takes an option of a declaration, or refuses a name that comes from a value. It returns what value is for
// the assignments that follow: with -i they are evaluated.
func (w *walker) declared(option *syntax.Word, value quoteContext) quoteContext {
	lit := option.Lit()
	if lit == "" || lit[0] != '-' && lit[0] != '+' {
		if isAssignment(option) {
			w.word(option, quoteContext{joinsList: true, number: value.number, plain: value.number, fault: value.fault})
			return value
		}
		w.word(option, evaluated(codeName, "is used as a variable name"))
		return value
	}
	for _, letter := range lit[1:] {
		switch letter {
		case 'i':
			value.number = true
		case 'n':
			value = denied(codeImpossible, "is the target of a name reference")
		}
	}
	return value
}

// assign walks name=value, name[index]=value or name=(values), where value says what a value is there.
func (w *walker) assign(a *syntax.Assign, value quoteContext) {
	if a.Name != nil {
		w.impossible(a.Name.Value, "is used in a variable name")
		value = w.assigned(a.Name.Value, value)
	}
	w.arithm(a.Index, counted)
	w.word(a.Value, value)
	if a.Array == nil {
		return
	}
	value.words, value.joinsList = true, false
	for _, e := range a.Array.Elems {
		w.arithm(e.Index, counted)
		w.word(e.Value, value)
	}
}

// assigned returns what value is for an assignment to this variable: it may be one that the shell expands again, or
// evaluates as a number, by itself or because the script counts with it.
func (w *walker) assigned(name string, value quoteContext) quoteContext {
	switch name {
	case "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND", "ENV", "BASH_ENV":
		return evaluated(codeImpossible, "is assigned to "+name+", which the shell expands again")
	case "RANDOM", "SRANDOM", "SECONDS", "LINENO", "OPTIND", "HISTCMD":
		value.number, value.plain = true, true
	}
	if w.c.arithmeticVars[name] {
		value.number, value.plain = true, true
	}
	return value
}

// denied are surroundings in which no value may stand. The text goes on after the placeholder.
func denied(code, why string) quoteContext { return quoteContext{fault: finding{code, why}} }

// evaluated are surroundings that run what stands in them, which is why no text of someone else may.
func evaluated(code, why string) quoteContext {
	return quoteContext{fault: finding{code, why}, joinsList: true, evaluated: true}
}

func (w *walker) redirects(redirs []*syntax.Redirect) {
	for _, r := range redirs {
		switch {
		case r.Hdoc != nil:
			w.word(r.Word, denied(codeImpossible, "is used in a heredoc delimiter"))
			w.heredoc(r)
		case r.Op == syntax.WordHdoc:
			w.word(r.Word, quoteContext{joinsList: true})
		default:
			w.word(r.Word, quoteContext{file: r.Op != syntax.RdrIn})
		}
	}
}

// heredoc places the refs of a heredoc's body.
func (w *walker) heredoc(r *syntax.Redirect) {
	if !shell.IsQuoted(r.Word) {
		w.word(r.Hdoc, quoteContext{quote: heredoc, joinsList: true})
		return
	}
	body := shell.HeredocText(r)
	if body == nil {
		return
	}
	s := quoteContext{quote: quotedHeredoc, joinsList: true}
	if w.depth > 0 || w.backquotes > 0 {
		s.fault = finding{codeHeredoc, "is inside a quoted heredoc in nested code or backquotes; use an unquoted heredoc"}
	}
	found := w.c.sentinelsIn(body.Value)
	for _, at := range found {
		w.put(at.ref, s)
	}
	if s.fault.code == "" && len(found) > 0 && !w.noteQuotedDoc(r, body, found) {
		w.impossible(body.Value, "is inside a heredoc that cannot be analyzed")
	}
}

// noteQuotedDoc remembers the heredoc for rewriting. It returns false when the text is not what the tree says.
func (w *walker) noteQuotedDoc(r *syntax.Redirect, body *syntax.Lit, found []span) bool {
	text := w.c.parseText
	start := int(body.Pos().Offset())
	end := start + len(body.Value)
	delimiter := shell.WordText(r.Word)
	if end > len(text) || text[start:end] != body.Value || !strings.HasPrefix(text[end:], delimiter) {
		return false
	}
	w.c.heredocs = append(w.c.heredocs, quotedDoc{
		word: [2]int{int(r.Word.Pos().Offset()), int(r.Word.End().Offset())},
		body: [2]int{start, end}, end: [2]int{end, end + len(delimiter)},
		delimiter: delimiter, refs: found,
	})
	return true
}
