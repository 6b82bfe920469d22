package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"prodigy/internal/check"
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

// tokenForms match the tokens at the start of a text: a number, a text, what stands in ${…}, a word and a sign.
var tokenForms = check.Regexp(`^(?:(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)` +
	`|("(?s:\\.|[^"\\])*"|'(?s:\\.|[^'\\])*')` +
	`|\$\{((?s:\\.|\["(?:\\.|[^"\\])*"|\['(?:\\.|[^'\\])*'|[^}\\])*)\}` +
	`|([\pL_][\pL\p{Nd}\pM_-]*)` +
	`|(==|!=|<=|>=|&&|\|\||[=<>!()\[\],.]))`)

// tokenKinds are the kinds of the groups of tokenForms.
var tokenKinds = []tokenKind{tokenNumber, tokenText, tokenPlace, tokenWord, tokenSign}

func (l *lexer) next() token {
	l.at += len(l.src[l.at:]) - len(strings.TrimLeft(l.src[l.at:], " \t\r\n"))
	rest := l.src[l.at:]
	if rest == "" {
		return l.end()
	}
	t := token{at: l.at}
	found := tokenForms().FindStringSubmatchIndex(rest)
	for i, kind := range tokenKinds {
		if found != nil && found[2*i+2] >= 0 {
			t.kind, t.text = kind, rest[found[2*i+2]:found[2*i+3]]
		}
	}
	switch t.kind {
	case tokenEnd:
		l.unknown(rest)
		return l.end()
	case tokenPlace:
		if !l.places {
			l.unknown(rest)
			return l.end()
		}
	case tokenText:
		t.text = unescaped(t.text[1 : len(t.text)-1])
	case tokenNumber:
		if after := rest[found[1]:]; after != "" && (after[0] == '.' || wordBegins(after)) {
			l.fail(l.at+found[1], "invalid number; quote strings")
			return l.end()
		}
	}
	l.at += found[1]
	return t
}

func (l *lexer) end() token { return token{kind: tokenEnd, at: len(l.src)} }

// unknown reports a text that begins with no token.
func (l *lexer) unknown(rest string) {
	r, _ := utf8.DecodeRuneInString(rest)
	hint := ""
	switch {
	case r == '"' || r == '\'':
		l.fail(l.at, "unterminated string")
	case l.places && strings.HasPrefix(rest, "${"):
		l.fail(l.at, "unclosed brace")
	case r == '$' || r == '@':
		hint = " (use item.name for a field)"
	}
	l.fail(l.at, "unexpected %q%s", r, hint)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// wordBegins reports whether s begins with a letter or an underscore.
func wordBegins(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || unicode.IsLetter(r)
}

// escapes finds the escapes of a text. Any other backslash stands for itself.
var escapes = check.Regexp(`\\(?:[\\"'nrt]|u[0-9a-fA-F]{4})`)

// unescaped returns what stands between the quotes of a text.
func unescaped(s string) string {
	return escapes().ReplaceAllStringFunc(s, func(escape string) string {
		if escape[1] == 'u' {
			n, _ := strconv.ParseUint(escape[2:], 16, 16)
			return string(rune(n))
		}
		return string("\\\"'\n\r\t"[strings.IndexByte(`\"'nrt`, escape[1])])
	})
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
