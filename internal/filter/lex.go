package filter

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenNumber
	tokenText
	tokenSign  // an operator or a bracket
	tokenPlace // what stands in ${…}, in conditions
)

// token is a piece of an expression.
type token struct {
	kind tokenKind
	text string // of a text: what it means; of all others: as written
	at   int    // where it starts
}

// String names the token in messages.
func (t token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenText:
		return "the string " + strconv.Quote(t.text)
	}
	return strconv.Quote(t.text)
}

func (t token) isSign(s string) bool { return t.kind == tokenSign && t.text == s }

// isWord reports whether t is that word in any case.
func (t token) isWord(s string) bool { return t.kind == tokenWord && strings.EqualFold(t.text, s) }

// lexer cuts an expression into tokens. It looks one token ahead. Behind the first mistake there is only the end,
// so that what was read until then is looked at no more.
type lexer struct {
	src    string
	at     int   // where the token behind the next one starts
	places bool  // ${…} is a token
	token  token // the one that comes next

	mistake   string // the first one
	mistakeAt int
}

// signs are the operators and brackets. One that begins like another stands after it.
var signs = [...]string{"==", "!=", "<=", ">=", "&&", "||", "=", "<", ">", "!", "(", ")", "[", "]", ",", "."}

func (l *lexer) next() token {
	l.at += len(l.src[l.at:]) - len(strings.TrimLeft(l.src[l.at:], " \t\r\n"))
	rest := l.src[l.at:]
	if rest == "" {
		return l.end()
	}
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		return l.text(c)
	case isDigit(c), c == '-' && len(rest) > 1 && isDigit(rest[1]):
		return l.number()
	}
	if l.places && strings.HasPrefix(rest, "${") {
		return l.place(rest)
	}
	if n := wordLength(rest); n > 0 {
		return l.cut(tokenWord, n)
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, s) {
			return l.cut(tokenSign, len(s))
		}
	}
	l.unknown(rest)
	return l.end()
}

func (l *lexer) end() token { return token{kind: tokenEnd, at: len(l.src)} }

func (l *lexer) cut(kind tokenKind, length int) token {
	t := token{kind: kind, text: l.src[l.at : l.at+length], at: l.at}
	l.at += length
	return t
}

func (l *lexer) unknown(rest string) {
	r, _ := utf8.DecodeRuneInString(rest)
	hint := ""
	switch r {
	case '&', '|':
		hint = fmt.Sprintf(" (did you mean %q?)", strings.Repeat(string(r), 2))
	case '$', '@':
		hint = " (use item.name for a field)"
	case '~':
		hint = " (for a regular expression use: item.name matches 'regex')"
	}
	l.fail(l.at, "unexpected %q%s", r, hint)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// wordLength returns how much of s is one word: letters, digits, _ and, inside, -.
func wordLength(s string) int {
	for i, r := range s {
		inside := i > 0 && (unicode.IsDigit(r) || unicode.IsMark(r) || r == '-')
		if !unicode.IsLetter(r) && r != '_' && !inside {
			return i
		}
	}
	return len(s)
}

// numeral matches a number at the start of a text.
var numeral = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`)
})

func (l *lexer) number() token {
	rest := l.src[l.at:]
	n := len(numeral().FindString(rest))
	if wordLength(rest[n:]) > 0 || strings.HasPrefix(rest[n:], ".") {
		l.fail(l.at+n, "invalid number; quote strings")
		return l.end()
	}
	return l.cut(tokenNumber, n)
}

func (l *lexer) text(quote byte) token {
	start := l.at
	var b strings.Builder
	for i := start + 1; i < len(l.src); {
		switch c := l.src[i]; c {
		case quote:
			l.at = i + 1
			return token{kind: tokenText, text: b.String(), at: start}
		case '\\':
			i += escape(&b, l.src[i:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	l.fail(start, "unterminated string")
	return l.end()
}

// escape writes what the backslash at the start of s stands for, and returns the length of that.
func escape(b *strings.Builder, s string) int {
	if len(s) >= 2 {
		if i := strings.IndexByte(`\"'nrt`, s[1]); i >= 0 {
			b.WriteByte("\\\"'\n\r\t"[i])
			return 2
		}
	}
	if len(s) >= 6 && s[1] == 'u' {
		if n, err := strconv.ParseUint(s[2:6], 16, 16); err == nil {
			b.WriteRune(rune(n))
			return 6
		}
	}
	b.WriteByte('\\')
	return 1
}

// place reads a ${…}. Its token is what stands between the braces.
func (l *lexer) place(rest string) token {
	var quote byte
	for i := len("${"); i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case rest[i-1] == '[' && (c == '"' || c == '\''):
			quote = c
		case c == '}':
			t := token{kind: tokenPlace, text: rest[len("${"):i], at: l.at}
			l.at += i + 1
			return t
		}
	}
	l.fail(l.at, "unclosed brace")
	return l.end()
}

// PointAt returns the line of src that holds the byte at, and below it a caret under the place.
func PointAt(src string, at int) string {
	at = min(at, len(src))
	start := strings.LastIndexByte(src[:at], '\n') + 1
	line, _, _ := strings.Cut(src[start:], "\n")
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, src[start:at])
	return "  " + line + "\n  " + pad + "^"
}

func (l *lexer) fail(at int, format string, args ...any) {
	if l.mistake == "" {
		l.mistake, l.mistakeAt = fmt.Sprintf(format, args...), at
	}
	l.token = l.end()
}

func (l *lexer) advance() {
	if l.mistake == "" {
		l.token = l.next()
	}
}
