package template

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
	"prodigy/internal/process"
	"prodigy/internal/shell"
)

// plainCommand returns the words and the redirections of a script that is one simple command of constant words and
// values, so that running the program itself does what a shell would do. It returns nil for anything else, and for all
// that two shells might read differently.
func (c *compiler) plainCommand(file *syntax.File) ([]argument, []process.Redirect) {
	if file == nil || len(file.Stmts) != 1 || len(c.exports) > 0 || oddText(c.src) {
		return nil, nil
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || s.Disown || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, nil
	}
	words := make([]argument, len(call.Args))
	for i, word := range call.Args {
		a, ok := c.argument(word.Parts, false)
		if !ok || i == 0 && !a.isProgram() {
			return nil, nil
		}
		words[i] = a
	}
	var redirects []process.Redirect
	for _, r := range s.Redirs {
		number := ""
		if r.N != nil {
			number = r.N.Value
		}
		one, ok := redirections[number+r.Op.String()+r.Word.Lit()]
		if !ok || !c.standsAlone(r) {
			return nil, nil
		}
		redirects = append(redirects, one)
	}
	return words, redirects
}

// redirections are those that open no file but /dev/null.
var redirections = map[string]process.Redirect{
	"2>&1": {FD: 2, To: 1}, ">&2": {FD: 1, To: 2}, "1>&2": {FD: 1, To: 2},
	"</dev/null": {FD: 0, To: process.Null}, "0</dev/null": {FD: 0, To: process.Null},
	">/dev/null": {FD: 1, To: process.Null}, "1>/dev/null": {FD: 1, To: process.Null},
	"2>/dev/null": {FD: 2, To: process.Null},
	">>/dev/null": {FD: 1, To: process.Null}, "1>>/dev/null": {FD: 1, To: process.Null},
	"2>>/dev/null": {FD: 2, To: process.Null},
}

// standsAlone reports whether every shell sees the operator of r where the parser does: some take the end of a
// word before it for its number, as in 2>&1>/dev/null, or do not join lines within it.
func (c *compiler) standsAlone(r *syntax.Redirect) bool {
	text := cmp.Or(c.parseText, c.src)
	start := r.Pos().Offset()
	if start > 0 && ('0' <= text[start-1] && text[start-1] <= '9' || text[start-1] == '\n') {
		return false
	}
	return !strings.Contains(text[start:r.Word.Pos().Offset()], "\\")
}

// oddText reports whether the parser may see words where a shell sees others: it drops carriage returns, and
// lets a backslash at the start of a comment join it with the next line. What shells make of bytes that are not UTF-8
// depends on the locale.
func oddText(src string) bool {
	return strings.Contains(src, "\r") || strings.Contains(src, "\\\n") && strings.Contains(src, "#") ||
		!utf8.ValidString(src)
}

// isProgram reports whether every shell takes the word for the name of a program.
func (a argument) isProgram() bool {
	isValue := func(p piece) bool { return p.slot >= 0 }
	return !slices.ContainsFunc(a, isValue) && shell.IsProgram(a.text(nil))
}

// argument returns the parts of a word, or of what is quoted in one.
func (c *compiler) argument(parts []syntax.WordPart, quoted bool) (a argument, ok bool) {
	a = argument{}
	for _, part := range parts {
		var more argument
		switch p := part.(type) {
		case *syntax.Lit:
			special := shell.Outside
			if quoted {
				special = shell.InDouble
			}
			ok = len(c.sentinelsIn(p.Value)) == 0 && (quoted || plainLit().MatchString(p.Value))
			more = argument{constant(shell.Unescape(p.Value, special))}
		case *syntax.SglQuoted:
			more, ok = c.quotedArgument(p.Value)
			ok = ok && !p.Dollar
		case *syntax.DblQuoted:
			more, ok = c.argument(p.Parts, true)
			ok = ok && !p.Dollar
		case *syntax.ParamExp:
			i := c.refOf(p)
			if ok = i >= 0; ok {
				more, ok = c.refArgument(i)
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
		a = append(a, more...)
	}
	return a, true
}

// plainLit matches unquoted text of which no shell does anything but take away its backslashes. Braces may be expanded,
// except for {}, which find and xargs are given.
var plainLit = check.Regexp(`^(?:\{\}|(?:\\[\x00-\x7f]|[^\x00-\x1f\x7f-\x{10FFFF}*?\[~{}$` + "`" + `\\])*)$`)

// quotedArgument returns the parts of what stands in single quotes, which may hold refs.
func (c *compiler) quotedArgument(text string) (a argument, ok bool) {
	last := 0
	for _, at := range c.sentinelsIn(text) {
		value, ok := c.refArgument(at.ref)
		if !ok {
			return nil, false
		}
		a = append(append(a, constant(text[last:at.start])), value...)
		last = at.end
	}
	return append(a, constant(text[last:])), true
}

// refArgument takes a ref that this shell fills in. One that another shell fills in later leaves the command to
// the shell.
func (c *compiler) refArgument(i int) (argument, bool) {
	r := c.refs[i]
	if len(r.places) != 1 || len(r.places[0].around) > 0 || r.places[0].escaped {
		return nil, false
	}
	switch r.kind {
	case literal:
		return argument{constant(r.written[1:])}, true
	case unknownRef:
		return argument{constant(r.written)}, true
	}
	if !r.filled || c.slots[r.slot].mode == pastedCode || c.slots[r.slot].number {
		return nil, false
	}
	return argument{{slot: r.slot}}, true
}

// arguments returns the words of a plain command with the values of a binding.
func (t *Template) arguments(b *binding) []string {
	argv := make([]string, 0, len(t.argv))
	for _, a := range t.argv {
		if len(a) == 1 && a[0].slot >= 0 {
			argv = append(argv, b.values[a[0].slot]...)
			continue
		}
		argv = append(argv, a.text(b))
	}
	return argv
}

// text returns a word of which no value is a list.
func (a argument) text(b *binding) string {
	var text strings.Builder
	for _, p := range a {
		if p.slot >= 0 {
			text.WriteString(b.values[p.slot][0])
			continue
		}
		text.WriteString(p.text)
	}
	return text.String()
}
