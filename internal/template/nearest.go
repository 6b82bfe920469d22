package template

import (
	"strings"

	"prodigy/internal/spelling"
)

// nearest returns the known name that was probably meant, or nothing when none is near.
func nearest(name string, known []string) string {
	best, least := "", min(3, len(name)/2+1)
	for _, k := range known {
		if d := spelling.Distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}
