// Package posix has the parts of the syntax of POSIX shells that several packages need: names of variables, and words in quotes.
package posix

import "strings"

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

// Quote returns s as one word of shell code: as it is when no shell would act on a character in it, else in single quotes. A NUL byte,
// which no shell accepts, stays.
func Quote(s string) string {
	if s != "" && strings.IndexFunc(s, needsQuotes) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func needsQuotes(r rune) bool {
	return r >= 0x80 || !IsNameByte(byte(r)) && !strings.ContainsRune("-./,:@%+", r)
}
