package shell

import (
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"

	"mvdan.cc/sh/v3/syntax"
)

// Value is data that a script gets from outside, in a variable of its environment.
type Value struct {
	Variable string

	// Written is the value as the text has it, such as ${item.name}, and Offset where it stands there, in bytes. Both
	// are for findings only; the script that is checked may differ from the text.
	Written string
	Offset  int

	// Item reports whether Variable is one that every command has, such as PRODIGY_ITEM: no placeholder brought it.
	Item bool

	// File reports whether Variable holds the name of a file, and the file the value.
	File bool

	// JSON reports whether the value is JSON, and so no number, no name and no program by itself.
	JSON bool
}

// CheckValues reports the values that stand where a script runs them: in the code of another shell, as a
// command, as the name of a variable, in arithmetic, in code of another language.
//
// A value is found there itself, in the output of a command that prints it, or in a variable that the script
// gives it. The order of assignments is not looked at: if the script also gives the variable something else,
// the value may be there, and if it compares the variable with anything, nothing is said. Functions and their
// parameters are not followed. A script that is not valid shell has no findings.
//
// The analysis is that of tainted data: values are the sources, the places that run something are sinks (see
// findings.go), and a flow is a value on its way from one to the other.
func CheckValues(script string, dialects []syntax.LangVariant, values []Value) []Finding {
	if len(values) == 0 {
		return nil
	}
	c := &valueCheck{dialects: dialects, values: values}
	vars := map[string]*variable{}
	for i := range values {
		vars[values[i].Variable] = &variable{flows: []flow{{value: i}}, exported: true}
	}
	c.code(script, vars, 0)
	return c.found
}

// maxCodeDepth bounds code within code. No script that a person writes comes near it.
const maxCodeDepth = 6

// maxPasses bounds how often code is read before it is reported on. Each pass reads it from top to bottom, so only a
// value that goes through an assignment further up, as in a loop, needs one more.
const maxPasses = 8

// valueCheck is a run of CheckValues.
type valueCheck struct {
	dialects []syntax.LangVariant
	values   []Value
	found    []Finding
}

// certainty says whether a value gets somewhere.
type certainty uint8

const (
	// sure is a value that is there whenever the code runs.
	sure certainty = iota
	// likely is a value in a variable that may hold something else instead.
	likely
	// perhaps is a value in the output of a program that may print something else.
	perhaps
)

// flow is a value on its way.
type flow struct {
	value     int // index in valueCheck.values
	certainty certainty

	// via is the first variable that brought it, other than its own. It is empty if there was none.
	via string

	// piped reports whether it came through a pipe, which changes the message.
	piped bool

	// content reports whether it is what a file holds, of a value with File. The name of that file is harmless.
	content bool
}

// variable is what a script does with a variable, wherever in it.
type variable struct {
	flows []flow

	// other reports whether the variable is also given something without a value.
	other bool

	// appended reports whether a value was added to what the variable had, as in x="$x $V": then other does not make
	// the value less certain.
	appended bool

	// constant is the text that the variable is given, if it is never given anything else.
	constant string

	// exported reports whether other programs get the variable.
	exported bool

	// compared reports whether the script looks at the value, as case does, or takes characters out of it. That is
	// taken for a check, and the values in the variable are not reported.
	compared bool

	// maps reports whether it is an associative array, whose subscripts are text and no arithmetic.
	maps bool
}

// codeCheck looks at the code of one shell. First it collects what the variables are given, over as many passes as it
// takes, and then it reports, in one more pass: a loop may run a variable that is assigned further down.
type codeCheck struct {
	*valueCheck
	vars map[string]*variable

	// piped is what the right side of each pipe reads from the left one.
	piped map[*syntax.Stmt][]flow

	// depth counts the code around this code: 0 is the script.
	depth int

	// reporting reports whether the variables are known and this is the last pass.
	reporting bool

	// changed reports whether a variable was given something new in this pass.
	changed bool
}

