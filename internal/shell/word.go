package shell

import (
	"strings"

	"prodigy/internal/check"
)

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
	// What a rune beyond ASCII is depends on the locale: it may be a blank.
	odd := func(r rune) bool { return r >= 0x80 || !IsNameByte(byte(r)) && !strings.ContainsRune("-./,:@%+", r) }
	if s != "" && !strings.ContainsFunc(s, odd) {
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
	odd := func(r rune) bool {
		return r >= 0x80 || !IsNameByte(byte(r)) && !strings.ContainsRune("-./+@,", r)
	}
	return s != "" && s[0] != '-' && strings.IndexFunc(s, odd) < 0 && !check.Among(shellWords, s)
}
