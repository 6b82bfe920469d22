package retry

import (
	"slices"
	"strings"
	"testing"
)

// Each phrase has a line that no phrase before it and no other of its row knows: what is never reached can go.
func TestEveryPhraseIsReached(t *testing.T) {
	for i, p := range phrases {
		texts := p.texts()
		for k, text := range texts {
			line := strings.ReplaceAll(strings.Trim(text, "*"), "*", " x1 ")
			if strings.HasPrefix(text, "*") {
				line = "zz " + line
			}
			if strings.HasSuffix(text, "*") {
				line += " zz"
			}
			if !says(line, text) {
				t.Errorf("nothing is %q", text)
			}
			others := slices.Delete(slices.Clone(texts), k, k+1)
			for _, other := range append(slices.Clone(phrases[:i]), phrase{texts: func() []string { return others }}) {
				if rule, ok := other.match(line); ok {
					t.Errorf("%q is never reached: %s knows it", text, rule)
				}
			}
		}
	}
}
