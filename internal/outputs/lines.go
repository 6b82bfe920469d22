package outputs

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// StreamOf is a stream of a command.
type StreamOf struct {
	Source
	Stream
}

// Lines puts together the lines that commands print.
type Lines struct {
	// Line takes each line, without its line feed.
	Line func(of StreamOf, text []byte)

	// Join returns a line that begins with before and goes on with more.
	Join func(before, more []byte) []byte

	open map[StreamOf][]byte // lines whose end has not come
}

// Add adds an entry.
func (l *Lines) Add(e Entry) {
	if l.open == nil {
		l.open = map[StreamOf][]byte{}
	}
	for _, p := range e.Printed {
		k := StreamOf{e.Source, p.Stream}
		for line := range bytes.Lines(p.Text) {
			text, whole := bytes.CutSuffix(line, []byte("\n"))
			if l.open[k] = l.Join(l.open[k], text); whole {
				l.end(k)
			}
		}
	}
	if e.End != nil {
		l.Flush(e.Source)
	}
}

// end ends a line.
func (l *Lines) end(k StreamOf) {
	l.Line(k, l.open[k])
	delete(l.open, k)
}

// Flush ends the incomplete lines of a command.
func (l *Lines) Flush(s Source) {
	for _, stream := range []Stream{Stdout, Stderr} {
		if k := (StreamOf{s, stream}); len(l.open[k]) > 0 {
			l.end(k)
		}
	}
}

// Close ends the lines of commands that have no end.
func (l *Lines) Close() {
	left := slices.SortedFunc(maps.Keys(l.open), func(a, b StreamOf) int {
		return cmp.Or(cmp.Compare(a.ItemID, b.ItemID), cmp.Compare(a.Command, b.Command),
			cmp.Compare(b.Stream, a.Stream))
	})
	for _, k := range left {
		l.end(k)
	}
}
