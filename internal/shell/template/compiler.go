package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// compiler turns one text into a Template.
type compiler struct {
	*scanner

	// shell is the name of the interpreter, and dialects are the languages to parse it in. They are nil if it is not a
	// shell that can be parsed.
	shell    string
	dialects []syntax.LangVariant

	// parseText is src with each ref replaced by a sentinel, and file its tree. They are empty until analyze, and stay
	// so in a text without names of prodigy. file is also nil if parseText is not valid shell.
	parseText string
	file      *syntax.File

	// sets are the variables that the script sets. Their names are the shell's.
	sets map[string]bool

	// constants are the texts of the variables that have one. See shell.Constants.
	constants map[string]string

	// arithmeticVars are the variables whose values the script evaluates as numbers, by variableKey.
	arithmeticVars map[string]bool

	// heredocs are those with quoted delimiters that hold refs, except for those in nested code.
	heredocs []quotedDoc

	// exports are the declared names that the script uses as $name.
	exports map[string]*slot

	// rootUses are the roots of which the script uses an operator of the shell, as in ${map%.txt}.
	rootUses map[string]bool

	diags []Diag

	// slots are those of the Template. slotIndex finds the one for the same value in the same form.
	slots     []slot
	slotIndex map[string]int

	// used are the roots of the refs that are filled in.
	used map[string]bool
}

func newCompiler(src string, o Options) *compiler {
	dialects, _ := shell.Dialects(o.Shell)
	return &compiler{
		scanner: &scanner{src: src, names: o.Names}, shell: o.Shell, dialects: dialects,
		sets: map[string]bool{}, arithmeticVars: map[string]bool{}, exports: map[string]*slot{},
		rootUses:  map[string]bool{},
		slotIndex: map[string]int{}, used: map[string]bool{},
	}
}

// report adds a finding at an offset of src, once. An offset that is out of range, as that of an error at the end of
// the text may be, is moved to the nearest end.
func (c *compiler) report(severity Severity, offset int, f finding) {
	offset = min(max(offset, 0), len(c.src))
	before := c.src[:offset]
	d := Diag{
		Code: f.code, Severity: severity, Offset: offset, Text: f.text,
		Line: 1 + strings.Count(before, "\n"), Col: offset - strings.LastIndexByte(before, '\n'),
	}
	if !slices.Contains(c.diags, d) {
		c.diags = append(c.diags, d)
	}
}

// fail reports an error.
func (c *compiler) fail(offset int, code, format string, args ...any) {
	c.report(Error, offset, finding{code, fmt.Sprintf(format, args...)})
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

// firstOffset returns where the first ref stands, for findings about the whole text.
func (c *compiler) firstOffset() int {
	if len(c.refs) > 0 {
		return c.refs[0].start
	}
	return 0
}

// sentinelName begins two kinds of names. In parseText the number after it is that of a ref, and in a finished script
// that of a slot, which several refs may share.
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

// parseEnd returns where the sentinel of ref i ends in parseText.
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

// restorePlaceholders puts placeholders as written in the place of sentinels, for messages.
func (c *compiler) restorePlaceholders(text string) string {
	for i, r := range c.refs {
		text = strings.ReplaceAll(text, sentinel(i), r.written)
	}
	return text
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

// sentinelForm matches a sentinel, with the name of its variable, and reservedForm a name that could be taken for one.
var (
	sentinelForm = check.Regexp(`\$\{(` + sentinelName + `\d+)\}`)
	reservedForm = check.Regexp(sentinelName + `\d`)
)

// sentinelsIn finds the sentinels in a text.
func (c *compiler) sentinelsIn(text string) []span {
	if !strings.Contains(text, sentinelName) {
		return nil
	}
	var found []span
	for _, m := range sentinelForm().FindAllStringSubmatchIndex(text, -1) {
		if i := c.sentinelIndex(text[m[2]:m[3]]); i >= 0 {
			found = append(found, span{i, m[0], m[1]})
		}
	}
	return found
}

// scan finds the refs. A text that holds what no shell can take is refused here.
func (c *compiler) scan() error {
	if at := strings.IndexByte(c.src, 0); at >= 0 {
		c.fail(at, codeNUL, "the script contains a NUL byte")
		return c.failure()
	}
	c.run()
	return nil
}

// refOf returns the index of the ref that an expansion stands for, or -1.
func (c *compiler) refOf(p *syntax.ParamExp) int {
	if p.Param == nil {
		return -1
	}
	return c.sentinelIndex(p.Param.Value)
}

// inRewritten reports whether a ref stands in a quoted heredoc that becomes an unquoted one.
func (c *compiler) inRewritten(r *ref) bool {
	return slices.ContainsFunc(c.heredocs, func(d quotedDoc) bool {
		return d.rewritten && d.body[0] <= r.parseStart && r.parseStart < d.body[1]
	})
}
