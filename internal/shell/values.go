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
func CheckValues(script string, dialects []syntax.LangVariant, values []Value) (found []Finding) {
	if len(values) == 0 {
		return nil
	}
	c := &valueCheck{dialects: dialects, values: values, found: &found, vars: map[string]*variable{}}
	for i, v := range values {
		c.vars[v.Variable] = &variable{flows: []flow{{value: i, file: v.File}}, exported: true}
	}
	c.code(script)
	return found
}

// maxCodeDepth bounds code within code. No script that a person writes comes near it.
const maxCodeDepth = 6

// passes is how often code is read before it is reported on. Each pass reads it from top to bottom, so only a value
// that goes through an assignment further up, as in a loop, needs one more.
const passes = 4

// valueCheck looks at the code of one shell. Each pass evaluates all of it: a statement to the values that it prints, a
// word to those in its text. The first passes collect what the variables are given, and the last one reports: a loop
// may run a variable that is assigned further down.
type valueCheck struct {
	dialects []syntax.LangVariant
	values   []Value
	found    *[]Finding

	vars      map[string]*variable
	constants map[string]string // see Constants

	// in is what the statement at hand reads from its input.
	in []flow

	// printed is what the statements in $(…) and <(…) print, so that each is evaluated once a pass.
	printed map[syntax.Node][]flow

	// depth counts the code around this code: 0 is the script.
	depth int

	// reporting reports whether the variables are known and this is the last pass.
	reporting bool
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

	// file reports whether this is the name of a file that holds the value. The name is harmless.
	file bool
}

// variable is what a script does with a variable, wherever in it.
type variable struct {
	flows []flow

	// other reports whether the variable is also given something without a value.
	other bool

	// appended reports whether a value was added to what the variable had, as in x="$x $V": then other does not make
	// the value less certain.
	appended bool

	// exported reports whether other programs get the variable.
	exported bool

	// compared reports whether the script looks at the value, as case does, or takes characters out of it. That is
	// taken for a check, and the values in the variable are not reported.
	compared bool

	// maps reports whether it is an associative array, whose subscripts are text and no arithmetic.
	maps bool
}

// code looks at the code of a shell that starts with the variables of c.
func (c *valueCheck) code(text string) {
	file, err := Parse(text, c.dialects)
	if err != nil {
		return
	}
	c.constants = Constants(file)
	for pass := range passes {
		c.reporting = pass == passes-1
		c.printed = map[syntax.Node][]flow{}
		c.stmts(file.Stmts)
	}
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

func (c *valueCheck) stmts(stmts []*syntax.Stmt) (out []flow) {
	for _, s := range stmts {
		out = append(out, c.stmt(s)...)
	}
	return unique(out)
}

// stmt evaluates a statement. Output that is redirected to a file counts as printed.
func (c *valueCheck) stmt(s *syntax.Stmt) []flow {
	around := c.in
	defer func() { c.in = around }()
	for _, r := range s.Redirs {
		named := c.word(r.Word)
		switch {
		case r.Hdoc != nil:
			c.in = c.word(r.Hdoc)
		case r.Op == syntax.WordHdoc:
			c.in = named
		case r.Op == syntax.RdrIn:
			c.in = contents(named)
		}
	}
	switch n := s.Cmd.(type) {
	case nil: // $(<file)
		return c.in
	case *syntax.CallExpr:
		return unique(c.call(n))
	case *syntax.BinaryCmd:
		out := c.stmt(n.X)
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			c.in = out
			return c.stmt(n.Y)
		}
		return unique(append(out, c.stmt(n.Y)...))
	}
	return unique(c.inside(s.Cmd))
}

// contents returns what the files hold whose names are among flows.
func contents(flows []flow) (held []flow) {
	for _, f := range flows {
		if f.file {
			f.file = false
			held = append(held, f)
		}
	}
	return held
}

