package template

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	codeReaches = "PS119"
)

// flow is one assignment of a script to a variable.
type flow struct {
	at     int // where the script makes it
	fn     string
	parts  []syntax.WordPart
	adds   bool // to what the variable holds already
	oneOf  bool // a parameter: each call of the function brings its own
	direct bool // nothing but a number can be assigned when the variable counts
}

const (
	maxParameters = 32      // how many of them a look at "$@" takes in
	shiftName     = "shift" // stands for a parameter: a flow for each shift
)

// source is a value that reaches a variable.
type source struct {
	offset  int // in the text as written
	written string
	name    string // of the variable it came through last; empty: none
	quoted  bool   // |sh brings its quotes
	proved  bool   // else it only may get there
}

// flows knows what is assigned to the variables of a script, in the order of the text.
type flows map[string][]flow

// parameterOf is the key of a positional parameter of a function.
func parameterOf(fn, n string) string { return fn + "\x00" + n }

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

func functionsOf(file *syntax.File) []functionSpan {
	var found []functionSpan
	for node := range syntax.Preorder(file) {
		if f, ok := node.(*syntax.FuncDecl); ok && f.Name != nil {
			found = append(found, functionSpan{f.Name.Value, f.Pos().Offset(), f.End().Offset()})
		}
	}
	return found
}

// collectFlows notes the assignments of a file. Those of nested code all count as made where it is run.
func (c *compiler) collectFlows(file *syntax.File, fn string, base int) {
	spans := functionsOf(file)
	for node := range syntax.Preorder(file) {
		at, in := base, fn
		if node == nil {
			continue
		}
		offset := node.Pos().Offset()
		if base < 0 {
			at = int(offset)
		}
		for _, s := range spans {
			if s.start <= offset && offset < s.end {
				in = s.name
			}
		}
		c.flowsOf(node, flow{at: at, fn: in}, spans)
	}
}

func (c *compiler) flowsOf(node syntax.Node, f flow, spans []functionSpan) {
	switch n := node.(type) {
	case *syntax.CallExpr:
		if len(n.Args) > 0 {
			c.flowsOfCall(n.Args, f, spans)
			return
		}
		c.flowsOfAssigns(n.Assigns, f)
	case *syntax.DeclClause:
		c.flowsOfAssigns(n.Args, f)
	case *syntax.WordIter:
		f.direct = true
		for _, word := range n.Items {
			f.parts = append(f.parts, word.Parts...)
		}
		c.addFlow(n.Name.Value, f)
	case *syntax.ParamExp:
		if n.Exp != nil && n.Param != nil && n.Exp.Word != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			f.parts, f.adds, f.direct = n.Exp.Word.Parts, true, true
			c.addFlow(n.Param.Value, f)
		}
	case *syntax.Stmt:
		c.flowsOfRead(n, f)
	}
}

func (c *compiler) addFlow(key string, f flow) { c.flows[key] = append(c.flows[key], f) }

func (c *compiler) flowsOfAssigns(assigns []*syntax.Assign, f flow) {
	f.direct = true
	for _, a := range assigns {
		if a.Name == nil || a.Naked {
			continue
		}
		f.parts, f.adds = nil, a.Append || a.Index != nil
		if a.Value != nil {
			f.parts = a.Value.Parts
		}
		if a.Array != nil {
			for _, e := range a.Array.Elems {
				if e.Value != nil {
					f.parts = append(f.parts, e.Value.Parts...)
				}
			}
		}
		c.addFlow(a.Name.Value, f)
	}
}

// flowsOfCall takes set -- a b, printf -v name, and the parameters of functions that the script defines.
func (c *compiler) flowsOfCall(args []*syntax.Word, f flow, spans []functionSpan) {
	name := args[0].Lit()
	switch {
	case name == "set" && len(args) > 1 && args[1].Lit() == "--":
		for i, word := range args[2:] {
			f.parts = word.Parts
			c.addFlow(parameterOf(f.fn, strconv.Itoa(i+1)), f)
		}
	case name == "shift":
		c.addFlow(parameterOf(f.fn, shiftName), f)
	case name == "printf" && len(args) > 3 && args[1].Lit() == "-v":
		for _, word := range args[3:] {
			f.parts = append(f.parts, word.Parts...)
		}
		c.addFlow(args[2].Lit(), f)
	case slices.ContainsFunc(spans, func(s functionSpan) bool { return s.name == name }):
		c.flowsOfParameters(name, args[1:], f)
	}
}

// flowsOfParameters notes the arguments of a call, which may be one of several.
func (c *compiler) flowsOfParameters(fn string, args []*syntax.Word, f flow) {
	f.oneOf, f.direct = true, true
	for i, word := range args {
		f.parts = word.Parts
		c.addFlow(parameterOf(fn, strconv.Itoa(i+1)), f)
	}
}

