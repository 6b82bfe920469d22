//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A script is generated as a source of data, up to three flows that carry the data on, and a sink that uses it. Sources, flows and sinks
// are productions: rows of text in sources.go, flows.go and sinks.go, in which names in braces stand for what the script has come to:
//
//	{W}  the data as a word, quoted as the style says
//	{T}  the data as it stands in double quotes or in a heredoc
//	{D}  the same in code of another shell that stands in double quotes
//	{I}  the same in code of another shell that stands in single quotes, outside quotes of its own
//	{J}  the same in single quotes of code that stands in double quotes
//	{H}  the same in code of another shell that stands in a heredoc
//	{N}  the name of a variable that holds the data
//	{x}, {f}  names that are used nowhere else, of a variable and of a function or file
//	{K}  of flows: the rest of the script
//	{S}  of flows: the rest of the script as one word in single quotes
type production struct {
	name string
	text string
	out  string // of flows: the data behind it, as it stands in double quotes; empty: as before

	// outside quotes the sentence of docs/interpolation.md by which the promise does not hold for scripts with this production.
	outside string
	// payloads are values of a sink that the common ones do not stand for.
	payloads []string
	// env is a variable that the step sets, if any.
	env variable
	// notAsRoot says of a sink that the shell does not let root do it, so that nothing is said of it when root tries it.
	notAsRoot bool
}

// variable is one of env.
type variable struct{ name, value string }

// source is where data comes from.
type source struct {
	name     string
	text     string // as it stands in double quotes
	variable string // when the shell knows the data by this name

	// literal is what a placeholder stands for, given the value that all sources have. The script that is run in place of a refused one
	// holds a reference to a variable with this text. Nil: it is the value.
	literal  func(value string) string
	payloads []string // more values that show that it is run
	at       position
	env      map[string]string // of MENV, if any
	constant bool              // it is no data
	outside  string            // as of productions
}

func (s *source) placeholder() bool { return s.variable == "" && strings.HasPrefix(s.text, "${") }

// data is what a script has come to, in both forms of the script.
type data struct {
	text        string // as it stands in double quotes
	name        string // of the variable that holds it; empty: none does
	placeholder bool
}

// style is how a word is quoted.
type style int

const (
	quoted style = iota
	bare
	single // of placeholders; anything else is quoted
)

// script is the plan of a generated script.
type script struct {
	source *source
	flows  []*production
	sink   *production
	styles []style // of the flows, and of the sink
	bash   bool    // interpreter: bash
}

// referenceName is the variable that holds the value in the reference form.
const referenceName = "REFERENCE"

// writer renders a script in one of its two forms: as it stands in the workflow, or as the reference: what prodigy should make of it, with
// an exported variable in the place of a placeholder. The reference shows what a refused script would have done.
type writer struct {
	reference bool
	names     int
}

func (s *script) workflowText() string  { return (&writer{}).script(s) }
func (s *script) referenceText() string { return (&writer{reference: true}).script(s) }

func (w *writer) script(s *script) string {
	d := data{text: s.source.text, name: s.source.variable, placeholder: s.source.placeholder()}
	switch {
	case w.reference && d.placeholder:
		d.text = "${" + referenceName + "}"
	case w.reference:
		d.text = strings.ReplaceAll(d.text, resultsFile, "$RESULTS")
	}
	return w.rest(s, 0, d) + "\n"
}

func (w *writer) rest(s *script, n int, d data) string {
	if n == len(s.flows) {
		text, _ := w.fill(s.sink, s.styles[n], d, nil)
		return text
	}
	text, _ := w.fill(s.flows[n], s.styles[n], d, func(next data) string { return w.rest(s, n+1, next) })
	return text
}

// fill returns the text of p with d in it, and of flows with the rest of the script.
func (w *writer) fill(p *production, st style, d data, rest func(data) string) (string, data) {
	w.names++
	variable, file := fmt.Sprintf("x%d", w.names), fmt.Sprintf("f%d", w.names)
	before := ""
	if strings.Contains(p.text, "{N}") && d.name == "" {
		before = fmt.Sprintf("n%d=%s\n", w.names, w.word(d, st))
		d = data{text: fmt.Sprintf("$n%d", w.names), name: fmt.Sprintf("n%d", w.names)}
	}
	next := d
	if p.out != "" {
		next = data{text: strings.NewReplacer("{x}", variable, "{f}", file, "{T}", d.text, "{N}", d.name).Replace(p.out)}
		if next.text == "$"+variable {
			next.name = variable
		}
	}
	pairs := []string{
		"{W}", w.word(d, st), "{T}", d.text, "{N}", d.name, "{x}", variable, "{f}", file,
		"{D}", w.code(d, `\"\${`+referenceName+`}\"`), "{I}", w.code(d, `"${`+referenceName+`}"`),
		"{J}", w.code(d, `'\"\${`+referenceName+`}\"'`), "{H}", w.code(d, `"\${`+referenceName+`}"`),
	}
	if rest != nil {
		k := rest(next)
		pairs = append(pairs, "{K}", k, "{S}", singleQuoted(k))
	}
	return before + strings.NewReplacer(pairs...).Replace(p.text), next
}

// word returns d as a word.
func (w *writer) word(d data, st style) string {
	switch {
	case d.placeholder && w.reference, st == quoted, st == single && !d.placeholder:
		return `"` + d.text + `"`
	case st == single:
		return "'" + d.text + "'"
	}
	return d.text
}

// code returns d as it stands in nested code, where the reference form of a placeholder is ref.
func (w *writer) code(d data, ref string) string {
	if d.placeholder && w.reference {
		return ref
	}
	return d.text
}

func singleQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// outside returns the sentence by which the promise does not hold for the script, or nothing.
func (s *script) outside() string {
	if s.source.outside != "" {
		return s.source.outside
	}
	for _, p := range append(slices.Clip(s.flows), s.sink) {
		if p.outside != "" {
			return p.outside
		}
	}
	return ""
}

// maxFlows is how deep scripts are nested.
const maxFlows = 3

// generate returns the n-th script of a seed.
func generate(seed, n uint64) *script {
	r := rand.New(rand.NewPCG(seed, n))
	s := &script{source: pick(r, sources), bash: r.IntN(8) == 0}
	for range r.IntN(maxFlows + 1) {
		s.flows = append(s.flows, pick(r, pick(r, flowFamilies)))
	}
	families := sinkFamilies
	if r.IntN(5) < 2 {
		families = harmlessFamilies
	}
	s.sink = pick(r, pick(r, families))
	for range len(s.flows) + 1 {
		s.styles = append(s.styles, []style{quoted, quoted, quoted, bare, bare, single}[r.IntN(6)])
	}
	return s
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// String names the productions of the script.
func (s *script) String() string {
	names := []string{s.source.name}
	for _, f := range s.flows {
		names = append(names, f.name)
	}
	text := strings.Join(append(names, s.sink.name), " → ")
	if s.bash {
		text += " (interpreter: bash)"
	}
	return text
}
