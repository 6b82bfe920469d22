package template

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/process"
	"prodigy/internal/shell"
)

// plainCommand returns the words and the redirections of a script that is one simple command of constant words
// and values, so that running the program itself does what a shell would do. It returns nil for anything else,
// and for all that two shells might read differently.
func (c *compiler) plainCommand(file *syntax.File) ([]argument, []redirection) {
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
	redirects, ok := c.redirections(s.Redirs)
	if !ok {
		return nil, nil
	}
	return words, redirects
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
	isValue := func(p argumentPart) bool { return p.slot >= 0 }
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
			ok = len(c.sentinelsIn(p.Value)) == 0 && (quoted || plainLit(p.Value))
			more = argument{{shell.Unescape(p.Value, special), -1}}
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

// plainLit reports whether no shell does anything with unquoted text but take away its backslashes. Braces may be
// expanded, except for {}, which find and xargs are given.
func plainLit(lit string) bool {
	if lit == "{}" {
		return true
	}
	for i := 0; i < len(lit); i++ {
		if lit[i] == '\\' && i+1 < len(lit) {
			i++
			continue
		}
		if lit[i] >= 0x80 || lit[i] < ' ' || strings.IndexByte("*?[~{}$`\\\x7f", lit[i]) >= 0 {
			return false
		}
	}
	return true
}

// quotedArgument returns the parts of what stands in single quotes, which may hold refs.
func (c *compiler) quotedArgument(text string) (a argument, ok bool) {
	last := 0
	for _, at := range c.sentinelsIn(text) {
		value, ok := c.refArgument(at.ref)
		if !ok {
			return nil, false
		}
		a = append(append(a, argumentPart{text[last:at.start], -1}), value...)
		last = at.end
	}
	return append(a, argumentPart{text[last:], -1}), true
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
		return argument{{r.written[1:], -1}}, true
	case unknownRef:
		return argument{{r.written, -1}}, true
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

// openings says what an operator redirects when no number stands before it, and how it opens the file.
var openings = map[syntax.RedirOperator]process.Redirect{
	syntax.RdrIn:  {FD: 0, Flag: os.O_RDONLY},
	syntax.RdrOut: {FD: 1, Flag: os.O_WRONLY | os.O_CREATE | os.O_TRUNC},
	syntax.AppOut: {FD: 1, Flag: os.O_WRONLY | os.O_CREATE | os.O_APPEND},
}

// redirections returns the redirections of a plain command. They are not ok when only a shell knows what they mean.
func (c *compiler) redirections(of []*syntax.Redirect) (all []redirection, ok bool) {
	for _, r := range of {
		one, ok := c.redirection(r)
		if !ok || !c.standsAlone(r) {
			return nil, false
		}
		all = append(all, one)
	}
	return all, true
}

// redirection returns one redirection: n>file, where n is 0, 1 or 2, or a copy of an open file.
func (c *compiler) redirection(r *syntax.Redirect) (redirection, bool) {
	if r.Op == syntax.DplOut {
		// 2>&1, 1>&2 or >&2.
		from := "1"
		if r.N != nil {
			from = r.N.Value
		}
		switch from + ">&" + r.Word.Lit() {
		case "2>&1":
			return redirection{process.Redirect{FD: 2, Copy: 1}, nil}, true
		case "1>&2":
			return redirection{process.Redirect{FD: 1, Copy: 2}, nil}, true
		}
		return redirection{}, false
	}
	open, ok := openings[r.Op]
	if !ok {
		return redirection{}, false
	}
	if r.N != nil {
		if len(r.N.Value) != 1 || r.N.Value[0] < '0' || r.N.Value[0] > '2' {
			return redirection{}, false
		}
		open.FD = int(r.N.Value[0] - '0')
	}
	file, ok := c.argument(r.Word.Parts, false)
	if !ok || c.isList(file) {
		return redirection{}, false
	}
	return redirection{open, file}, true
}

// standsAlone reports whether every shell sees the operator of r where the parser does: some take the end of a
// word before it for its number, as in 2>&1>file, or do not join lines within it.
func (c *compiler) standsAlone(r *syntax.Redirect) bool {
	text := cmp.Or(c.parseText, c.src)
	start := r.Pos().Offset()
	if start > 0 && (isDigit(text[start-1]) || text[start-1] == '\n') {
		return false
	}
	return !strings.Contains(text[start:r.Word.Pos().Offset()], "\\")
}

// isList reports whether a value of a may be any number of words.
func (c *compiler) isList(a argument) bool {
	return slices.ContainsFunc(a, func(p argumentPart) bool {
		return p.slot >= 0 && c.slots[p.slot].mode == separate
	})
}

// redirected returns the redirections of a plain command with the values of a binding. A file without a name is
// left to the shell.
func (t *Template) redirected(b *binding) (redirects []process.Redirect, ok bool) {
	for _, r := range t.redirects {
		if r.file != nil {
			if r.File = r.file.text(b); r.File == "" {
				return nil, false
			}
		}
		redirects = append(redirects, r.Redirect)
	}
	return redirects, true
}
