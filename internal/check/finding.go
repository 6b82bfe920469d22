// Package check has the words for what is wrong with something that a person wrote: a Finding about a key of a block,
// and the known word that is nearest to a misspelled one. It also has what all packages make texts and lists with, such
// as a number of things, the first of many names, and the entries of a map by key.
package check

import (
	"fmt"
	"slices"
)

// Finding is a problem of a block in a workflow file.
type Finding struct {
	// path of the key below the block, joined by dots, lists by index: "circuit_breaker.timeout", "retry_on.0"
	Field string

	Message string // the whole sentence, with the name of the key
}

// Want is the error of a value of the wrong kind: a mapping, or a number in a wrong form. It says what is wanted.
type Want string

func (w Want) Error() string { return "want " + string(w) }

// Sentence is the error of a text that cannot be read, with the name of the key in it.
type Sentence string

// Sentencef formats a Sentence.
func Sentencef(format string, args ...any) error { return Sentence(fmt.Sprintf(format, args...)) }

func (s Sentence) Error() string { return string(s) }

// Words returns the words of an enum as plain texts.
func Words[T ~string](words ...T) []string {
	return Each(words, func(w T) string { return string(w) })
}

// Findings collects what is wrong with a block.
type Findings []Finding

// Require adds a finding about a key, unless ok.
func (f *Findings) Require(ok bool, key, format string, args ...any) {
	if !ok {
		*f = append(*f, Finding{Field: key, Message: fmt.Sprintf(format, args...)})
	}
}

// Linter collects findings about keys that have no effect.
type Linter struct {
	Written func(key string) bool // reports whether the block has the key
	Found   []Finding
}

// Add adds a finding about the first of keys that is written. It does nothing if none is.
func (l *Linter) Add(format string, args []any, keys ...string) {
	if i := slices.IndexFunc(keys, l.Written); i >= 0 {
		l.Found = append(l.Found, Finding{Field: keys[i], Message: fmt.Sprintf(format, args...)})
	}
}