// code looks at the code of a shell that starts with these variables: first at what it assigns, until nothing
// new turns up.
func (v *valueCheck) code(text string, vars map[string]*variable, depth int) {
	file, err := Parse(text, v.dialects)
	if err != nil {
		return
	}
	c := &codeCheck{valueCheck: v, vars: vars, piped: map[*syntax.Stmt][]flow{}, depth: depth, changed: true}
	for pass := 0; pass < maxPasses && c.changed; pass++ {
		c.changed = false
		c.walk(file)
	}
	c.reporting = true
	c.walk(file)
}

// walk visits all nodes of a file, each with what it reads from its input. The top of the stack is what the node around
// the next one reads: Walk announces the end of each node with nil.
func (c *codeCheck) walk(file *syntax.File) {
	stack := [][]flow{nil}
	syntax.Walk(file, func(node syntax.Node) bool {
		if node == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		in := stack[len(stack)-1]
		if s, ok := node.(*syntax.Stmt); ok {
			in = c.input(s, in)
		}
		stack = append(stack, in)
		c.visit(node, in)
		return true
	})
}

// input returns what a statement reads, where the code around it reads in.
func (c *codeCheck) input(s *syntax.Stmt, in []flow) []flow {
	if piped, ok := c.piped[s]; ok {
		in = piped
	}
	for _, r := range s.Redirs {
		switch {
		case r.Hdoc != nil:
			in = c.parts(r.Hdoc.Parts)
		case r.Op == syntax.WordHdoc:
			in = c.word(r.Word)
		case r.Op == syntax.RdrIn:
			in = c.content(r.Word)
		}
	}
	return in
}

// content returns the values in the file that a word names, which may be what <(cmd) prints.
func (c *codeCheck) content(word *syntax.Word) []flow {
	if len(word.Parts) == 1 {
		if p, ok := word.Parts[0].(*syntax.ProcSubst); ok {
			return c.outputs(p.Stmts, nil)
		}
	}
	return c.files(word)
}

func (c *codeCheck) visit(node syntax.Node, in []flow) {
	switch n := node.(type) {
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			flows := c.output(n.X, in)
			for i := range flows {
				flows[i].piped = true
			}
			c.piped[n.Y] = flows
		}
	case *syntax.CallExpr:
		for _, a := range n.Assigns {
			if len(n.Args) > 0 && a.Name != nil { // A=1 cmd, where cmd gets A
				c.variable(a.Name.Value).exported = true
			}
		}
		c.call(n.Args, in)
	case *syntax.DeclClause:
		c.declaration(n)
	case *syntax.Assign:
		c.assign(n)
	case *syntax.WordIter:
		for _, word := range n.Items {
			c.give(n.Name.Value, c.word(word), "")
		}
	case *syntax.ParamExp:
		c.expansion(n)
	case *syntax.CaseClause:
		c.compare(n.Word)
	case *syntax.BinaryTest:
		// From -eq to -gt: [[ evaluates both sides.
		if n.Op >= syntax.TsEql && n.Op <= syntax.TsGtr {
			c.count(n, arithmeticSink)
		}
		c.compare(n)
	case *syntax.UnaryTest:
		if word, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) {
			c.leak(nameSink, c.word(word))
		}
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		c.count(n, arithmeticSink)
	}
}

// variable returns what is known of a variable, which it adds if it is new.
func (c *codeCheck) variable(name string) *variable {
	v := c.vars[name]
	if v == nil {
		v = &variable{}
		c.vars[name] = v
	}
	return v
}

// give notes that a variable gets these values, or a constant text, or something else. Knowledge only grows: a flow is
// never removed and other never becomes false, so the passes come to an end.
func (c *codeCheck) give(name string, flows []flow, constant string) {
	if c.reporting {
		return
	}
	v := c.variable(name)
	before, known := len(v.flows), v.other
	switch {
	case len(flows) > 0:
	case constant == "" || known && v.constant != constant || before > 0:
		v.other, v.constant = true, ""
	default:
		v.other, v.constant = true, constant
	}
	for _, f := range flows {
		if !slices.ContainsFunc(
			v.flows, func(g flow) bool { return g.value == f.value && g.certainty <= f.certainty },
		) {
			v.flows = append(v.flows, f)
			v.constant = ""
		}
	}
	c.changed = c.changed || len(v.flows) > before || v.other != known
}

