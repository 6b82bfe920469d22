package workflow

import (
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/spelling"
)

// hint is the end of a message about an unknown word: what was probably meant, or else what there is.
func hint(wrong string, words []string) string {
	if word := spelling.Nearest(wrong, words); word != "" {
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
