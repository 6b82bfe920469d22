package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

const (
	codeNUL       = "PS001"
	codeReserved  = "PS003"
	codeShell     = "PS010"
	codeShellName = "PS030"
	codeInternal  = "PS090"
)

// compiler turns one text into a Template.
type compiler struct {
	*scanner
	shell          string
	parseText      string            // src with each ref replaced by a sentinel
	file           *syntax.File      // parseText, parsed
	sets           map[string]bool   // variables that the script sets
	shells         map[string]string // variables that hold the name of a shell; empty: of anything else
	arithmeticVars map[string]bool   // variables whose values the script evaluates as numbers
	hasNested      bool
	heredocs       []quotedDoc
	exports        map[string]*exportedVar
	rootUses       map[string]bool // roots of which the script uses ${root%…}
	diags          []Diag
	slots          []slot
	slotIndex      map[string]int
	used           map[string]bool // roots of refs that are filled in
}

func newCompiler(src string, o Options) *compiler {
	return &compiler{
		scanner: newScanner(src, o.Names), shell: o.Shell,
		sets: map[string]bool{}, arithmeticVars: map[string]bool{}, exports: map[string]*exportedVar{}, rootUses: map[string]bool{},
		slotIndex: map[string]int{}, used: map[string]bool{},
	}
}

func (c *compiler) report(severity Severity, offset int, f finding) {
	c.diags = append(c.diags, newDiag(c.src, offset, severity, f))
}

