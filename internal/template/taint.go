package template

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	codeReaches     = "PS119"
	codeOutput      = "PS107"
	codePiped       = "PS108"
	codeCommandName = "PS105"
	codeLanguage    = "PS110"
)

// Bounds of the analysis. No script that a person writes comes near them.
const (
	maxRounds   = 6       // over the whole script, until no variable holds anything new
	maxDepth    = 16      // of calls and nested code
	minSteps    = 200_000 // commands and words looked at; more for long scripts
	stepsPerKiB = 20_000
)

// taint follows data through a finished script. It interprets the script with texts that stand for what a run would bring: every
// variable keeps all it was ever given, whatever the order, and the whole is repeated until nothing new turns up. So a value that
// reaches code is seen whichever way it takes, and "sure" is only a matter of the order.
//
// taint_commands.go holds what programs do with data. What is not in its tables is taken for a program that may print what it was given.
type taint struct {
	c         *compiler
	script    string
	dialects  []syntax.LangVariant
	marks     []mark
	markIndex map[mark]int

	sources  []source
	sourceOf map[string]int // by the variable that brings it
	repeated map[string][]occurrence
	starts   map[*syntax.Stmt]int // of the statements of the script itself, not of code in it
	at       int                  // where the innermost of them begins that is being interpreted

	dataFiles  map[string]int // by the variable with the name of the file that brings it
	vars       map[string][]*site
	siteOf     map[siteKey]*site
	integers   map[string]bool // variables that the shell evaluates whenever they are assigned
	maps       map[string]bool // associative arrays, whose subscripts are text
	mapped     map[string]bool // those that are declared so far
	indexed    map[string]bool // arrays of numbers, which stay so
	exported   map[string]bool
	files      map[string]texts   // what was written to files, by their names
	refs       map[string]bool    // variables that stand for others
	redirected []*syntax.Redirect // of exec: what all that follows prints to
	numbered   []*syntax.Redirect // of descriptors other than 1
	fds        texts              // what descriptors other than the standard ones bring
	funcs      map[string][]*syntax.FuncDecl
	called     map[*syntax.FuncDecl]bool
	again      map[*syntax.FuncDecl]texts // what functions that call themselves are given then
	aliases    map[string]texts
	contexts   map[contextKey]int
	parsed     map[string]*syntax.File

	regions     []region
	regionIndex map[regionKey]int
	readonly    map[string]bool // variables that an assignment may not change
	hasRefs     bool            // a variable stands for another, so that the order of assignments says nothing
	mayExport   map[int]bool    // the processes in which code that is not known may export variables
	mayBeDash   bool            // what only bash knows may do nothing, or something else
	lastInShell bool            // the last command of a pipe runs in the shell itself

	round     int
	tick      int
	steps     int
	changed   bool
	last      bool // the round that reports
	exhausted bool
	tooDeep   bool
	otherIFS  bool // words may be split at other characters than blanks
	merged    bool // the script joins its standard error to its output
}

// source is a value that comes from outside the script.
type source struct {
	offset  int    // in the text as written
	written string // as the text has it
	quoted  bool   // |sh brings its quotes
	word    bool   // |url leaves no character that a shell takes for more than a letter
	list    bool   // it is several words
	inert   bool   // it is JSON
}

// occurrence is one of several places of the script with the same value, and the source that names it as it was written.
type occurrence struct {
	start  int // in the script
	source int
}

// site is an assignment to a variable.
type site struct {
	tick    int
	round   int
	region  int
	proc    int // the process that makes it
	value   texts
	adds    bool // to what the variable holds already
	over    bool // it held for one command, which has run
	always  bool // whichever shell runs the code
	blurred bool // it stands for several readings of the same code
}

type siteKey struct {
	name string
	node any
	ctx  int
}

type contextKey struct {
	outer int
	node  any
	text  string
}

