package outputs

import (
	"bytes"
	"strconv"
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
	type key struct {
		Source
		Stream
	}
	open := map[key][]byte{} // lines whose end has not come
	add := func(k key, text []byte) {
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
	for e, err := range Read(dir, q) {
		if err != nil {
			continue
		}
		if e.Missing > 0 {
			add(key{e.Source, Stderr}, []byte("… "+strconv.FormatInt(e.Missing, 10)+" bytes left out …"))
		}
		for _, p := range e.Printed {
			k := key{e.Source, p.Stream}
			for line := range bytes.Lines(p.Text) {
				text, whole := bytes.CutSuffix(line, []byte("\n"))
				if open[k] = cutLine(open[k], text); whole {
					add(k, open[k])
					delete(open, k)
				}
			}
		}
		if e.End != nil {
			for _, s := range []Stream{Stdout, Stderr} {
				k := key{e.Source, s}
				add(k, open[k])
				delete(open, k)
			}
		}
	}
	for k, text := range open { // of a run that died
		add(k, text)
	}
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
