package check

import (
	"slices"
	"strings"
)

// tooLong is the length above which words are not compared, because it would take long.
const tooLong = 64

// minPrefix is how long a word must be to match as a prefix.
const minPrefix = 3

// Among reports whether a word is one of words, which are separated by blanks.
func Among(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}

// Nearest returns the known word that is closest to word, or "" if none is close: the first that starts with
// word, else the one with the fewest edits, at most three and at most a third of the letters. It ignores
// case, dashes, underscores and blanks.
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

// Hint returns the end of a message about an unknown word: the nearest known word, as in ` (did you mean
// "x"?)`, or else the allowed forms, as in " (want a, b or c)".
func Hint[S ~string](word string, known []S, forms string) string {
	if near := Nearest(word, known); near != "" {
		return ` (did you mean "` + string(near) + `"?)`
	}
	return " (want " + forms + ")"
}

// OneOf joins words as in "a, b or c".
func OneOf[S ~string](words []S) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// Fold returns s in lower case without dashes, underscores and blanks, so that all case styles of a name are equal.
func Fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// Distance returns how many insertions, deletions, replacements and swaps of neighbouring bytes turn a into
// b. Words of more than 64 bytes are 64 away from everything.
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
