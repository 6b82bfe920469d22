// Package taint follows data through a shell script, to find the values that reach a place where the shell, or a program that the tables
// know, runs them. Check is all of it.
//
// The script is interpreted abstractly. A word expands to texts with marks in them: a mark stands for a part that only a run knows, and
// says from which source it comes and how surely (text.go). Each variable keeps every value that it was ever given, and the whole is
// repeated until nothing new turns up. Which of these values may be there at some place is decided by the order of the assignments and
// by the regions of the script in which they stand: branches, loops, functions, other processes (regions.go), and by what the script has
// checked before (checks.go). words.go expands words, statements.go and commands.go interpret what runs. tables.go holds what programs do
// with data; a program that is in no table may print what it was given.
package taint

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

// Script is what Check looks at.
type Script struct {
	Text     string // for the shell, a constant
	Dialects []syntax.LangVariant
	Sources  []Source

	Inherited func(name string) bool // reports whether commands have the variable in their environment, whatever the script does
	Assigned  func(name string) bool // reports whether the script itself gives the variable its value, so that it is not inherited
}

// Source is a value that comes from outside the script.
type Source struct {
	Variable    string // that brings it
	Placeholder bool   // Variable stands in the place of a placeholder; a user has not written it
	Item        bool   // Variable is one that every command has
	File        bool   // Variable is the name of a file, which holds the value
	Offset      int    // in the text as written
	Written     string // as the text has it
	Quoted      bool   // |sh brings its quotes
	Word        bool   // |url leaves no character that a shell takes for more than a letter
	List        bool   // it is several words
	JSON        bool   // it is JSON
	Places      []Place
}

// Place is one of several places of the script with the same value, and how that is written there.
type Place struct {
	Start   int // in the script
	Offset  int // in the text as written
	Written string
}

// Finding is a source that reaches code.
type Finding struct {
	Offset  int
	Warning bool // it may reach code; else it surely does
	Code    string
	Text    string
}

// Check reports the data in a script that reaches a place where it is run. A script that is no valid shell has no findings.
func Check(s Script) []Finding {
	t := &analysis{Script: s, sourceOf: map[string]int{}, dataFiles: map[string]int{}}
	for i, src := range s.Sources {
		switch {
		case src.File:
			t.dataFiles[src.Variable] = i
		default:
			t.sourceOf[src.Variable] = i
			if src.List {
				t.sourceOf[src.Variable+"_0"] = i
			}
		}
	}
	file, err := shell.Parse(s.Text, s.Dialects)
	if err != nil || len(s.Sources) == 0 || onlyPassesOn(file) {
		return nil
	}
	t.markIndex, t.siteOf, t.vars = map[mark]int{}, map[siteKey]*site{}, map[string][]*site{}
	t.refs = map[string]bool{}
	t.integers, t.maps, t.indexed, t.exported = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	t.otherIFS = strings.Contains(t.Text, "IFS")
	t.files, t.funcs, t.contexts = map[string]texts{}, map[string][]*syntax.FuncDecl{}, map[contextKey]int{}
	t.regions, t.regionIndex = []region{{parent: -1}}, map[regionKey]int{}
	t.readonly, t.mayExport = map[string]bool{}, map[int]bool{}
	t.mayBeDash = slices.Contains(t.Dialects, syntax.LangPOSIX)
	t.lastInShell = strings.Contains(t.Text, "lastpipe") || slices.Contains(t.Dialects, syntax.LangZsh) || slices.Contains(t.Dialects, syntax.LangMirBSDKorn)
	t.again, t.aliases = map[*syntax.FuncDecl]texts{}, map[string]texts{}
	t.parsed = map[string]*syntax.File{}
	t.starts = map[*syntax.Stmt]int{}
	for node := range syntax.Preorder(file) {
		if s, ok := node.(*syntax.Stmt); ok {
			t.starts[s] = int(s.Pos().Offset())
		}
	}
	t.merged = strings.Contains(t.Text, "2>&1") || strings.Contains(t.Text, "&>") || strings.Contains(t.Text, "|&")
	for _, name := range integerNames {
		t.integers[name] = true
	}
	for name, i := range t.dataFiles {
		t.files[t.opaque("$" + name)[0]] = texts{t.mark(mark{source: i, sure: sure, inert: t.Sources[i].JSON})}
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
		first := t.Sources[0]
		t.found = append(t.found, Finding{Offset: first.Offset, Code: codeDeep, Text: first.Written + " stands in a text whose nested code and functions are too deep to follow; use fewer levels"})
	}
	return t.found
}

