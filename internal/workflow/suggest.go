package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// nearest returns the word that was probably meant by one that is none of them, or "".
func nearest(wrong string, words []string) string {
	const tellingPrefix, farthest = 3, 3
	folded := fold(wrong)
	best, least := "", 1+min(farthest, max(1, len(folded)/3))
	if len(folded) >= tellingPrefix {
		i := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(fold(word), folded) })
		if i >= 0 {
			return words[i]
		}
	}
	for _, word := range words {
		if d := distance(folded, fold(word)); d < least {
			best, least = word, d
		}
	}
	return best
}

// fold makes spellings alike that differ in case, dashes and underscores only.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance returns how many insertions, deletions, replacements and swaps of neighbours turn a into b.
func distance(a, b string) int {
	const tooLong = 64
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

// hint is the end of a message about an unknown word: what was probably meant, or else what there is.
func hint(wrong string, words []string) string {
	if word := nearest(wrong, words); word != "" {
		return fmt.Sprintf(" (did you mean %q?)", word)
	}
	return fmt.Sprintf(" (want %s)", oneOf(words))
}

// oneOf joins words as in "a, b or c".
func oneOf(words []string) string {
	words = slices.Clone(words)
	if n := len(words); n > 1 {
		words = append(words[:n-2], words[n-2]+" or "+words[n-1])
	}
	return strings.Join(words, ", ")
}
