package template

import (
	"cmp"
	"os"
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
		a, ok := c.argument(word.Parts)
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
// lets a backslash at the start of a comment join it with the next line.
func oddText(src string) bool {
	return strings.Contains(src, "\r") || strings.Contains(src, "\\\n") && strings.Contains(src, "#") ||
		!utf8.ValidString(src)
}

// isProgram reports whether every shell takes the word for the name of a program.
func (a argument) isProgram() bool {
	var name strings.Builder
	for _, p := range a {
		if p.slot >= 0 {
			return false
		}
		name.WriteString(p.text)
	}
	return shell.IsProgram(name.String())
}

func (c *compiler) argument(parts []syntax.WordPart) (argument, bool) {
	var a argument
	for _, part := range parts {
		ok := false
		switch p := part.(type) {
		case *syntax.Lit:
			ok = c.plainLit(p.Value)
			a = append(a, argumentPart{shell.Unescape(p.Value, shell.Outside), -1})
		case *syntax.SglQuoted:
			ok = !p.Dollar
			if ok {
				a, ok = c.quotedArgument(a, p.Value)
			}
		case *syntax.DblQuoted:
			ok = !p.Dollar
			if ok {
				a, ok = c.doubleQuoted(a, p.Parts)
			}
		case *syntax.ParamExp:
			a, ok = c.valueArgument(a, p)
		}
		if !ok {
			return nil, false
		}
	}
	return a, true
}

// plainLit reports whether no shell does anything with unquoted text but take away its backslashes.
func (c *compiler) plainLit(lit string) bool {
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
	return len(c.sentinelsIn(lit)) == 0
}

func (c *compiler) quotedArgument(a argument, text string) (argument, bool) {
	last := 0
	for _, at := range c.sentinelsIn(text) {
		a = append(a, argumentPart{text[last:at.start], -1})
		var ok bool
		if a, ok = c.refArgument(a, at.ref); !ok {
			return nil, false
		}
		last = at.end
	}
	return append(a, argumentPart{text[last:], -1}), true
}

func (c *compiler) doubleQuoted(a argument, parts []syntax.WordPart) (argument, bool) {
	a = append(a, argumentPart{"", -1})
	for _, part := range parts {
		ok := false
		switch p := part.(type) {
		case *syntax.Lit:
			ok = len(c.sentinelsIn(p.Value)) == 0
			a = append(a, argumentPart{shell.Unescape(p.Value, shell.InDouble), -1})
		case *syntax.ParamExp:
			a, ok = c.valueArgument(a, p)
		}
		if !ok {
			return nil, false
		}
	}
	return a, true
}

func (c *compiler) valueArgument(a argument, p *syntax.ParamExp) (argument, bool) {
	if p.Param == nil {
		return nil, false
	}
	i := c.sentinelIndex(p.Param.Value)
	if i < 0 {
		return nil, false
	}
	return c.refArgument(a, i)
}

// refArgument takes a ref that this shell fills in. One that another shell fills in later leaves the command to
// the shell.
func (c *compiler) refArgument(a argument, i int) (argument, bool) {
	r := c.refs[i]
	if len(r.places) != 1 || len(r.places[0].around) > 0 || r.places[0].escaped {
		return nil, false
	}
	switch r.kind {
	case literal:
		return append(a, argumentPart{r.written[1:], -1}), true
	case unknownRef:
		return append(a, argumentPart{r.written, -1}), true
	}
	if !r.filled || c.slots[r.slot].mode == pastedCode || c.slots[r.slot].number {
		return nil, false
	}
	return append(a, argumentPart{slot: r.slot}), true
}

// firstVars returns for each slot where the variables of a binding begin that hold its value.
func (t *Template) firstVars(b *binding) []int {
	first := make([]int, len(t.slots))
	next := 0
	for i := range t.slots {
		first[i] = next
		switch t.slots[i].mode {
		case separate:
			next += len(b.lists[i])
		case pastedCode:
		default:
			next++
		}
	}
	return first
}

// arguments returns the words of a plain command with the values of a binding.
func (t *Template) arguments(b *binding, first []int) []string {
	argv := make([]string, 0, len(t.argv))
	for _, a := range t.argv {
		if len(a) == 1 && a[0].slot >= 0 && t.slots[a[0].slot].mode == separate {
			argv = append(argv, b.lists[a[0].slot]...)
			continue
		}
		argv = append(argv, a.text(b, first))
	}
	return argv
}

func (a argument) text(b *binding, first []int) string {
	if len(a) == 1 && a[0].slot < 0 {
		return a[0].text
	}
	var text strings.Builder
	for _, p := range a {
		if p.slot >= 0 {
			text.WriteString(b.vars[first[p.slot]].value)
			continue
		}
		text.WriteString(p.text)
	}
	return text.String()
}

// opening returns what an operator redirects when no number stands before it, and how it opens the file.
func opening(op syntax.RedirOperator) (r process.Redirect, ok bool) {
	switch op {
	case syntax.RdrIn:
		return process.Redirect{FD: 0, Flag: os.O_RDONLY}, true
	case syntax.RdrOut:
		return process.Redirect{FD: 1, Flag: os.O_WRONLY | os.O_CREATE | os.O_TRUNC}, true
	case syntax.AppOut:
		return process.Redirect{FD: 1, Flag: os.O_WRONLY | os.O_CREATE | os.O_APPEND}, true
	}
	return process.Redirect{}, false
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

func (c *compiler) redirection(r *syntax.Redirect) (redirection, bool) {
	if r.Op == syntax.DplOut {
		return copying(r)
	}
	open, ok := opening(r.Op)
	if !ok {
		return redirection{}, false
	}
	if r.N != nil {
		if len(r.N.Value) != 1 || r.N.Value[0] < '0' || r.N.Value[0] > '2' {
			return redirection{}, false
		}
		open.FD = int(r.N.Value[0] - '0')
	}
	file, ok := c.argument(r.Word.Parts)
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

// copying returns what 2>&1, 1>&2 and >&2 mean.
func copying(r *syntax.Redirect) (redirection, bool) {
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

// isList reports whether a value of a may be any number of words.
func (c *compiler) isList(a argument) bool {
	for _, p := range a {
		if p.slot >= 0 && c.slots[p.slot].mode == separate {
			return true
		}
	}
	return false
}

// redirected returns the redirections of a plain command with the values of a binding. A file without a name is
// left to the shell.
func (t *Template) redirected(b *binding, first []int) (redirects []process.Redirect, ok bool) {
	for _, r := range t.redirects {
		if r.file != nil {
			if r.File = r.file.text(b, first); r.File == "" {
				return nil, false
			}
		}
		redirects = append(redirects, r.Redirect)
	}
	return redirects, true
}
