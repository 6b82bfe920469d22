package outputs

import (
	"strings"

	"prodigy/internal/check"
)

// Tail is the end of what was printed, for people.
type Tail struct {
	Before int        `json:"lines_before"` // lines before these
	Lines  []TailLine `json:"lines"`
}

// TailLine is one line.
type TailLine struct {
	Step   string `json:"step"` // its label
	Stderr bool   `json:"stderr,omitempty"`
	Text   string `json:"text"` // valid UTF-8 without colours, of maxTailLine bytes at most
}

// maxTailLine is how much of a line a Tail has: its end is left out.
const maxTailLine = 1 << 10

// LastLines returns the last n lines of the store in dir that match q. Blank lines do not count. What is
// damaged is passed over.
func LastLines(dir string, q Query, n int) Tail {
	var t Tail
	add := func(k StreamOf, text []byte) {
		line := check.LastWritten(check.WithoutColours(strings.ToValidUTF8(string(text), "\ufffd")))
		if line == "" {
			return
		}
		if len(t.Lines) == n {
			t.Before++
			t.Lines = append(t.Lines[:0], t.Lines[1:]...)
		}
		t.Lines = append(t.Lines, TailLine{k.Step, k.Stream == Stderr, line})
	}
	lines := Lines{Line: add, Join: cutLine}
	for e, err := range Read(dir, q) {
		if err != nil {
			continue
		}
		if e.Missing > 0 {
			add(StreamOf{e.Source, Stderr}, []byte(check.Some("… %d bytes left out …", e.Missing)))
		}
		lines.Add(e)
	}
	lines.Close() // of a run that died
	return t
}

// cutLine returns the line that begins with before and goes on with more, as far as a Tail has it.
func cutLine(before, more []byte) []byte {
	room := maxTailLine - len(before)
	if len(more) > room {
		more = more[:max(0, check.WholeEnd(more[:room]))]
	}
	return append(before, more...)
}