// assign looks at an assignment, alone, before a command or in a declaration.
func (c *codeCheck) assign(a *syntax.Assign) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	v := c.variable(name)
	if a.Index != nil && !v.maps {
		c.count(a.Index, subscriptSink)
	}
	var flows []flow
	constant := ""
	if a.Value != nil {
		flows, constant = c.word(a.Value), WordText(a.Value)
		// x=${y//[!a-z]/} takes characters out, x="$x $V" adds to what there is.
		v.compared = v.compared || holds(
			a.Value, func(p *syntax.ParamExp) bool { return p.Repl != nil && takesOut(p.Repl.Orig) },
		)
		v.appended = v.appended || len(flows) > 0 &&
			(a.Append || holds(
				a.Value, func(p *syntax.ParamExp) bool { return p.Param != nil && p.Param.Value == name },
			))
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			flows = append(flows, c.word(e.Value)...)
		}
	}
	c.steer(name, flows)
	// export x gives no value, and what += adds without one changes none.
	if !a.Naked && (len(flows) > 0 || !a.Append) {
		c.give(name, flows, constant)
	}
}

// declaration looks at export, declare and their like, whose options hold for the names after them. Their assignments
// are nodes of their own. A word that is neither, as in declare "$V", names a variable.
func (c *codeCheck) declaration(n *syntax.DeclClause) {
	exports, maps, names := n.Variant.Value == "export", false, n.Variant.Value == "nameref"
	for _, a := range n.Args {
		switch {
		case a.Name != nil:
			v := c.variable(a.Name.Value)
			v.exported, v.maps = v.exported || exports, v.maps || maps
			if names {
				c.leak(nameSink, c.word(a.Value))
			}
		case strings.HasPrefix(a.Value.Lit(), "-"):
			exports = exports || strings.Contains(a.Value.Lit(), "x")
			maps = maps || strings.Contains(a.Value.Lit(), "A")
			names = names || strings.Contains(a.Value.Lit(), "n")
		default:
			c.leak(nameSink, c.leading(a.Value))
		}
	}
}

// holds reports whether an expansion for which is returns true stands below a node.
func holds(node syntax.Node, is func(*syntax.ParamExp) bool) bool {
	for n := range syntax.Preorder(node) {
		if p, ok := n.(*syntax.ParamExp); ok && is(p) {
			return true
		}
	}
	return false
}

// steer reports values in a variable of the environment by which they become code, such as PS4 or PATH.
func (c *codeCheck) steer(name string, flows []flow) {
	switch runs, searches := Steering(name); {
	case runs:
		c.leak(
			sink{
				what:   "the variable " + name,
				remedy: "shells and programs execute its value, so set it to a constant",
			},
			flows,
		)
	case searches:
		c.leak(sink{
			code: codeCommandName,
			says: "reaches the variable " + name + "; its author could choose which program runs",
		}, flows)
	}
}

// compare notes that the script looks at the variables below a node, as in case $x in *[!0-9]*) exit 1;; esac.
func (c *codeCheck) compare(node syntax.Node) {
	for n := range syntax.Preorder(node) {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			c.variable(p.Param.Value).compared = true
		}
	}
}

// word returns the values in the text of a word.
func (c *codeCheck) word(word *syntax.Word) []flow {
	if word == nil {
		return nil
	}
	return c.parts(word.Parts)
}

// parts returns the values in parts of a word. Single quotes hold none, nor does what is not expanded to text.
func (c *codeCheck) parts(parts []syntax.WordPart) (flows []flow) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.DblQuoted:
			flows = append(flows, c.parts(p.Parts)...)
		case *syntax.ParamExp:
			flows = append(flows, c.param(p)...)
		case *syntax.CmdSubst:
			flows = append(flows, c.outputs(p.Stmts, nil)...)
		}
	}
	return flows
}