// checkTaint reports the data in a finished script that reaches a place where the shell, or a program of the table, runs it.
func (c *compiler) checkTaint(script string, dialects []syntax.LangVariant) {
	t := &taint{c: c, script: script, dialects: dialects, sourceOf: map[string]int{}, repeated: map[string][]occurrence{}, dataFiles: map[string]int{}}
	if !t.bringsData() {
		return
	}
	file, err := parseShell(script, dialects)
	if err != nil {
		return // the text was parsed already; with values in their places it is no other
	}
	if onlyPassesOn(file) {
		return
	}
	t.markIndex, t.siteOf, t.vars = map[mark]int{}, map[siteKey]*site{}, map[string][]*site{}
	t.refs = map[string]bool{}
	t.integers, t.maps, t.indexed, t.exported = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	t.otherIFS = strings.Contains(script, "IFS")
	t.files, t.funcs, t.contexts = map[string]texts{}, map[string][]*syntax.FuncDecl{}, map[contextKey]int{}
	t.regions, t.regionIndex = []region{{parent: -1}}, map[regionKey]int{}
	t.readonly, t.mayExport = map[string]bool{}, map[int]bool{}
	t.mayBeDash = slices.Contains(dialects, syntax.LangPOSIX)
	t.lastInShell = strings.Contains(script, "lastpipe") || slices.Contains(dialects, syntax.LangZsh) || slices.Contains(dialects, syntax.LangMirBSDKorn)
	t.again, t.aliases = map[*syntax.FuncDecl]texts{}, map[string]texts{}
	t.parsed = map[string]*syntax.File{}
	t.starts = map[*syntax.Stmt]int{}
	for node := range syntax.Preorder(file) {
		if s, ok := node.(*syntax.Stmt); ok {
			t.starts[s] = int(s.Pos().Offset())
		}
	}
	t.merged = strings.Contains(script, "2>&1") || strings.Contains(script, "&>") || strings.Contains(script, "|&")
	for _, name := range integerNames {
		t.integers[name] = true
	}
	for name, i := range t.dataFiles {
		t.files[t.opaque("$" + name)[0]] = texts{t.mark(mark{source: i, sure: sure, inert: t.sources[i].inert})}
	}
	for t.round = 0; ; t.round++ {
		t.last = t.round > 0 && !t.changed || t.round == maxRounds
		t.tick, t.steps, t.changed = 0, 0, false
		t.called, t.mapped = map[*syntax.FuncDecl]bool{}, map[string]bool{}
		t.run(file)
		if t.last || t.exhausted {
			break
		}
	}
	if t.exhausted || t.tooDeep {
		c.report(Error, t.sources[0].offset, finding{codeDeep, t.sources[0].written + " stands in a text whose nested code and functions are too deep to follow; use fewer levels"})
	}
}

// onlyPassesOn reports whether a script does nothing but run programs that never run what they are given, as most steps do.
func onlyPassesOn(file *syntax.File) bool {
	for _, s := range file.Stmts {
		call, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || len(call.Assigns) > 0 || !slices.Contains(passingOn, call.Args[0].Lit()) || len(call.Args) > 1 && strings.HasPrefix(call.Args[1].Lit(), "-v") {
			return false
		}
		for _, r := range s.Redirs {
			if r.Hdoc != nil || !onlyExpands(r.Word.Parts) {
				return false
			}
		}
		for _, w := range call.Args {
			if !onlyExpands(w.Parts) {
				return false
			}
		}
	}
	return true
}

// passingOn are programs that run nothing, whatever their arguments and their input.
var passingOn = []string{"echo", "printf", "cat", "cp", "mv", "ls", "rm", "mkdir", "touch"}

// onlyExpands reports whether the parts of a word are text and plain expansions.
func onlyExpands(parts []syntax.WordPart) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if !onlyExpands(p.Parts) {
				return false
			}
		case *syntax.ParamExp:
			if p.Flags != nil || p.Exp != nil || p.Slice != nil || p.Repl != nil || p.Index != nil || p.Excl || p.NestedParam != nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// run interprets the script once.