// inside evaluates what stands in a command that is not simple.
func (c *valueCheck) inside(node syntax.Node) (out []flow) {
	syntax.Walk(node, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Stmt:
			out = append(out, c.stmt(n)...)
		case *syntax.Word:
			c.word(n)
		case *syntax.Assign:
			c.assign(n)
		case *syntax.WordIter:
			for _, word := range n.Items {
				c.give(n.Name.Value, c.word(word))
			}
		case *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			c.count(n, arithmeticSink)
		case *syntax.BinaryTest:
			c.compare(n)
			// From -eq to -gt: [[ evaluates both sides.
			if n.Op < syntax.TsEql || n.Op > syntax.TsGtr {
				return true
			}
			c.count(n, arithmeticSink)
		case *syntax.UnaryTest:
			if word, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) {
				c.leak(nameSink, c.word(word))
			}
			return true
		case *syntax.CaseClause:
			c.compare(n.Word)
			return true
		case *syntax.DeclClause:
			c.declaration(n)
			return true
		default:
			return true
		}
		return false
	})
	return out
}

// variable returns what is known of a variable, which it adds if it is new.
func (c *valueCheck) variable(name string) *variable {
	v := c.vars[name]
	if v == nil {
		v = &variable{}
		c.vars[name] = v
	}
	return v
}

// give notes that a variable gets these values, or something else. Knowledge only grows.
func (c *valueCheck) give(name string, flows []flow) {
	v := c.variable(name)
	v.other = v.other || len(flows) == 0
	for _, f := range flows {
		if !slices.ContainsFunc(v.flows, func(g flow) bool {
			return g.value == f.value && g.file == f.file && g.certainty <= f.certainty
		}) {
			v.flows = append(v.flows, f)
		}
	}
}

// assign looks at an assignment, alone, before a command or in a declaration.
func (c *valueCheck) assign(a *syntax.Assign) {
	flows := c.word(a.Value)
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	v := c.variable(name)
	c.subscript(v, a.Index)
	appends := a.Append
	if a.Value != nil {
		for n := range syntax.Preorder(a.Value) {
			// x=${y//[!a-z]/} takes characters out, x="$x $V" adds to what there is.
			if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
				v.compared = v.compared || takesOut(p)
				appends = appends || p.Param.Value == name
			}
		}
	}
	v.appended = v.appended || appends && len(flows) > 0
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			c.subscript(v, e.Index)
			flows = append(flows, c.word(e.Value)...)
		}
	}
	c.steer(name, flows)
	// export x gives no value, and what += adds without one changes none.
	if !a.Naked && (len(flows) > 0 || !a.Append) {
		c.give(name, flows)
	}
}

// declaration looks at export, declare and their like, whose options hold for the names after them. Their assignments
// are nodes of their own. A word that is neither, as in declare "$V", names a variable.
func (c *valueCheck) declaration(n *syntax.DeclClause) {
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

// steer reports values in a variable of the environment by which they become code, such as PS4 or PATH.
func (c *valueCheck) steer(name string, flows []flow) {
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
func (c *valueCheck) compare(node syntax.Node) {
	for n := range syntax.Preorder(node) {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			c.variable(p.Param.Value).compared = true
		}
	}
}

// word evaluates a word, which may be nil.
func (c *valueCheck) word(word *syntax.Word) []flow {
	if word == nil {
		return nil
	}
	return unique(c.parts(word.Parts))
}

// leading returns the values that a word begins with.
func (c *valueCheck) leading(word *syntax.Word) []flow {
	return c.parts([]syntax.WordPart{Leading(word)})
}

// parts evaluates parts of a word. Single quotes hold no values, nor does what is not expanded to text.
func (c *valueCheck) parts(parts []syntax.WordPart) (flows []flow) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.DblQuoted:
			flows = append(flows, c.parts(p.Parts)...)
		case *syntax.ParamExp:
			flows = append(flows, c.param(p)...)
		case *syntax.ArithmExp:
			c.count(p.X, arithmeticSink)
		case *syntax.CmdSubst:
			flows = append(flows, c.substituted(p, p.Stmts)...)
		case *syntax.ProcSubst:
			for _, f := range c.substituted(p, p.Stmts) {
				f.file = true
				flows = append(flows, f)
			}
		}
	}
	return flows
}

// substituted returns what the statements of a substitution print.
func (c *valueCheck) substituted(node syntax.Node, stmts []*syntax.Stmt) []flow {
	flows, known := c.printed[node]
	if !known {
		flows = c.stmts(stmts)
		c.printed[node] = flows
	}
	return flows
}

