// Package taint follows data through a shell script, to find the values that reach a place where the shell, or a program that the tables
// know, runs them. Check is all of it.
//
// The script is interpreted abstractly. A word expands to texts with marks in them: a mark stands for a part that only a run knows, and
// says from which source it comes and how surely (state.go). Each variable keeps every value that it was ever given, and the whole is
// repeated until nothing new turns up. Which of these values may be there at some place is decided by the order of the assignments and
// by the regions of the script in which they stand: branches, loops, functions, other processes (state.go too), and by what the script has
// checked before (checks.go). words.go expands words, statements.go and commands.go interpret what runs. tables.go holds what programs do
// with data; a program that is in no table may print what it was given. report.go words the findings.
package taint

import (
	"slices"
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
	t.usesLast = strings.Contains(t.Text, "$_") || strings.Contains(t.Text, "${_")
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

// Bounds of the analysis. No script that a person writes comes near them.
const (
	maxRounds   = 24      // over the whole script, until no variable holds anything new
	maxDepth    = 16      // of calls and nested code
	minSteps    = 200_000 // commands and words looked at; more for long scripts
	stepsPerKiB = 20_000
)

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
