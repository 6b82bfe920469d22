package template

import (
	"cmp"
	"os"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Redirect is a redirection of a plain command. Those of a command are applied in their order.
type Redirect struct {
	FD   int    // what is redirected: 0, 1 or 2
	File string // as the shell would open it; empty: FD becomes a copy of Copy
	Flag int    // for opening File, as for os.OpenFile
	Copy int
}

// redirection is a Redirect whose File is not known before the values are.
type redirection struct {
	Redirect
	file argument // nil: there is none
}

// opening returns what an operator redirects when no number stands before it, and how it opens the file.
func opening(op syntax.RedirOperator) (r Redirect, ok bool) {
	switch op {
	case syntax.RdrIn:
		return Redirect{FD: 0, Flag: os.O_RDONLY}, true
	case syntax.RdrOut:
		return Redirect{FD: 1, Flag: os.O_WRONLY | os.O_CREATE | os.O_TRUNC}, true
	case syntax.AppOut:
		return Redirect{FD: 1, Flag: os.O_WRONLY | os.O_CREATE | os.O_APPEND}, true
	}
	return Redirect{}, false
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

// standsAlone tells whether every shell sees the operator of r where the parser does: some take the end of a word before it for its
// number, as in 2>&1>file, or do not join lines within it.
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
		return redirection{Redirect{FD: 2, Copy: 1}, nil}, true
	case "1>&2":
		return redirection{Redirect{FD: 1, Copy: 2}, nil}, true
	}
	return redirection{}, false
}

// isList tells whether a value of a may be any number of words.
func (c *compiler) isList(a argument) bool {
	for _, p := range a {
		if p.slot >= 0 && c.slots[p.slot].mode == separate {
			return true
		}
	}
	return false
}

// redirected returns the redirections of a plain command with the values of a binding. A file without a name is left to the shell.
func (t *Template) redirected(b *binding, first []int) (redirects []Redirect, ok bool) {
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