// failure returns the errors found so far as one error.
func (c *compiler) failure() error {
	var errs []Diag
	for _, d := range c.diags {
		if d.Severity == Error {
			errs = append(errs, d)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.SortStableFunc(errs, func(a, b Diag) int { return a.Offset - b.Offset })
	return &CompileError{Diags: errs}
}

// scan finds the refs. A text that holds what no shell can take is refused here.
func (c *compiler) scan() error {
	if at := strings.IndexByte(c.src, 0); at >= 0 {
		c.report(Error, at, finding{codeNUL, "the text holds a NUL byte, which no shell can take"})
		return c.failure()
	}
	c.run()
	return nil
}

// usesPlaceholders reports whether the text names anything of prodigy, and so must be parsed.
func (c *compiler) usesPlaceholders() bool {
	return len(c.refs) > 0 || len(c.natives) > 0 || c.usesDeclaredName()
}

// namesEnvironmentData reports whether the text names a variable of the environment with an item's data.
func (c *compiler) namesEnvironmentData() bool {
	return strings.Contains(c.src, itemVar) // which the others begin with
}

// usesDeclaredName reports whether a declared name stands in the text. It needs no dollar in arithmetic, as in $((count + 1)), nor behind
// [[ -v and printenv.
func (c *compiler) usesDeclaredName() bool {
	for rest := c.src; rest != ""; {
		n := nameLen(rest)
		if n > 0 && c.names.declared(rest[:n]) {
			return true
		}
		rest = rest[max(1, n):]
	}
	return false
}

// passthrough is the template of a text without names that prodigy fills in. It is parsed to see whether it needs a shell at all, and to
// warn of what no shell will take; it runs all the same, since a shell may take more than the parser.
func (c *compiler) passthrough() *Template {
	t := &Template{src: c.src, script: c.src}
	dialects, ok := shell.Dialects(c.shell)
	if !ok {
		return t
	}
	file, err := shell.Parse(c.src, dialects)
	if err != nil {
		c.report(Warning, shell.ErrorOffset(err), finding{codeShell, "this does not look like valid sh: " + shell.ErrorText(err)})
		t.Diags = c.diags
		return t
	}
	c.collectSets(file)
	c.lintUnresolved(file)
	c.lintBracesOfOthers()
	if c.namesEnvironmentData() {
		c.checkTaint(c.src, dialects)
	}
	t.Diags = c.diags
	t.argv, t.redirects = c.plainCommand(file)
	return t
}

// analyze parses the text and finds the place of each ref in it.
func (c *compiler) analyze() error {
	if at := sentinelLike(c.src); at >= 0 && len(c.refs) > 0 {
		c.report(Error, at, finding{codeReserved, "names that start with PRODIGY_V are reserved for values"})
		return c.failure()
	}
	dialects, ok := shell.Dialects(c.shell)
	if !ok {
		c.report(Error, c.firstOffset(), finding{codeShellName, fmt.Sprintf("placeholders do not work in text for %s; known shells: sh, bash, dash, zsh, ksh, mksh", c.shell)})
		return c.failure()
	}
	c.parseText = c.withSentinels()
	file, err := shell.Parse(c.parseText, dialects)
	if err != nil {
		if len(c.refs) == 0 && len(c.natives) == 0 {
			c.report(Warning, shell.ErrorOffset(err), finding{codeShell, "this does not look like valid sh: " + shell.ErrorText(err)})
			return nil
		}
		c.report(Error, c.sourceOffset(shell.ErrorOffset(err)), finding{codeShell, "this is not valid sh: " + c.restorePlaceholders(shell.ErrorText(err))})
		return c.failure()
	}
	c.file = file
	c.collectSets(file)
	c.collectShells(file)
	c.collectArithmetic(file, "")
	c.place(file, dialects)
	return nil
}

// place finds the place of each ref. Nested code, which only a walk finds, may set and count variables of the code around it:
// then a second walk sees them from the start.
func (c *compiler) place(file *syntax.File, dialects []syntax.LangVariant) {
	faults := make([]finding, len(c.refs))
	for i, r := range c.refs {
		faults[i] = r.fault
	}
	before := len(c.diags)
	c.walk(file, dialects)
	if !c.hasNested {
		return
	}
	for i, r := range c.refs {
		r.fault, r.places = faults[i], nil
	}
	c.diags, c.heredocs = c.diags[:before], nil
	clear(c.exports)
	clear(c.rootUses)
	clear(c.used)
	c.collectArithmetic(file, "")
	c.walk(file, dialects)
}

func (c *compiler) walk(file *syntax.File, dialects []syntax.LangVariant) {
	w := &walker{c: c, dialects: dialects}
	w.comments(file)
	w.stmts(file.Stmts)
}

func (c *compiler) firstOffset() int {
	if len(c.refs) > 0 {
		return c.refs[0].start
	}
	return 0
}

const sentinelName = "PRODIGY_V"

func sentinel(i int) string { return "${" + sentinelName + strconv.Itoa(i) + "}" }

// withSentinels returns the text in which each ref is an expansion that any shell parser understands.
func (c *compiler) withSentinels() string {
	var b strings.Builder
	last := 0
	for i, r := range c.refs {
		b.WriteString(c.src[last:r.start])
		r.parseStart = b.Len()
		b.WriteString(sentinel(i))
		last = r.end
	}
	b.WriteString(c.src[last:])
	return b.String()
}

func (c *compiler) parseEnd(i int) int { return c.refs[i].parseStart + len(sentinel(i)) }

// sourceOffset returns where an offset of the parsed text is in the text as written.
func (c *compiler) sourceOffset(offset int) int {
	for i, r := range slices.Backward(c.refs) {
		if offset >= c.parseEnd(i) {
			return r.end + offset - c.parseEnd(i)
		}
		if offset >= r.parseStart {
			return r.start
		}
	}
	return offset
}

// restorePlaceholders puts placeholders as written in the place of sentinels.
func (c *compiler) restorePlaceholders(text string) string {
	for i, r := range slices.Backward(c.refs) {
		text = strings.ReplaceAll(text, sentinel(i), r.written)
	}
	return text
}

// sentinelLike returns where the text holds a name that could be taken for one of ours, or -1.
func sentinelLike(s string) int {
	for from := 0; ; {
		at := strings.Index(s[from:], sentinelName)
		if at < 0 {
			return -1
		}
		from += at + len(sentinelName)
		if from < len(s) && isDigit(s[from]) {
			return from - len(sentinelName)
		}
	}
}

// sentinelIndex returns the number of the ref whose variable this is, or -1.
func (c *compiler) sentinelIndex(name string) int {
	digits, ok := strings.CutPrefix(name, sentinelName)
	if !ok {
		return -1
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n >= len(c.refs) {
		return -1
	}
	return n
}

// span is the place of a ref in a text with sentinels.
type span struct{ ref, start, end int }

// sentinelsIn finds the sentinels in a text.
func (c *compiler) sentinelsIn(text string) []span {
	var found []span
	for from := 0; ; {
		at := strings.Index(text[from:], "${"+sentinelName)
		if at < 0 {
			return found
		}
		start := from + at
		end := strings.IndexByte(text[start:], '}')
		if end < 0 {
			return found
		}
		from = start + end + 1
		if i := c.sentinelIndex(text[start+2 : from-1]); i >= 0 {
			found = append(found, span{i, start, from})
		}
	}
}

// CompileConstant returns the text for an interpreter that no value can be put into the text of: a value would be code there.
// $${name} becomes ${name}; what nobody declared stays as it is. The error is a *CompileError.
func CompileConstant(src string, n Names, interpreter string) (string, error) {
	c := newCompiler(src, Options{Names: n})
	if err := c.scan(); err != nil {
		return "", err
	}
	var b strings.Builder
	last := 0
	for _, r := range c.refs {
		b.WriteString(src[last:r.start])
		last = r.end
		switch r.kind {
		case literal:
			b.WriteString(r.written[1:])
		case unknownRef, short:
			b.WriteString(r.written)
		default:
			c.report(Error, r.start, finding{codeShellName, fmt.Sprintf(
				"%s cannot be put into code for %s: pass it by the step's env and read the variable there, or write $%s for this very text", r.written, interpreter, r.written)})
		}
	}
	b.WriteString(src[last:])
	return b.String(), c.failure()
}

// IsShell reports whether name is a shell whose texts can hold placeholders.
func IsShell(name string) bool {
	_, ok := shell.Dialects(name)
	return ok && name != ""
}