func (t *taint) run(file *syntax.File) {
	f := &shellFrame{stdin: empty, params: empty}
	t.stmts(f, file.Stmts)
	for _, name := range sortedNames(t.funcs) {
		for _, fn := range t.funcs[name] {
			if !t.called[fn] { // by code that is not known, perhaps
				t.stmt(f.call(t, fn, fn, empty), fn.Body)
			}
		}
	}
}

// bringsData finds the values that reach the script: placeholders, and names of the environment that it mentions.
func (t *taint) bringsData() bool {
	for i := range t.c.slots {
		s := &t.c.slots[i]
		src := source{written: s.written, quoted: s.expr.has("sh"), word: s.expr.has("url"), list: s.mode == separate, inert: s.expr.isJSON()}
		var written []source // at each place
		for _, r := range t.c.refs {
			if r.filled && r.slot == i {
				src.offset, src.written = r.start, r.written
				written = append(written, src)
			}
		}
		if len(written) > 0 {
			src = written[0]
		}
		switch {
		case s.mode == pastedCode || s.number:
			continue
		case s.expr.has("file") || s.expr.root == "map" && len(s.expr.steps) == 1 && s.expr.steps[0].key == "results_file":
			t.addFile(s.variable, src)
			continue
		case t.harmless(s.expr):
			continue
		}
		t.add(s.variable, src)
		t.addRepeated(s.variable, written)
		if src.list {
			t.add(s.variable+"_0", src)
		}
	}
	for rest, at := t.c.src, 0; at < len(rest); {
		n := nameLen(rest[at:])
		name := rest[at : at+n]
		if n > 0 && t.isData(name) {
			if _, known := t.sourceOf[name]; !known {
				t.add(name, source{offset: at, written: "$" + name, inert: name == environmentData[0]})
			}
		}
		if _, known := t.dataFiles[name]; name == itemFile && !known {
			t.addFile(name, source{offset: at, written: "$" + name, inert: true})
		}
		at += max(1, n)
	}
	return len(t.sources) > 0
}

// itemFile is the variable with the name of a file that holds the item.
const itemFile = "PRODIGY_ITEM_FILE"

// addFile notes a variable with the name of a file whose content is data.
func (t *taint) addFile(name string, s source) {
	t.dataFiles[name] = len(t.sources)
	t.sources = append(t.sources, s)
}

func (t *taint) add(name string, s source) {
	t.sourceOf[name] = len(t.sources)
	t.sources = append(t.sources, s)
}

// addRepeated notes where the script has a value that was written more than once, so that a finding names the right place. If the
// rewriting left another number of them, the first place stands for all.
func (t *taint) addRepeated(variable string, written []source) {
	var starts []int
	for from := 0; ; {
		i := strings.Index(t.script[from:], variable)
		if i < 0 {
			break
		}
		if i += from; nameLen(t.script[i:]) == len(variable) {
			starts = append(starts, i)
		}
		from = i + len(variable)
	}
	if len(written) < 2 || len(starts) != len(written) {
		return
	}
	for i, src := range written {
		t.repeated[variable] = append(t.repeated[variable], occurrence{start: starts[i], source: len(t.sources)})
		t.sources = append(t.sources, src)
	}
}

// sourceAt returns the source of a variable in the statement that is being interpreted.
func (t *taint) sourceAt(name string) (int, bool) {
	i, ok := t.sourceOf[name]
	for _, o := range t.repeated[name] {
		if o.start >= t.at {
			return o.source, true
		}
	}
	return i, ok
}

// environmentData are variables with an item's data that prodigy sets for every command of an agent.
var environmentData = []string{"PRODIGY_ITEM", "PRODIGY_ITEM_ID"}

// isData reports whether a name of the environment brings data. Names that the workflow gives a constant value bring none, nor do
// those of which prodigy checks that they are numbers.
func (t *taint) isData(name string) bool {
	if slices.Contains(environmentData, name) {
		return true
	}
	is, ok := t.c.names.Lookup(name)
	if !ok || !is.Declared || is.Constant || ReservedName(name) || t.c.isTrusted(&expr{root: name}) {
		return false
	}
	e := t.c.exports[name]
	return e == nil || !e.number
}

