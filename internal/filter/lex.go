package filter

import (
	"fmt"
	"strconv"
	"strings"
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
		return "the text " + strconv.Quote(t.text)
	}
	return strconv.Quote(t.text)
}

func (t token) isSign(s string) bool { return t.kind == tokenSign && t.text == s }

// isWord reports whether t is that word in any case.
func (t token) isWord(s string) bool { return t.kind == tokenWord && strings.EqualFold(t.text, s) }

// placeError is a mistake in an expression and its place.
type placeError struct {
	at      int
	message string
}

func (e *placeError) Error() string { return e.message }

func mistake(at int, format string, args ...any) error {
	return &placeError{at: at, message: fmt.Sprintf(format, args...)}
}

// lexer cuts an expression into tokens.
type lexer struct {
	src    string
	at     int
	places bool // ${…} is a token
}

// signs are the operators and brackets. One that begins like another stands after it.
var signs = [...]string{"==", "!=", "<=", ">=", "&&", "||", "=", "<", ">", "!", "(", ")", "[", "]", ",", "."}

func (l *lexer) next() (token, error) {
	l.at += len(l.src[l.at:]) - len(strings.TrimLeft(l.src[l.at:], " \t\r\n"))
	rest := l.src[l.at:]
	if rest == "" {
		return token{kind: tokenEnd, at: l.at}, nil
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
		return l.token(tokenWord, n), nil
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, s) {
			return l.token(tokenSign, len(s)), nil
		}
	}
	return token{}, l.unknown(rest)
}

func (l *lexer) token(kind tokenKind, length int) token {
	t := token{kind: kind, text: l.src[l.at : l.at+length], at: l.at}
	l.at += length
	return t
}

func (l *lexer) unknown(rest string) error {
	r, _ := utf8.DecodeRuneInString(rest)
	hint := ""
	switch r {
	case '&', '|':
		hint = fmt.Sprintf(" (did you mean %q?)", strings.Repeat(string(r), 2))
	case '$', '@':
		hint = " (a field is written item.name)"
	case '~':
		hint = " (a regular expression is written: item.name matches 'regex')"
	}
	return mistake(l.at, "%q means nothing here%s", r, hint)
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

func (l *lexer) number() (token, error) {
	rest := l.src[l.at:]
	n := digits(rest, 1) // past a sign or the first digit
	if n+1 < len(rest) && rest[n] == '.' && isDigit(rest[n+1]) {
		n = digits(rest, n+1)
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		m := n + 1
		if m < len(rest) && (rest[m] == '+' || rest[m] == '-') {
			m++
		}
		if digits(rest, m) > m {
			n = digits(rest, m)
		}
	}
	if wordLength(rest[n:]) > 0 || strings.HasPrefix(rest[n:], ".") {
		return token{}, mistake(l.at+n, "a number ends here; text needs quotes")
	}
	return l.token(tokenNumber, n), nil
}

// digits returns where the digits of s that start at i end.
func digits(s string, i int) int {
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}

func (l *lexer) text(quote byte) (token, error) {
	start := l.at
	var b strings.Builder
	for i := start + 1; i < len(l.src); {
		switch c := l.src[i]; c {
		case quote:
			l.at = i + 1
			return token{kind: tokenText, text: b.String(), at: start}, nil
		case '\\':
			i += escape(&b, l.src[i:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	return token{}, mistake(start, "the quote that starts here is not closed")
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
func (l *lexer) place(rest string) (token, error) {
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
			return t, nil
		}
	}
	return token{}, mistake(l.at, "the brace that opens here is not closed")
}