// flowsOfRead takes read name <<< text.
func (c *compiler) flowsOfRead(s *syntax.Stmt, f flow) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || !slices.Contains([]string{"read", "mapfile", "readarray"}, call.Args[0].Lit()) {
		return
	}
	for _, r := range s.Redirs {
		if r.Op != syntax.WordHdoc && r.Hdoc == nil {
			continue
		}
		if f.parts = r.Word.Parts; r.Hdoc != nil {
			f.parts = r.Hdoc.Parts
		}
		for _, word := range call.Args[1:] {
			if name := word.Lit(); syntax.ValidName(name) {
				c.addFlow(name, f)
			}
		}
	}
}

// trace finds the values that reach parts of a word at some place of the script.
type trace struct {
	c    *compiler
	fn   string
	at   int
	seen map[string]bool
}

func (w *walker) trace() *trace {
	return &trace{c: w.c, fn: w.fn, at: w.at, seen: map[string]bool{}}
}

func (t *trace) parts(parts []syntax.WordPart) []source {
	var found []source
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.SglQuoted:
			for _, at := range t.c.sentinelsIn(p.Value) {
				found = append(found, t.ref(at.ref)...)
			}
		case *syntax.DblQuoted:
			found = append(found, t.parts(p.Parts)...)
		case *syntax.ParamExp:
			found = append(found, t.param(p)...)
		case *syntax.CmdSubst:
			found = append(found, t.output(p)...)
		}
	}
	return found
}

// ref returns the source of a placeholder, unless its value can do no harm as code or is meant to be code.
func (t *trace) ref(i int) []source {
	r := t.c.refs[i]
	switch {
	case r.kind == foreign || r.kind == literal || r.expr == nil:
		return nil
	case t.c.shadowed(r):
		return t.variable(r.expr.root)
	case r.expr.has("raw") || r.expr.has("int") || r.expr.has("url") || t.c.ownWord(r.expr):
		return nil
	}
	return []source{{offset: r.start, written: r.written, quoted: r.expr.has("sh"), proved: true}}
}

func (t *trace) param(p *syntax.ParamExp) []source {
	if p.Length || p.Param == nil {
		return nil
	}
	if i := t.c.sentinelIndex(p.Param.Value); i >= 0 {
		return t.ref(i)
	}
	found := append(t.variable(p.Param.Value), t.native(p.Param.Value)...)
	if p.Exp != nil && p.Exp.Word != nil && hasDefault(p) {
		found = append(found, t.parts(p.Exp.Word.Parts)...)
	}
	return found
}

// native returns the value of a declared name that the shell expands itself, with an operator of its own.
func (t *trace) native(name string) []source {
	if t.c.sets[name] || t.c.ownWord(&expr{root: name}) {
		return nil
	}
	for _, n := range t.c.natives {
		if n.name == name && t.c.names.declared(name) {
			return []source{{offset: n.offset, written: "${" + name + "}", proved: true}}
		}
	}
	return nil
}

// passOn are commands that print their arguments, or the better part of them.
var passOn = []string{"echo", "printf", "basename", "dirname"}

// output returns what a command substitution brings: surely what echo is given, perhaps what others are given.
func (t *trace) output(p *syntax.CmdSubst) []source {
	if printed := printedWords(p.Stmts); len(printed) > 0 {
		return t.words(printed)
	}
	var found []source
	for _, r := range t.c.refsIn(p) {
		if !r.expr.has("sh") && !r.expr.has("raw") && !t.c.ownWord(r.expr) {
			found = append(found, source{offset: r.start, written: r.written})
		}
	}
	return found
}

func (t *trace) words(words []*syntax.Word) []source {
	var found []source
	for _, word := range words {
		found = append(found, t.parts(word.Parts)...)
	}
	return found
}

// printedWords returns the arguments of a command that prints them.
func printedWords(stmts []*syntax.Stmt) []*syntax.Word {
	if len(stmts) != 1 || len(stmts[0].Redirs) > 0 {
		return nil
	}
	call, ok := stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || !slices.Contains(passOn, wordText(call.Args[0])) {
		return nil
	}
	return call.Args[1:]
}

// sourced looks for values in what a shell reads as code from <(…).
func (w *walker) sourced(words []*syntax.Word) {
	if name := wordText(words[0]); name != "source" && name != "." && !isShell(name) {
		return
	}
	for _, word := range words[1:] {
		if p, ok := word.Parts[0].(*syntax.ProcSubst); ok {
			w.c.reachCode(w.trace().words(printedWords(p.Stmts)), true)
		}
	}
}