// leading returns the values that a word begins with.
func (c *codeCheck) leading(word *syntax.Word) []flow {
	return c.parts([]syntax.WordPart{Leading(word)})
}

// param returns the values that an expansion brings. A length, a quoted text and what is left of a text when
// characters are taken out are harmless.
func (c *codeCheck) param(p *syntax.ParamExp) (flows []flow) {
	if p.Param == nil || p.Length || p.Width {
		return nil
	}
	if p.Exp != nil && HasDefault(p) {
		flows = c.word(p.Exp.Word)
	}
	quoted := p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Exp.Word.Lit() == "Q"
	alternate := p.Exp != nil && (p.Exp.Op == syntax.AlternateUnset || p.Exp.Op == syntax.AlternateUnsetOrNull)
	if quoted || alternate || p.Repl != nil && takesOut(p.Repl.Orig) {
		return flows
	}
	// The name of a file that holds a value is prodigy's own, and harmless.
	return append(
		flows,
		slices.DeleteFunc(c.read(p.Param), func(f flow) bool { return c.values[f.value].File && !f.content })...,
	)
}

// takesOut reports whether a pattern is a set of all characters but some: [!a-z].
func takesOut(pattern *syntax.Word) bool {
	if pattern == nil { // ${x/}, which has no pattern
		return false
	}
	lit := pattern.Lit()
	return strings.HasPrefix(lit, "[!") || strings.HasPrefix(lit, "[^")
}

// read returns the values in a variable, with what the variable does to their certainty.
func (c *codeCheck) read(name *syntax.Lit) []flow {
	v := c.vars[name.Value]
	if v == nil || v.compared {
		return nil
	}
	flows := slices.Clone(v.flows)
	for i := range flows {
		f := &flows[i]
		if v.other && !v.appended {
			f.certainty = max(f.certainty, likely)
		}
		if c.values[f.value].Variable != name.Value && f.via == "" {
			f.via = name.Value
		}
	}
	return flows
}

// files returns the values in the files that a word names.
func (c *codeCheck) files(word *syntax.Word) (flows []flow) {
	for n := range syntax.Preorder(word) {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			flows = append(flows, c.read(p.Param)...)
		}
	}
	flows = slices.DeleteFunc(flows, func(f flow) bool { return !c.values[f.value].File || f.content })
	for i := range flows {
		flows[i].content = true
	}
	return flows
}

// outputs returns the values that statements print, where the code around them reads in.
func (c *codeCheck) outputs(stmts []*syntax.Stmt, in []flow) (flows []flow) {
	for _, s := range stmts {
		flows = append(flows, c.output(s, in)...)
	}
	return unique(flows)
}

// unique returns each flow once. Several commands of a pipe may pass on the same ones, and those behind them again.
func unique(flows []flow) (once []flow) {
	for _, f := range flows {
		if !slices.Contains(once, f) {
			once = append(once, f)
		}
	}
	return once
}

// output returns the values that a statement prints, where the code around it reads in. Loops, conditions and functions
// are not looked into, and output that is redirected to a file counts as printed.
func (c *codeCheck) output(s *syntax.Stmt, in []flow) []flow {
	in = c.input(s, in)
	switch n := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			return c.output(n.Y, c.output(n.X, in))
		}
		return c.outputs([]*syntax.Stmt{n.X, n.Y}, in)
	case *syntax.Block:
		return c.outputs(n.Stmts, in)
	case *syntax.Subshell:
		return c.outputs(n.Stmts, in)
	case *syntax.CallExpr:
		return unique(c.printed(n.Args, in))
	}
	return nil
}