// param evaluates an expansion. A length, a quoted text and what is left of a text when characters are taken out are
// harmless. Others take a value for more than text: ${!x} for a name, ${x@P} for a prompt that may hold $(cmd), ${a[x]}
// and ${s:x} for arithmetic.
func (c *valueCheck) param(p *syntax.ParamExp) (flows []flow) {
	if p.Param == nil {
		return nil
	}
	name := p.Param.Value
	c.subscript(c.variable(name), p.Index)
	if p.Slice != nil {
		c.count(p.Slice.Offset, arithmeticSink)
		c.count(p.Slice.Length, arithmeticSink)
	}
	if p.Repl != nil {
		c.word(p.Repl.Orig)
		flows = c.word(p.Repl.With)
	}
	own := c.read(name)
	if p.Exp != nil {
		operand := c.word(p.Exp.Word)
		if HasDefault(p) {
			flows = operand
		}
		switch p.Exp.Op {
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			c.give(name, operand)
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
			own = nil
		case syntax.OtherParamOps:
			switch p.Exp.Word.Lit() {
			case "P":
				c.leak(sink{
					what: "${" + name + "@P}", remedy: "the shell expands it as a prompt; remove @P",
				}, own)
			case "Q":
				own = nil
			}
		}
	}
	switch {
	case p.Length || p.Width:
		return nil
	case p.Excl && p.Names == 0 && p.Index == nil:
		c.leak(sink{what: "${!" + name + "}", remedy: nameSink.remedy}, own)
	case takesOut(p):
		return flows
	}
	return append(flows, own...)
}

// takesOut reports whether an expansion takes all characters but some out of a text: ${x//[!a-z]/}.
func takesOut(p *syntax.ParamExp) bool {
	if p.Repl == nil || p.Repl.Orig == nil { // ${x/} has no pattern
		return false
	}
	pattern := p.Repl.Orig.Lit()
	return strings.HasPrefix(pattern, "[!") || strings.HasPrefix(pattern, "[^")
}

// read returns the values in a variable, with what the variable does to their certainty.
func (c *valueCheck) read(name string) []flow {
	v := c.vars[name]
	if v == nil || v.compared {
		return nil
	}
	flows := slices.Clone(v.flows)
	for i := range flows {
		f := &flows[i]
		if v.other && !v.appended {
			f.certainty = max(f.certainty, likely)
		}
		if c.values[f.value].Variable != name && f.via == "" {
			f.via = name
		}
	}
	return flows
}

// subscript reports values in the subscript of a variable, which may be nil.
func (c *valueCheck) subscript(of *variable, index syntax.ArithmExpr) {
	if !of.maps {
		c.count(index, subscriptSink)
	}
}

// count reports the values that a shell counts with below a node, which may be nil. A name needs no dollar there: bash
// runs the command in a[$(cmd)] when it finds that in x of $((x + 1)).
func (c *valueCheck) count(node syntax.Node, s sink) {
	if node == nil {
		return
	}
	syntax.Walk(node, func(node syntax.Node) bool {
		switch x := node.(type) {
		case *syntax.Lit:
			if syntax.ValidName(x.Value) {
				c.leak(s, c.read(x.Value))
			}
		case syntax.WordPart:
			if _, quoted := x.(*syntax.DblQuoted); quoted {
				return true
			}
			c.leak(s, c.parts([]syntax.WordPart{x}))
			return false
		}
		return true
	})
}

// call evaluates a simple command.
func (c *valueCheck) call(n *syntax.CallExpr) []flow {
	for _, a := range n.Assigns {
		c.assign(a)
		if len(n.Args) > 0 && a.Name != nil { // A=1 cmd, where cmd gets A
			c.variable(a.Name.Value).exported = true
		}
	}
	args, words := c.spread(n.Args)
	for _, word := range words {
		c.word(word)
	}
	at := wrappedBy(args)
	c.wrappers(args[:at], words[:at])
	if at >= len(args) {
		return nil
	}
	// Without quotes the word that names the program is split, so the value chooses the arguments too: $c may be rm -rf.
	named := commandSink
	if _, quoted := words[at].Parts[0].(*syntax.DblQuoted); quoted {
		named = programSink
	}
	c.leak(named, c.leading(words[at]))
	if args[at] == "" {
		// $S -c CODE: the program is not known, but perhaps a shell.
		for i := at + 1; i+1 < len(args); i++ {
			if IsCodeOption(args[i]) {
				c.leak(codeSink, doubted(c.word(words[i+1])))
			}
		}
	} else {
		c.codes(args, words)
		c.builtin(args[at:], words[at:])
		c.language(args[at:], words[at:])
	}
	return c.output(args[at:], words[at:])
}

