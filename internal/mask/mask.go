// Package mask takes secrets out of what is written or printed.
//
// A secret is found as it is, as part of a JSON text, in the quoting of a shell or of a URL, in base64 (alone, and as part of something
// longer, but for the one or two bytes at its ends that share a character with what is around them), and each of its lines by itself.
package mask

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Mark is what stands for a secret.
const Mark = "***"

// The least lengths, in bytes, from which something is looked for anywhere.
const (
	leastSecret = 4 // what is shorter counts only as a whole word, or half of all texts would be masked
	leastLine   = 5 // of a secret of several lines
	leastBase64 = 6 // of the middle of a secret in base64
)

// form is one way in which a secret can appear.
type form struct {
	text string
	word bool // it counts only where no letter, digit or underscore stands beside it
}

// Masker knows secrets. It does not change, and the nil Masker knows none.
type Masker struct {
	forms   [256][]form // by their first byte, the longest first
	longest int
}

// New returns a Masker of these secrets; empty ones do not count.
func New(secrets []string) *Masker {
	if !slices.ContainsFunc(secrets, func(s string) bool { return s != "" }) {
		return nil
	}
	seen := map[string]bool{}
	m := new(Masker)
	for _, secret := range secrets {
		for _, f := range formsOf(secret) {
			if f.text == "" || seen[f.text] {
				continue
			}
			seen[f.text] = true
			m.forms[f.text[0]] = append(m.forms[f.text[0]], f)
			m.longest = max(m.longest, len(f.text))
		}
	}
	for _, forms := range m.forms {
		slices.SortFunc(forms, func(a, b form) int { return cmp.Compare(len(b.text), len(a.text)) })
	}
	return m
}

// Short tells whether a secret is so short that it is only found as a whole word.
func Short(secret string) bool { return len(secret) < leastSecret }

func formsOf(secret string) []form {
	if Short(secret) {
		return []form{{text: secret, word: true}}
	}
	all := append(written(secret), encoded(secret)...)
	if strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= leastLine {
				all = append(all, written(line)...)
			}
		}
	}
	forms := make([]form, len(all))
	for i, text := range all {
		forms[i] = form{text: text}
	}
	return forms
}

// written returns a text and the ways in which JSON, shells and URLs write it.
func written(s string) []string {
	return []string{
		s, inJSON(s, true), inJSON(s, false), strings.ReplaceAll(s, "'", `'\''`), strings.ReplaceAll(s, "'", `'"'"'`),
		url.QueryEscape(s), url.PathEscape(s),
	}
}

func inJSON(s string, escapeHTML bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(escapeHTML)
	if err := enc.Encode(s); err != nil {
		panic("BUG: a string has no JSON: " + err.Error())
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// encoded returns what base64 makes of a secret: alone, as echo prints it, and the characters that only depend on the secret when
// it is a part of something longer.
func encoded(secret string) []string {
	var all []string
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		all = append(all, e.EncodeToString([]byte(secret)), e.EncodeToString([]byte(secret+"\n")))
		for before := range 3 {
			inner := secret[(3-before)%3:]
			inner = inner[:len(inner)-len(inner)%3]
			if middle := e.EncodeToString([]byte(inner)); len(middle) >= leastBase64 {
				all = append(all, middle)
			}
		}
	}
	return all
}

// Text returns s with its secrets masked.
func (m *Masker) Text(s string) string {
	if m == nil || s == "" {
		return s
	}
	var c cutter
	c.take(m, []byte(s), true)
	return string(c.out)
}

// Holds tells whether there is a secret in s.
func (m *Masker) Holds(s string) bool { return m.Text(s) != s }

// at tells how long the longest secret is that b begins with, where the byte before stands in front of it. It is undecided when more
// bytes could make one, or a longer one, and there may be more.
func (m *Masker) at(before byte, b []byte, more bool) (length int, undecided bool) {
	for _, f := range m.forms[b[0]] {
		if len(b) < len(f.text) {
			if more && strings.HasPrefix(f.text, string(b)) {
				return 0, true
			}
			continue
		}
		if string(b[:len(f.text)]) != f.text {
			continue
		}
		if !f.word {
			return len(f.text), false
		}
		if len(b) == len(f.text) && more {
			return 0, true
		}
		if !isWord(before) && (len(b) == len(f.text) || !isWord(b[len(f.text)])) {
			return len(f.text), false
		}
	}
	return 0, false
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