// printed returns the values that a command prints, by the row of its program in programTable.
func (c *codeCheck) printed(words []*syntax.Word, in []flow) []flow {
	args := c.texts(words)
	at := wrappedBy(args)
	if at >= len(words) {
		return nil
	}
	var inWords, inFiles []flow
	for _, word := range words[at+1:] {
		inWords = append(inWords, c.word(word)...)
		inFiles = append(inFiles, c.files(word)...)
	}
	name := ProgramName(args[at])
	switch p := programOf(name); {
	case name == "printf" && strings.Contains(strings.Join(args, " "), "%q"):
		return nil
	case name == "printenv":
		var flows []flow
		for _, name := range args[at+1:] {
			flows = append(flows, c.read(&syntax.Lit{Value: name})...)
		}
		return flows
	case p.prints == nothing:
		return nil
	case p.prints == itsWords:
		return inWords
	case p.prints == itsInput:
		return slices.Concat(in, inFiles)
	case p.prints == partsOf:
		return doubted(slices.Concat(in, inFiles))
	default:
		return doubted(slices.Concat(in, inWords, inFiles))
	}
}

// doubted returns copies of flows that stand for what a program may print.
func doubted(flows []flow) []flow {
	flows = slices.Clone(flows)
	for i := range flows {
		flows[i].certainty = perhaps
	}
	return flows
}

// texts returns the constant texts of words, with the texts of variables that the script gives one constant,
// and name= or --name= for the word of an assignment or an option. Others are empty.
func (c *codeCheck) texts(words []*syntax.Word) []string {
	args := make([]string, len(words))
	for i, word := range words {
		args[i] = WordText(word)
		name, _, ok := strings.Cut(leadingText(word), "=")
		if ok && args[i] == "" && (syntax.ValidName(name) || strings.HasPrefix(name, "--")) {
			args[i] = name + "="
		}
		p := Alone(word)
		if args[i] != "" || p == nil || p.Param == nil || !p.Short && !IsPlainExpansion(p) {
			continue
		}
		if v := c.vars[p.Param.Value]; v != nil {
			args[i] = v.constant
		}
	}
	return args
}

// spread splits words that stand for several, as $S does with S="sh -c".
func (c *codeCheck) spread(words []*syntax.Word) (args []string, nodes []*syntax.Word) {
	for i, text := range c.texts(words) {
		_, expands := words[i].Parts[0].(*syntax.ParamExp)
		fields := []string{text}
		if expands && strings.Contains(text, " ") {
			fields = strings.Fields(text)
		}
		for _, field := range fields {
			args, nodes = append(args, field), append(nodes, words[i])
		}
	}
	return args, nodes
}

// call looks at a simple command that reads in.
func (c *codeCheck) call(words []*syntax.Word, in []flow) {
	if len(words) == 0 {
		return
	}
	args, words := c.spread(words)
	at := wrappedBy(args)
	c.wrappers(args[:at], words[:at])
	if at >= len(args) {
		return
	}
	// Without quotes the word that names the program is split, so the value chooses the arguments too: $c may be rm -rf.
	named := commandSink
	if _, quoted := words[at].Parts[0].(*syntax.DblQuoted); quoted {
		named = programSink
	}
	c.leak(named, c.leading(words[at]))
	name := ProgramName(args[at])
	if args[at] == "" {
		// $S -c CODE: the program is not known, but perhaps a shell.
		for i := at + 1; i+1 < len(args); i++ {
			if IsCodeOption(args[i]) {
				c.leak(codeSink, doubted(c.word(words[i+1])))
			}
		}
		return
	}
	c.codes(PlanCall(args), args, words, in)
	c.builtin(name, args[at:], words[at:], in)
	c.language(name, args[at:], words[at:], in)
}

// wrappers looks at the programs in front of a command, such as env and xargs.
func (c *codeCheck) wrappers(args []string, words []*syntax.Word) {
	for i, arg := range args {
		name, _, isAssignment := strings.Cut(leadingText(words[i]), "=")
		switch {
		case isAssignment && syntax.ValidName(name):
			flows := c.word(words[i])
			c.steer(name, flows)
			c.give(name, flows, "")
			c.variable(name).exported = true
		case arg == "-S" && i+1 < len(words):
			// env -S splits its argument into a command.
			c.leak(codeSink, c.word(words[i+1]))
		}
	}
}