// harmless reports whether the value of a placeholder can do no harm as code, or is meant to be code.
func (t *taint) harmless(e *expr) bool {
	if e.has("raw") || e.has("int") || t.c.isTrusted(e) {
		return true
	}
	is, _ := t.c.names.Lookup(e.root)
	return is.Constant && len(e.steps) == 0
}

// sink is a place where something is run that should be data.
type sink struct {
	what   string // the words behind "reaches"
	remedy string
	least  certainty // of the values that are told
	code   string    // of a warning, whatever the certainty; empty: an error when it is sure
	says   string    // in the place of "reaches" and what
	words  bool      // a word of letters can do harm there
}

const arithmeticRemedy = "assign the value itself, which is checked to be a whole number: n=${...}"

var (
	codeSink  = sink{what: "shell code"}
	nameSink  = sink{what: "a place that names a variable", remedy: "the shell evaluates what it finds there, so choose among constant names with case"}
	arithSink = sink{what: "arithmetic", remedy: arithmeticRemedy, least: likely, words: true} // dash takes (( x )) for a command
)

// leak reports the values in texts that reach a sink.
func (t *taint) leak(s sink, all ...string) {
	if !t.last {
		return
	}
	for _, m := range t.marksIn(all...) {
		if m.sure >= s.least && (s.words || !m.word) {
			t.report(m, s)
		}
	}
}

func (t *taint) report(m mark, s sink) {
	src := t.sources[m.source]
	severity, code, verb, remedy := Error, codeReaches, "reaches ", s.remedy
	if m.sure < sure {
		severity, verb = Warning, "may reach "
	}
	if remedy == "" {
		name := strings.Trim(strings.TrimPrefix(src.written, "$"), "{}")
		remedy = "write ${" + name + "|sh} there, outside the quotes of that code"
		if slices.Contains(environmentData, name) {
			remedy = "let that code read the variable itself, within single quotes"
		}
		if m.quoted {
			remedy = "it brings quotes of its own, so let it stand outside those of that code"
		}
	}
	through := ""
	if m.via != "" && "$"+m.via != src.written && "${"+m.via+"}" != src.written {
		through = " through $" + m.via
	}
	text := src.written + " " + verb + s.what + through + "; " + remedy
	switch {
	case s.code != "":
		severity, code = Warning, s.code
		text = src.written + through + " " + s.says
	case m.sure == perhaps && s.what != codeSink.what:
	case m.sure == perhaps && m.piped:
		code, text = codePiped, src.written+" reaches a shell as code through the pipe; write |sh where it stands for one word of that code"
	case m.sure == perhaps:
		code, text = codeOutput, src.written+" reaches a shell as code through the output of a command"
	}
	d := newDiag(t.c.src, src.offset, severity, finding{code, text})
	if !slices.Contains(t.c.diags, d) {
		t.c.diags = append(t.c.diags, d)
	}
}

// context returns the number of a way into code: what is assigned on one way is not mixed with what is assigned on another.
func (t *taint) context(outer int, node any, text string) int {
	key := contextKey{outer, node, text}
	n, ok := t.contexts[key]
	if !ok {
		n = len(t.contexts) + 1
		t.contexts[key] = n
	}
	return n
}

func opaqueVariable(i int) string { return opaqueName + strconv.Itoa(i) }

// isTrusted reports whether a placeholder stands for a word that prodigy made itself: no one else writes it. An item's id is none,
// since it may be a field of the item.
func (c *compiler) isTrusted(e *expr) bool {
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
	case "workflow":
		return true
	}
	return slices.Contains([]string{"exit_code", "success", "duration_ms"}, e.steps[0].key) && (e.root == "shell" || e.root == "claude" || e.root == "last" || e.root == "error")
}