const (
	codeReaches     = "PS119"
	codeOutput      = "PS107"
	codePiped       = "PS108"
	codeCommandName = "PS105"
	codeLanguage    = "PS110"
	codeDeep        = "PS028"
)

// Bounds of the analysis. No script that a person writes comes near them.
const (
	maxRounds   = 6       // over the whole script, until no variable holds anything new
	maxDepth    = 16      // of calls and nested code
	minSteps    = 200_000 // commands and words looked at; more for long scripts
	stepsPerKiB = 20_000
)

type analysis struct {
	Script
	found     []Finding
	marks     []mark
	markIndex map[mark]int

	sourceOf map[string]int       // of Sources, by the variable that brings it
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
func (t *analysis) run(file *syntax.File) {
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

// sink is a place where something is run that should be data.
type sink struct {
	what   string // the words behind "reaches"
	remedy string
	least  certainty // of the values that are reported
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
func (t *analysis) leak(s sink, all ...string) {
	if !t.last {
		return
	}
	for _, m := range t.marksIn(all...) {
		if m.sure >= s.least && (s.words || !m.word) {
			t.report(m, s)
		}
	}
}

func (t *analysis) report(m mark, s sink) {
	src := t.Sources[m.source]
	written, offset := src.Written, src.Offset
	if m.place > 0 {
		written, offset = src.Places[m.place-1].Written, src.Places[m.place-1].Offset
	}
	warning, code, verb, remedy := m.sure < sure, codeReaches, "reaches ", s.remedy
	if warning {
		verb = "may reach "
	}
	if remedy == "" {
		name := strings.Trim(strings.TrimPrefix(written, "$"), "{}")
		remedy = "write ${" + name + "|sh} there, outside the quotes of that code"
		if src.Item {
			remedy = "let that code read the variable itself, within single quotes"
		}
		if m.quoted {
			remedy = "it brings quotes of its own, so let it stand outside those of that code"
		}
	}
	through := ""
	if m.via != "" && "$"+m.via != written && "${"+m.via+"}" != written {
		through = " through $" + m.via
	}
	text := written + " " + verb + s.what + through + "; " + remedy
	switch {
	case s.code != "":
		warning, code = true, s.code
		text = written + through + " " + s.says
	case m.sure == perhaps && s.what != codeSink.what:
	case m.sure == perhaps && m.piped:
		code, text = codePiped, written+" reaches a shell as code through the pipe; write |sh where it stands for one word of that code"
	case m.sure == perhaps:
		code, text = codeOutput, written+" reaches a shell as code through the output of a command"
	}
	if f := (Finding{Offset: offset, Warning: warning, Code: code, Text: text}); !slices.Contains(t.found, f) {
		t.found = append(t.found, f)
	}
}

// context returns the number of a way into code: what is assigned on one way is not mixed with what is assigned on another.
func (t *analysis) context(outer int, node any, text string) int {
	key := contextKey{outer, node, text}
	n, ok := t.contexts[key]
	if !ok {
		n = len(t.contexts) + 1
		t.contexts[key] = n
	}
	return n
}

// opaqueName begins the names that stand in nested code for marks.
const opaqueName = "PRODIGY_X"

func opaqueVariable(i int) string { return opaqueName + strconv.Itoa(i) }
