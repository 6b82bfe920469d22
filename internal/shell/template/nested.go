package template

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

// maxNesting is how deep nested code may hold a value. Quotes around quotes grow by a factor with each level.
const maxNesting = 6

// opaqueName begins the names that stand for expansions of the shell outside; the digits behind it count them.
const opaqueName = "PRODIGY_X"

// nestedCode is code for another shell, rebuilt from the quotes it is written in. For sh -c 'echo "${item.a}"' the text
// is echo "${PRODIGY_V0}", and the ref has the quotes '…'.
type nestedCode struct {
	c    *compiler
	text strings.Builder

	// quotes are those around each ref in the words that hold the code.
	quotes map[int]quoting

	// escaped are the refs after a backslash, which the shell outside takes away.
	escaped map[int]bool

	// outer counts the expansions of the shell outside.
	outer int

	// hidden are the refs in these expansions, such as "${x:-${item.a}}", whose result is code.
	hidden []int
}

// call walks a simple command: first the code among its arguments, then the arguments as the shell itself sees them.
func (w *walker) call(call *syntax.CallExpr, redirs []*syntax.Redirect) {
	for _, a := range call.Assigns {
		w.assign(a, quoteContext{joinsList: true})
	}
	args := shell.Texts(call.Args, w.c.constants)
	roles := maps.Clone(w.roles)
	if len(args) > 0 {
		plan := shell.PlanCall(args)
		w.codes(plan, call.Args, redirs)
		w.arguments(plan, call.Args)
		w.c.lintCall(args, call.Args)
	}
	w.redirects(redirs)
	maps.DeleteFunc(w.roles, func(_ int, r role) bool { return r != met })
	maps.Copy(roles, w.roles)
	w.roles = roles
}

// arguments places the refs of the words of a command by its plan. An argument of a function that counts with that
// parameter must be a number, too.
func (w *walker) arguments(plan shell.Plan, words []*syntax.Word) {
	fn := words[0].Lit()
	for i, word := range words {
		s := quoteContext{words: i > 0, command: i == 0}
		switch {
		case plan.Denied[i] || plan.Declares[i] && !isAssignment(word):
			s = evaluated(codeName, "is used as a variable name, or is expanded again")
		case plan.Declares[i]:
			s = quoteContext{joinsList: true}
		case plan.Numbers[i] || fn != "" && w.c.arithmeticVars[variableKey(fn, strconv.Itoa(i))]:
			s = quoteContext{number: true, plain: true}
		}
		w.word(word, s)
	}
}

// isAssignment reports whether a word starts with a name and a sign of equality. A name that the script holds
// in a variable of its own counts: the analysis of the finished script looks what it is.
func isAssignment(word *syntax.Word) bool {
	for _, part := range shell.Unquoted(word) {
		switch p := part.(type) {
		case *syntax.Lit:
			name, _, ok := strings.Cut(p.Value, "=")
			if !shell.IsPlain(name, "") {
				return false
			}
			if ok {
				return true
			}
		case *syntax.ParamExp:
			if p.Param == nil || strings.HasPrefix(p.Param.Value, sentinelName) || !shell.IsPlainExpansion(p) &&
				!p.Short {
				return false
			}
		default:
			return false
		}
	}
	return false
}

// codes walks the nested code of a command.
func (w *walker) codes(plan shell.Plan, words []*syntax.Word, redirs []*syntax.Redirect) {
	for _, args := range plan.Codes {
		code := w.newNestedCode()
		for n, i := range args.Args {
			if n > 0 {
				code.text.WriteByte(' ')
			}
			code.addParts(words[i].Parts, unquoted)
		}
		w.inside(code, args)
		if !args.Child || len(args.Args) != 1 {
			continue
		}
		// Parameter n of the code stands n words after $0, which follows the code.
		zero := args.Args[0] + 1
		for i := zero + 1; i < len(words); i++ {
			if w.c.arithmeticVars[variableKey(w.childName(), strconv.Itoa(i-zero))] {
				plan.Numbers[i] = true
			}
		}
	}
	if plan.Stdin == nil {
		return
	}
	// Of the code that a shell reads, only what stands here can be walked. A pipe is left to checkValues.
	for _, r := range redirs {
		code := w.newNestedCode()
		switch {
		case r.Op == syntax.WordHdoc:
			code.addParts(r.Word.Parts, unquoted)
		case r.Hdoc != nil:
			code.addHeredoc(r)
		default:
			continue
		}
		w.inside(code, *plan.Stdin)
	}
}

// childName is the name, as of a function, by which the parameters of sh -c are known. See variableKey.
func (w *walker) childName() string { return "\x00" + strconv.Itoa(w.at) }

// inside parses nested code and places the refs in it, except for data, which the shell outside fills in.
func (w *walker) inside(code *nestedCode, args shell.Code) {
	if w.refuseOpaque(code) {
		return
	}
	if w.depth >= maxNesting {
		w.refuseAll(code, codeDeep, "is inside shell code that is nested too deeply; use fewer levels of eval and sh -c")
		return
	}
	file, err := shell.Parse(code.text.String(), w.c.dialects)
	if err != nil {
		w.refuseAll(
			code, codeNested,
			"is inside nested code that is not valid sh: "+w.c.restorePlaceholders(shell.ErrorText(err)),
		)
		return
	}
	inner := w.innerWalker(code, args)
	w.c.collectVariables(file, inner.fn)
	inner.comments(file)
	inner.stmts(file.Stmts)
	w.takeOver(code, inner)
}