// leadingText returns the literal text that a word begins with, in quotes or not.
func leadingText(word *syntax.Word) string {
	if lit, ok := Leading(word).(*syntax.Lit); ok {
		return lit.Value
	}
	return ""
}

// codes looks at the code among the words of a command, and at the code that it reads.
func (c *codeCheck) codes(plan Plan, args []string, words []*syntax.Word, in []flow) {
	for _, code := range plan.Codes {
		var text []string
		before := len(c.found)
		for _, i := range code.Args {
			c.leak(codeSink, c.word(words[i]))
			text = append(text, codeText(words[i].Parts, Outside))
		}
		last := code.Args[len(code.Args)-1]
		// Code with a value in it has been reported; what else it would do is not known.
		if len(c.found) == before {
			c.nested(strings.Join(text, " "), code, words[last+1:])
		}
	}
	if plan.Stdin != nil {
		c.leak(codeSink, in)
	}
	// In xargs sh -c, the first word of the input becomes the code.
	if last := args[len(args)-1]; slices.Contains(args, "xargs") && IsCodeOption(last) {
		c.leak(codeSink, in)
	}
	for i := range plan.Denied {
		// The value of an option of read, as in read -p "$prompt" x, names no variable.
		if i < len(words) && !(args[0] == "read" && check.Among("-p -d -t -n -N -u -i", args[i-1])) {
			c.leak(nameSink, c.word(words[i]))
		}
	}
}

// nested looks at the code of another shell, or of this one. A child has only the exported variables, and
// parameters of its own.
func (c *codeCheck) nested(text string, code Code, params []*syntax.Word) {
	if c.depth >= maxCodeDepth || code.Remote != "" {
		return
	}
	if !code.Child {
		// eval shares the variables of this shell, in both directions.
		file, err := Parse(text, c.dialects)
		if err == nil {
			inner := *c
			inner.depth++
			inner.piped = map[*syntax.Stmt][]flow{}
			inner.walk(file)
			c.changed = inner.changed
		}
		return
	}
	// A child changes no variable of this shell, so one look is enough, when these are known.
	if !c.reporting {
		return
	}
	vars := map[string]*variable{}
	for name, v := range c.vars {
		if v.exported {
			vars[name] = &variable{
				flows: c.read(&syntax.Lit{Value: name}), other: v.other, exported: true, compared: v.compared,
			}
		}
	}
	for i, word := range params {
		flows := c.word(word)
		vars[strconv.Itoa(i)] = &variable{flows: flows}
		if i > 0 && len(flows) > 0 {
			vars["@"], vars["*"] = &variable{flows: flows}, &variable{flows: flows}
		}
	}
	c.code(text, vars, c.depth+1)
}

// codeText returns code as a shell passes it on. What only that shell knows is a variable that nobody has.
func codeText(parts []syntax.WordPart, special string) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(Unescape(p.Value, special))
		case *syntax.SglQuoted:
			if p.Dollar {
				b.WriteString(UnescapeAnsi(p.Value))
				continue
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(codeText(p.Parts, InDouble))
		default:
			b.WriteString("${PRODIGY_X}")
		}
	}
	return b.String()
}

// builtin looks at what builtins of a shell do with their words.
func (c *codeCheck) builtin(name string, args []string, words []*syntax.Word, in []flow) {
	switch name {
	case "read", "mapfile", "readarray":
		names := 0
		for _, arg := range args[1:] {
			if syntax.ValidName(arg) {
				names++
				c.give(arg, in, "")
			}
		}
		if names == 0 {
			c.give("REPLY", in, "")
			c.give("MAPFILE", in, "")
		}
	case "printf":
		if len(args) > 2 && args[1] == "-v" && syntax.ValidName(args[2]) {
			c.give(args[2], c.printed(words, nil), "")
		}
	case "unset":
		for _, arg := range args[1:] {
			c.give(arg, nil, "")
		}
	case "test", "[":
		if slices.ContainsFunc(args, func(a string) bool {
			return check.Among("= == != < > "+numberTests, a)
		}) {
			for _, word := range words {
				c.compare(word)
			}
		}
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", ".", "source":
		// sh $FILE, where -c and -s make the operand something else.
		if i := skipOptions(args, 1, ""); i < len(args) && args[i] == "" && !slices.ContainsFunc(
			args[1:i], func(a string) bool { return strings.ContainsAny(a, "cs") },
		) {
			c.leak(codeSink, c.content(words[i]))
			c.leak(scriptSink, c.word(words[i]))
		}
	}
}

