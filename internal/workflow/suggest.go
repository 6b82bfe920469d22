package workflow

import (
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/spelling"
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
		if d := spelling.Distance(folded, fold(word)); d < least {
			best, least = word, d
		}
	}
	return best
}

// fold makes spellings alike that differ in case, dashes and underscores only.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
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