func (w *walker) newNestedCode() *nestedCode {
	return &nestedCode{c: w.c, quotes: map[int]quoting{}, escaped: map[int]bool{}}
}

// refuseOpaque refuses refs whose place in the code nobody can know.
func (w *walker) refuseOpaque(code *nestedCode) bool {
	for _, i := range code.hidden {
		w.c.refs[i].fault = finding{
			codeOpaque,
			w.c.refs[i].written + " is used in an expansion that another shell runs as code; assign it to its own variable first",
		}
	}
	for i := range code.escaped {
		if r := w.c.refs[i]; r.kind == dotted {
			r.fault = finding{codeEscaped, r.written + " is escaped in nested code; use $" + r.written + " for the literal text"}
		}
	}
	if w.backquotes > 0 && len(code.quotes) > 0 {
		w.refuseAll(code, codeDeep, "is inside nested code in backquotes; use $(...)")
		return true
	}
	return false
}

// refuseAll refuses the refs of code that cannot be walked. Their place is the code all the same, so that the words
// around it do not give them one.
func (w *walker) refuseAll(code *nestedCode, id, why string) {
	for i := range code.quotes {
		w.put(i, denied(id, why))
		w.roles[i] = placed
	}
}

// innerWalker returns the walker for nested code. What is true of the code around it, such as a remote program, stays
// true.
func (w *walker) innerWalker(code *nestedCode, args shell.Code) *walker {
	inner := &walker{
		c: w.c, around: map[int][]quoting{}, roles: map[int]role{}, depth: w.depth + 1,
		child: w.child || args.Child, remote: cmp.Or(args.Remote, w.remote), at: w.at, fn: w.fn,
	}
	if args.Child { // its parameters are its own
		inner.fn = w.childName()
	}
	for i, q := range code.quotes {
		inner.around[i] = append([]quoting{q}, w.around[i]...)
		if w.roles[i] == placed {
			inner.roles[i] = placed
		} else if w.c.refs[i].isData(inner.remote) {
			inner.roles[i] = left
		}
	}
	return inner
}

// isData reports whether the outer shell fills a ref in, before the nested code that holds it is parsed, as in
// ssh host "rm ${item.path|sh}". A number can be filled in so too, where the environment may not arrive.
func (r *ref) isData(remote string) bool {
	return r.kind == dotted && (r.expr.has("sh") || r.expr.has("raw") || r.expr.has("int") && remote != "")
}

// takeOver leaves the data to this shell, and keeps it from placing the rest again. Data that the nested code has not met
// stands where the walk does not look.
func (w *walker) takeOver(code *nestedCode, inner *walker) {
	for i := range code.quotes {
		r := w.c.refs[i]
		role := inner.roles[i]
		switch {
		case code.escaped[i] && r.kind != dotted && len(r.places) > 0:
			r.places[0].escaped = true
			w.roles[i] = placed
		case role == met && w.roles[i] != left:
			w.roles[i] = taken
		case role == met && r.expr.has("sh"):
			r.fault = finding{codeOpaque, r.written + " is parsed by two shells, and |sh quotes it for one"}
		case role == met: // left to a shell further out
		case role != left:
			w.roles[i] = placed
		case r.fault.code == "":
			r.fault = finding{codeOpaque, r.written + " is inside nested code that cannot be analyzed"}
		}
	}
}

// addParts adds the parts of a word as the shell outside passes them on.
func (n *nestedCode) addParts(parts []syntax.WordPart, q quoting) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			// A ref in it stands behind a backslash that the shell outside takes away.
			text := shell.Unescape(p.Value, map[quoting]string{double: shell.InDouble, heredoc: shell.InHeredoc}[q])
			n.addText(text, q)
			for _, at := range n.c.sentinelsIn(text) {
				n.escaped[at.ref] = true
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				n.addText(shell.UnescapeAnsi(p.Value), ansi)
				continue
			}
			n.addText(p.Value, single)
		case *syntax.DblQuoted:
			n.addParts(p.Parts, double)
		case *syntax.ParamExp:
			n.addParam(p, q)
		default:
			n.addOuter()
		}
	}
}

// addOuter adds what only the shell outside knows, under a name of its own.
func (n *nestedCode) addOuter() {
	n.text.WriteString("${" + opaqueName + strconv.Itoa(n.outer) + "}")
	n.outer++
}

// addText adds text with its sentinels, which stood in quotes q.
func (n *nestedCode) addText(text string, q quoting) {
	n.text.WriteString(text)
	for _, at := range n.c.sentinelsIn(text) {
		n.quotes[at.ref] = q
	}
}

// addParam adds the sentinel of a ref. The result of an expansion of the shell outside is not known.
func (n *nestedCode) addParam(p *syntax.ParamExp, q quoting) {
	if i := n.c.refOf(p); i >= 0 && p.Exp == nil {
		n.addText(sentinel(i), q)
		return
	}
	n.addOuter()
	for _, at := range n.c.sentinelsIn(sourceOf(p)) {
		n.hidden = append(n.hidden, at.ref)
	}
}

func (n *nestedCode) addHeredoc(r *syntax.Redirect) {
	if shell.IsQuoted(r.Word) {
		if body := shell.HeredocText(r); body != nil {
			n.addText(body.Value, quotedHeredoc)
		}
		return
	}
	n.addParts(r.Hdoc.Parts, heredoc)
}
