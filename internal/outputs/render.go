package outputs

import "iter"

// Renderer turns what a command prints into what people see of it.
type Renderer interface {
	Write(p []byte) []byte
	Gap()          // what was printed next is not known
	Close() []byte // the rest
}

// Render returns what the stdout of a command is shown through, or nil if it is shown as it is. first says that its
// beginning is kept.
type Render func(s Source, first bool) Renderer

// rendered yields entries in which the stdout of commands is as their Renderer shows it.
func rendered(entries iter.Seq2[Entry, error], render Render) iter.Seq2[Entry, error] {
	if render == nil {
		return entries
	}
	return func(yield func(Entry, error) bool) {
		open := map[Source]Renderer{}
		for e, err := range entries {
			if err == nil && e.Limit == "" && e.Agent != "" {
				e = renderedEntry(e, open, render)
			}
			if !yield(e, err) {
				return
			}
		}
		for s, r := range open { // of commands without an end
			if r == nil {
				continue
			}
			if rest := r.Close(); len(rest) > 0 &&
				!yield(Entry{Source: s, Printed: []Part{{Stream: Stdout, Text: rest}}}, nil) {
				return
			}
		}
	}
}

// Rendering returns a function that makes of each entry of a command what people see of it. It is for one goroutine
// at a time.
func Rendering(render Render) func(Entry) Entry {
	open := map[Source]Renderer{}
	return func(e Entry) Entry { return renderedEntry(e, open, render) }
}

func renderedEntry(e Entry, open map[Source]Renderer, render Render) Entry {
	r, known := open[e.Source]
	if !known || e.First {
		r = render(e.Source, e.First)
		open[e.Source] = r
	}
	if r == nil {
		return e
	}
	if e.Missing > 0 {
		r.Gap()
	}
	parts := make([]Part, 0, len(e.Printed)+1)
	for _, p := range e.Printed {
		if p.Stream == Stdout {
			p.Text = r.Write(p.Text)
		}
		if len(p.Text) > 0 {
			parts = append(parts, p)
		}
	}
	if e.End != nil {
		if rest := r.Close(); len(rest) > 0 {
			parts = append(parts, Part{Stream: Stdout, Text: rest})
		}
		delete(open, e.Source)
	}
	e.Printed = parts
	return e
}
