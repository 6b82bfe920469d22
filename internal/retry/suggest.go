package retry

import (
	"strings"

	"prodigy/internal/spelling"
)

// hint is the end of a message about an unknown word: ` (did you mean "x"?)` with the known word that is nearest, or when none is near
// ` (want …)` with all the forms that there are.
func hint[S ~string](word string, known []S, forms string) string {
	if near := spelling.Nearest(word, known); near != "" {
		return ` (did you mean "` + string(near) + `"?)`
	}
	return " (want " + forms + ")"
}

// listed joins words as in "a, b or c".
func listed[S ~string](words []S) string {
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
