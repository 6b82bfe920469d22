package template

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Names that a shell takes for itself, be it in one shell only: builtins and reserved words of POSIX sh, dash, bash, ksh and zsh.
const shellWords = `. : [ alias autoload bg bind break builtin caller case cat cd chdir command compgen complete compopt continue coproc
	declare dirs disown do done echo elif else enable end esac eval exec exit export false fc fg fi float for foreach function functions
	getopts hash help hist history if in integer jobs kill let limit local log login logout mapfile nameref namespace newgrp nocorrect
	noglob popd print printf pushd pwd read readarray readonly rename repeat return sched select set setopt shift shopt source stop
	suspend test then time times trap true type typeset ulimit umask unalias unfunction unlimit unset unsetopt until wait whence where
	which while zmodload`

// argument is a word of a plain command: its parts are joined, but a list that stands alone is an argument for each element.
type argument []argumentPart

// argumentPart is constant text when slot is negative.
type argumentPart struct {
	text string
	slot int
}

// plainCommand returns the words and the redirections of a script that is one simple command of constant words and values, so that
// running the program itself does what a shell would do. It returns nil for anything else, and for all that two shells might read
// differently.
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

// oddText tells whether the parser may see words where a shell sees others: it drops carriage returns, and lets a backslash at
// the start of a comment join it with the next line.
func oddText(src string) bool {
	return strings.Contains(src, "\r") || strings.Contains(src, "\\\n") && strings.Contains(src, "#") || !utf8.ValidString(src)
}

// isProgram tells whether every shell takes the word for the name of a program.
func (a argument) isProgram() bool {
	var name strings.Builder
	for _, p := range a {
		if p.slot >= 0 {
			return false
		}
		name.WriteString(p.text)
	}
	s := name.String()
	odd := func(r rune) bool { return r >= 0x80 || !isNameByte(byte(r)) && !strings.ContainsRune("-./+@,", r) }
	return s != "" && s[0] != '-' && strings.IndexFunc(s, odd) < 0 && !slices.Contains(strings.Fields(shellWords), s)
}

func (c *compiler) argument(parts []syntax.WordPart) (argument, bool) {
	var a argument
	for _, part := range parts {
		ok := false
		switch p := part.(type) {
		case *syntax.Lit:
			ok = c.plainLit(p.Value)
			a = append(a, argumentPart{unescape(p.Value, bare), -1})
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

// plainLit tells whether no shell does anything with unquoted text but take away its backslashes.
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
			a = append(a, argumentPart{unescape(p.Value, double), -1})
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

// refArgument takes a ref that this shell fills in. One that another shell fills in later leaves the command to the shell.
func (c *compiler) refArgument(a argument, i int) (argument, bool) {
	r := c.refs[i]
	if len(r.places) != 1 || len(r.places[0].around) > 0 || r.places[0].escaped {
		return nil, false
	}
	switch r.kind {
	case literal:
		return append(a, argumentPart{r.written[1:], -1}), true
	case foreign:
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
