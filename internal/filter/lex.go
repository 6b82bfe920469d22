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

// signs are the operators and brackets. One that begins like another stands after it.
var signs = [...]string{"==", "!=", "<=", ">=", "&&", "||", "=", "<", ">", "!", "(", ")", "[", "]", ",", "."}

func (p *parser) next() token {
	p.at += len(p.src[p.at:]) - len(strings.TrimLeft(p.src[p.at:], " \t\r\n"))
	rest := p.src[p.at:]
	if rest == "" {
		return p.end()
	}
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		return p.text(c)
	case isDigit(c), c == '-' && len(rest) > 1 && isDigit(rest[1]):
		return p.number()
	}
	if p.places && strings.HasPrefix(rest, "${") {
		return p.place(rest)
	}
	if n := wordLength(rest); n > 0 {
		return p.cut(tokenWord, n)
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, s) {
			return p.cut(tokenSign, len(s))
		}
	}
	p.unknown(rest)
	return p.end()
}

func (p *parser) end() token { return token{kind: tokenEnd, at: len(p.src)} }

func (p *parser) cut(kind tokenKind, length int) token {
	t := token{kind: kind, text: p.src[p.at : p.at+length], at: p.at}
	p.at += length
	return t
}

func (p *parser) unknown(rest string) {
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
	p.fail(p.at, "%q means nothing here%s", r, hint)
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

func (p *parser) number() token {
	rest := p.src[p.at:]
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
		p.fail(p.at+n, "a number ends here; text needs quotes")
		return p.end()
	}
	return p.cut(tokenNumber, n)
}

// digits returns where the digits of s that start at i end.
func digits(s string, i int) int {
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}

func (p *parser) text(quote byte) token {
	start := p.at
	var b strings.Builder
	for i := start + 1; i < len(p.src); {
		switch c := p.src[i]; c {
		case quote:
			p.at = i + 1
			return token{kind: tokenText, text: b.String(), at: start}
		case '\\':
			i += escape(&b, p.src[i:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	p.fail(start, "the quote that starts here is not closed")
	return p.end()
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
func (p *parser) place(rest string) token {
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
			t := token{kind: tokenPlace, text: rest[len("${"):i], at: p.at}
			p.at += i + 1
			return t
		}
	}
	p.fail(p.at, "the brace that opens here is not closed")
	return p.end()
}
