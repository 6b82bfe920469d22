// Package spelling finds the known word that a misspelled one was probably meant to be.
package spelling

import (
	"slices"
	"strings"
)

// tooLong is the length from which a word is no misspelling of anything: comparing it would take long.
const tooLong = 64

// minPrefix is how many letters of a word must be there for its rest to be guessed.
const minPrefix = 3

// Nearest returns the first of known that word was probably meant to be, or "". That is one that begins with word, or one that
// is at most three edits away and at most a third of its letters. Case, dashes, underscores and blanks do not count.
func Nearest[S ~string](word string, known []S) S {
	folded := Fold(word)
	if len(folded) >= minPrefix {
		if i := slices.IndexFunc(known, func(k S) bool { return strings.HasPrefix(Fold(string(k)), folded) }); i >= 0 {
			return known[i]
		}
	}
	var best S
	least := 1 + min(3, max(1, len(folded)/3))
	for _, k := range known {
		if d := Distance(folded, Fold(string(k))); d < least {
			best, least = k, d
		}
	}
	return best
}

// Fold returns s in lower case without dashes, underscores and blanks, in which the case styles of a name differ.
func Fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// Distance returns how many insertions, deletions, replacements and swaps of neighbouring bytes turn a into b. Words of more than 64
// bytes are 64 away from everything.
func Distance(a, b string) int {
	if len(a) > tooLong || len(b) > tooLong {
		return tooLong
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			next[j+1] = min(next[j]+1, row[j+1]+1, row[j]+differ(a[i], b[j]))
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