// expansion looks for expansions that take a value for more than text: ${!x} for a name, ${x@P} for a prompt that may
// hold $(cmd), ${a[x]} and ${s:x} for arithmetic.
func (c *codeCheck) expansion(p *syntax.ParamExp) {
	if p.Param == nil {
		return
	}
	name := p.Param.Value
	if p.Index != nil && !c.variable(name).maps {
		c.count(p.Index, subscriptSink)
	}
	if p.Slice != nil {
		c.count(p.Slice.Offset, arithmeticSink)
		c.count(p.Slice.Length, arithmeticSink)
	}
	switch {
	case p.Excl && p.Names == 0 && p.Index == nil:
		c.leak(sink{what: "${!" + name + "}", remedy: nameSink.remedy}, c.read(p.Param))
	case p.Exp == nil:
	case p.Exp.Op == syntax.OtherParamOps && p.Exp.Word.Lit() == "P":
		c.leak(
			sink{what: "${" + name + "@P}", remedy: "the shell expands it as a prompt; remove @P"},
			c.read(p.Param),
		)
	case p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull:
		c.give(name, c.word(p.Exp.Word), "")
	}
}

// count reports the values that a shell counts with below a node. A name needs no dollar there: bash runs the command
// in a[$(cmd)] when it finds that in x of $((x + 1)).
func (c *codeCheck) count(node syntax.Node, s sink) {
	if node == nil {
		return
	}
	for n := range syntax.Preorder(node) {
		switch x := n.(type) {
		case *syntax.Lit:
			if syntax.ValidName(x.Value) {
				c.leak(s, c.read(x))
			}
		case *syntax.ParamExp:
			c.leak(s, c.param(x))
		case *syntax.CmdSubst:
			c.leak(s, c.outputs(x.Stmts, nil))
		}
	}
}

// language reports values in code of a language that is not the shell's.
func (c *codeCheck) language(name string, args []string, words []*syntax.Word, in []flow) {
	p := programOf(name)
	s := sink{
		code: codeLanguage,
		says: "is inside code for " + name + ", which may parse it as more than a value; " +
			"pass it as an argument or through the environment",
	}
	found, operands := false, 0
	for i := 1; i < len(args); i++ {
		switch option := p.option(args[i]); {
		case option && i+1 < len(args):
			found = true
			i++
			c.leak(s, c.word(words[i]))
		case p.attached(args[i]):
			found = true
			c.leak(s, c.word(words[i]))
		case len(args[i]) == 2 && args[i][0] == '-' && strings.Contains(p.takes, args[i][1:]):
			found = found || args[i] == "-f" // awk -f FILE has its code in a file
			i++
		case args[i] == "-":
		case strings.HasPrefix(args[i], "-"):
		default:
			operands++
			if operands == 1 && p.operand && !found {
				c.leak(s, c.word(words[i]))
			}
		}
	}
	if p.reads && operands == 0 && !found {
		c.leak(s, in)
	}
}

// attached reports whether the word is an option with code, as in --eval=CODE.
func (p program) attached(arg string) bool {
	option, _, found := strings.Cut(arg, "=")
	return found && slices.Contains(p.options, option)
}

// option reports whether the next word is code: -e, or letters that end with it, as in -ne.
func (p program) option(arg string) bool {
	return slices.ContainsFunc(p.options, func(o string) bool {
		letters := len(o) == 2 && strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--")
		return arg == o || letters && strings.HasSuffix(arg, o[1:])
	})
}