// spread returns the texts of words and the words. One that stands for several, as $S does with S="sh -c", is repeated.
func (c *valueCheck) spread(of []*syntax.Word) (args []string, words []*syntax.Word) {
	for i, text := range Texts(of, c.constants) {
		_, expands := of[i].Parts[0].(*syntax.ParamExp)
		fields := []string{text}
		if expands && strings.Contains(text, " ") {
			fields = strings.Fields(text)
		}
		for _, field := range fields {
			args, words = append(args, field), append(words, of[i])
		}
	}
	return args, words
}

// output returns the values that a command prints, by the row of its program in programTable.
func (c *valueCheck) output(args []string, words []*syntax.Word) []flow {
	var given []flow
	for _, word := range words[1:] {
		given = append(given, c.word(word)...)
	}
	read := slices.Concat(c.in, contents(given))
	name := ProgramName(args[0])
	switch p := programOf(name); {
	case name == "printf" && strings.Contains(strings.Join(args, " "), "%q"):
		return nil
	case name == "printenv":
		var flows []flow
		for _, name := range args[1:] {
			flows = append(flows, c.read(name)...)
		}
		return flows
	case p.prints == nothing:
		return nil
	case p.prints == itsWords:
		return given
	case p.prints == itsInput:
		return read
	case p.prints == partsOf:
		return doubted(read)
	}
	return doubted(slices.Concat(read, given))
}

// doubted returns copies of flows that stand for what a program may print.
func doubted(flows []flow) []flow {
	flows = slices.Clone(flows)
	for i := range flows {
		flows[i].certainty = perhaps
	}
	return flows
}

// wrappers looks at the programs in front of a command, such as env and xargs.
func (c *valueCheck) wrappers(args []string, words []*syntax.Word) {
	for i, arg := range args {
		name, _, isAssignment := strings.Cut(arg, "=")
		switch {
		case isAssignment && syntax.ValidName(name):
			flows := c.word(words[i])
			c.steer(name, flows)
			c.give(name, flows)
			c.variable(name).exported = true
		case arg == "-S" && i+1 < len(words):
			// env -S splits its argument into a command.
			c.leak(codeSink, c.word(words[i+1]))
		}
	}
}

// codes looks at the code among the words of a command, and at the code that it reads.
func (c *valueCheck) codes(args []string, words []*syntax.Word) {
	plan := PlanCall(args)
	for _, code := range plan.Codes {
		var text []string
		before := len(*c.found)
		for _, i := range code.Args {
			c.leak(codeSink, c.word(words[i]))
			text = append(text, codeText(words[i].Parts, Outside))
		}
		last := code.Args[len(code.Args)-1]
		// Code with a value in it has been reported; what else it would do is not known.
		if len(*c.found) == before {
			c.nested(strings.Join(text, " "), code, words[last+1:])
		}
	}
	// In xargs sh -c, the first word of the input becomes the code.
	if plan.Stdin != nil || slices.Contains(args, "xargs") && IsCodeOption(args[len(args)-1]) {
		c.leak(inputSink, c.in)
	}
	for i := range plan.Denied {
		// The value of an option of read, as in read -p "$prompt" x, names no variable.
		if i < len(words) && !(args[0] == "read" && check.Among("-p -d -t -n -N -u -i", args[i-1])) {
			c.leak(nameSink, c.word(words[i]))
		}
	}
}

// withOthers adds to constants those of others that are not known in it, and returns it.
func withOthers(constants, others map[string]string) map[string]string {
	for name, text := range others {
		if constants[name] == "" {
			constants[name] = text
		}
	}
	return constants
}

