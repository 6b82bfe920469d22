// Package shell knows shell text: how it is parsed and quoted (Parse, Quote), which words of a command are code for
// another shell (PlanCall), which programs decide how a script ends (Deciders), which values a script runs
// (CheckValues), and how a command of xargs or parallel is written as a script (Shorthand). Package shell/template puts
// values into such text.
package shell

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
)

// Dialects returns the languages to try for a shell. A superset is the safe side: it finds more places of arithmetic.
func Dialects(shell string) ([]syntax.LangVariant, bool) {
	switch shell {
	case "", "sh", "dash", "ash":
		return []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX}, true
	case "bash":
		return []syntax.LangVariant{syntax.LangBash}, true
	case "zsh":
		return []syntax.LangVariant{syntax.LangZsh, syntax.LangBash}, true
	case "ksh", "mksh":
		return []syntax.LangVariant{syntax.LangMirBSDKorn, syntax.LangBash}, true
	}
	return nil, false
}

// Parse parses in the first dialect that takes the text. The error is that of the first, for ErrorOffset and ErrorText.
// Comments are kept, since a placeholder may stand in one.
func Parse(text string, dialects []syntax.LangVariant) (*syntax.File, error) {
	var first error
	for _, d := range dialects {
		file, err := syntax.NewParser(syntax.Variant(d), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
		if err == nil {
			return file, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// ErrorOffset returns where in the text an error of Parse was found, in bytes.
func ErrorOffset(err error) int {
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		return int(e.Pos.Offset())
	}
	if e, ok := errors.AsType[syntax.LangError](err); ok {
		return int(e.Pos.Offset())
	}
	return 0
}

// ErrorText returns the message of an error of Parse without its line and column, which are those of the text that was
// parsed and not of the one that a user wrote.
func ErrorText(err error) string {
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		return e.Text
	}
	return regexp.MustCompile(`^\d+:\d+: `).ReplaceAllString(err.Error(), "")
}

// IsPlainExpansion reports whether p is ${name} and no more: a script that asks for a default knows that the
// name may be unset.
func IsPlainExpansion(p *syntax.ParamExp) bool {
	return !p.Short && p.Param != nil && p.Exp == nil && p.Slice == nil && p.Repl == nil && p.Index == nil &&
		!p.Length && !p.Excl
}

// HeredocText returns the body of a quoted heredoc, or nil when it is empty.
func HeredocText(r *syntax.Redirect) *syntax.Lit {
	if len(r.Hdoc.Parts) != 1 {
		return nil
	}
	body, _ := r.Hdoc.Parts[0].(*syntax.Lit)
	return body
}

// IsQuoted reports whether a heredoc's delimiter makes its body literal text.
func IsQuoted(delimiter *syntax.Word) bool {
	for _, part := range delimiter.Parts {
		if lit, ok := part.(*syntax.Lit); !ok || strings.Contains(lit.Value, `\`) {
			return true
		}
	}
	return false
}

// The characters before which a backslash goes away, by where it stands. Outside quotes that is any.
const (
	Outside   = ""
	InDouble  = "$`\"\\\n"
	InHeredoc = "$`\\\n"
)

// Unescape takes away the backslashes that a shell takes away in literal text. Special are the characters that
// lose one there.
func Unescape(lit, special string) string {
	return escapedByte().ReplaceAllStringFunc(lit, func(escape string) string {
		switch {
		case special != Outside && !strings.Contains(special, escape[1:]):
			return escape
		case escape[1] == '\n': // a backslash at the end of a line joins it with the next one
			return ""
		}
		return escape[1:]
	})
}

// escapedByte matches a backslash and what follows it.
var escapedByte = check.Regexp(`\\(?s:.)`)

// UnescapeAnsi takes away the escapes of $'…' that matter to a reader of code. Others stay: they can only make
// a word longer.
func UnescapeAnsi(s string) string {
	return strings.NewReplacer(
		`\\`, `\`, `\'`, `'`, `\"`, `"`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\x27`, `'`, `\047`, `'`, `\x22`, `"`,
	).Replace(s)
}

// HasDefault reports whether the expansion says itself what to do without a value, as ${x:-y}, ${x:=y}, ${x:?y} and
// ${x:+y} do.
func HasDefault(p *syntax.ParamExp) bool {
	return p.Exp != nil && slices.Contains([]syntax.ParExpOperator{
		syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull,
	}, p.Exp.Op)
}

// IsName reports whether s can be the name of a variable: letters, digits and underscores, and no digit first.
func IsName(s string) bool { return s != "" && NameLen(s) == len(s) }

// NameLen returns the length in bytes of the longest name of a variable that s begins with.
func NameLen(s string) int {
	n := 0
	for n < len(s) && IsNameByte(s[n]) && (n > 0 || s[0] < '0' || s[0] > '9') {
		n++
	}
	return n
}

// IsNameByte reports whether c can stand in a name behind its first byte.
func IsNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Quote returns s as one word of shell code: as it is when no shell would act on a character in it, else in
// single quotes. A NUL byte, which no shell accepts, stays.
func Quote(s string) string {
	if s != "" && IsPlain(s, "-./,:@%+") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shellWords are builtins and reserved words of POSIX sh, dash, bash, ksh and zsh. A command that begins with one of
// them may run something other than the program of that name.
const shellWords = `. : [ alias autoload bg bind break builtin caller case cat cd chdir command compgen complete compopt continue coproc
	declare dirs disown do done echo elif else enable end esac eval exec exit export false fc fg fi float for foreach function functions
	getopts hash help hist history if in integer jobs kill let limit local log login logout mapfile nameref namespace newgrp nocorrect
	noglob popd print printf pushd pwd read readarray readonly rename repeat return sched select set setopt shift shopt source stop
	suspend test then time times trap true type typeset ulimit umask unalias unfunction unlimit unset unsetopt until wait whence where
	which while zmodload`

// IsProgram reports whether every shell takes the unquoted word s for the name of a program when a command
// begins with it.
func IsProgram(s string) bool {
	return s != "" && s[0] != '-' && IsPlain(s, "-./+@,") && !check.Among(shellWords, s)
}

// IsPlain reports whether s has only characters of names and those of also. What a rune beyond ASCII is depends on the
// locale: it may be a blank.
func IsPlain(s, also string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r >= 0x80 || !IsNameByte(byte(r)) && !strings.ContainsRune(also, r)
	})
}