// variable returns the values that reach what the shell knows by this name.
func (t *trace) variable(name string) []source {
	if name == "@" || name == "*" || name != "" && isDigit(name[0]) {
		return t.parameter(name)
	}
	return t.assigned(name, name)
}

// parameter returns the values that reach a positional parameter, or any of them. Behind one shift they have moved by one; behind
// more of them any may be anywhere.
func (t *trace) parameter(name string) []source {
	shifts := 0
	for _, s := range t.c.flows[parameterOf(t.fn, shiftName)] {
		if s.at <= t.at {
			shifts++
		}
	}
	n, err := strconv.Atoi(name)
	if err == nil && shifts < 2 {
		return t.assigned(parameterOf(t.fn, strconv.Itoa(n+shifts)), name)
	}
	var found []source
	for i := 1; i <= maxParameters; i++ {
		for _, s := range t.assigned(parameterOf(t.fn, strconv.Itoa(i)), name) {
			s.proved = s.proved && err != nil && i > shifts
			found = append(found, s)
		}
	}
	return found
}

// assigned returns the values that reach the variable with this key: surely those of its last assignment before this place and of what is added
// to it, perhaps those of others.
func (t *trace) assigned(key, name string) []source {
	if t.seen[key] {
		return nil
	}
	t.seen[key] = true
	defer delete(t.seen, key)
	all := t.c.flows[key]
	before := slices.IndexFunc(all, func(f flow) bool { return !f.oneOf && f.at > t.at })
	if before < 0 {
		before = len(all)
	}
	last := before - 1
	for last > 0 && (all[last].adds || all[last].oneOf) {
		last--
	}
	var found []source
	for i, f := range all {
		for _, s := range t.flow(f, t.c.counted[key]) {
			s.proved = s.proved && i >= last && i < before
			s.name = name
			found = append(found, s)
		}
	}
	return found
}

func (t *trace) flow(f flow, counted bool) []source {
	inner := &trace{c: t.c, fn: f.fn, at: f.at, seen: t.seen}
	if !counted || !f.direct {
		return inner.parts(f.parts)
	}
	var found []source
	for _, part := range f.parts {
		if p, ok := part.(*syntax.CmdSubst); ok {
			found = append(found, inner.output(p)...)
		}
		if q, ok := part.(*syntax.DblQuoted); ok {
			for _, part := range q.Parts {
				if p, ok := part.(*syntax.CmdSubst); ok {
					found = append(found, inner.output(p)...)
				}
			}
		}
	}
	return found
}

// through says which way a value went.
func (s source) through() string {
	if s.name == "" {
		return ""
	}
	return " through " + shellName(s.name)
}

func shellName(name string) string { return "$" + strings.TrimPrefix(name, "$") }

// reach reports values that reach a place where the shell evaluates them: an error when that is sure.
func (c *compiler) reach(found []source, what, remedy string) {
	for _, s := range found {
		severity, verb := Error, "reaches "
		if !s.proved {
			severity, verb = Warning, "may reach "
		}
		f := finding{codeReaches, s.written + " " + verb + what + s.through() + "; " + remedy}
		d := newDiag(c.src, s.offset, severity, f)
		if !slices.Contains(c.diags, d) {
			c.diags = append(c.diags, d)
		}
	}
}

// reachCode reports values in text that another shell takes as code. One with |sh may stand there outside quotes.
func (c *compiler) reachCode(found []source, bare bool) {
	for _, s := range found {
		name := strings.Trim(strings.TrimPrefix(s.written, "$"), "{}")
		remedy := "write ${" + name + "|sh} there, outside the quotes of that code"
		if s.quoted && bare {
			continue
		}
		if s.quoted {
			remedy = "it brings quotes of its own, so let it stand outside those of that code"
		}
		c.reach([]source{s}, "shell code", remedy)
	}
}

// ownWord tells whether a placeholder stands for a word that prodigy made itself: no one else writes it. An item's id is none,
// since it may be a field of the item.
func (c *compiler) ownWord(e *expr) bool {
	if e.has("file") {
		return true
	}
	if len(e.steps) == 0 {
		return c.names.root("item") && slices.Contains([]string{"item_index", "item_total", "attempt", "worker"}, e.root)
	}
	if len(e.steps) != 1 || e.def != nil {
		return false
	}
	switch key := e.steps[0].key; e.root {
	case "map":
		return key != "results" && e.steps[0].kind == byKey
	case "job", "worker":
		return key == "id"
	}
	return slices.Contains([]string{"exit_code", "success", "duration_ms"}, e.steps[0].key) && (e.root == "shell" || e.root == "claude" || e.root == "last" || e.root == "error")
}