// nested looks at the code of another shell, or of this one. A child has only the exported variables, and
// parameters of its own.
func (c *valueCheck) nested(text string, code Code, params []*syntax.Word) {
	if c.depth >= maxCodeDepth || code.Remote != "" {
		return
	}
	if !code.Child {
		// eval shares the variables of this shell, in both directions.
		if file, err := Parse(text, c.dialects); err == nil {
			outer := c.constants
			c.constants = withOthers(Constants(file), outer)
			c.depth++
			c.stmts(file.Stmts)
			c.depth--
			c.constants = withOthers(outer, c.constants)
		}
		return
	}
	// A child changes no variable of this shell, so one look is enough, when these are known.
	if !c.reporting {
		return
	}
	inner := &valueCheck{
		dialects: c.dialects, values: c.values, found: c.found, vars: map[string]*variable{}, depth: c.depth + 1,
	}
	for name, v := range c.vars {
		if v.exported {
			inner.vars[name] = &variable{flows: c.read(name), other: v.other, exported: true, compared: v.compared}
		}
	}
	for i, word := range params {
		given := &variable{flows: c.word(word)}
		inner.vars[strconv.Itoa(i)] = given
		if i > 0 && len(given.flows) > 0 {
			inner.vars["@"], inner.vars["*"] = given, given
		}
	}
	inner.code(text)
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
func (c *valueCheck) builtin(args []string, words []*syntax.Word) {
	switch ProgramName(args[0]) {
	case "read", "mapfile", "readarray":
		names := slices.DeleteFunc(slices.Clone(args[1:]), func(arg string) bool { return !syntax.ValidName(arg) })
		if len(names) == 0 {
			names = []string{"REPLY", "MAPFILE"}
		}
		for _, name := range names {
			c.give(name, c.in)
		}
	case "printf":
		if len(args) > 2 && args[1] == "-v" && syntax.ValidName(args[2]) {
			c.give(args[2], c.output(args, words))
		}
	case "test", "[":
		if slices.ContainsFunc(args, func(a string) bool { return check.Among("= == != < > "+numberTests, a) }) {
			for _, word := range words {
				c.compare(word)
			}
		}
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", ".", "source":
		// sh $FILE, where -c and -s make the operand something else.
		if i := skipOptions(args, 1, ""); i < len(args) && args[i] == "" && !slices.ContainsFunc(
			args[1:i], func(a string) bool { return strings.ContainsAny(a, "cs") },
		) {
			flows := c.word(words[i])
			c.leak(codeSink, contents(flows))
			c.leak(scriptSink, flows)
		}
	}
}

// language reports values in code of a language that is not the shell's.
func (c *valueCheck) language(args []string, words []*syntax.Word) {
	name := ProgramName(args[0])
	p := programOf(name)
	s := sink{
		code: codeLanguage,
		says: "is inside code for " + name + ", which may parse it as more than a value; " +
			"pass it as an argument or through the environment",
	}
	found, operand := false, 0
	for i := 1; i < len(args); i++ {
		option, _, attached := strings.Cut(args[i], "=")
		switch {
		case p.option(args[i]) && i+1 < len(args):
			found = true
			i++
			c.leak(s, c.word(words[i]))
		case attached && slices.Contains(p.options, option): // --eval=CODE
			found = true
			c.leak(s, c.word(words[i]))
		case len(args[i]) == 2 && args[i][0] == '-' && strings.Contains(p.takes, args[i][1:]):
			found = found || args[i] == "-f" // awk -f FILE has its code in a file
			i++
		case !strings.HasPrefix(args[i], "-") && operand == 0:
			operand = i
		}
	}
	switch {
	case found:
	case p.runs == "operand" && operand > 0:
		c.leak(s, c.word(words[operand]))
	case p.runs == "reads" && operand == 0:
		c.leak(s, c.in)
	}
}

// option reports whether the next word is code: -e, or letters that end with it, as in -ne.
func (p program) option(arg string) bool {
	return slices.ContainsFunc(p.options, func(o string) bool {
		return arg == o || len(o) == 2 && strings.HasSuffix(letters(arg), o[1:])
	})
}
