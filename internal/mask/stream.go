package mask

import "io"

// cutter masks a text that comes in pieces. Secrets that overlap are masked as one.
type cutter struct {
	// held is the end of what came, if that may be the beginning of a secret.
	held []byte
	// before is the byte in front of held.
	before byte
	// hidden is how much of held belongs to a secret whose mark is in out already.
	hidden int
	out    []byte
}

// take adds what is decided by p to out. Last says that nothing follows.
func (c *cutter) take(m *Masker, p []byte, last bool) {
	b := p
	if len(c.held) > 0 {
		b = append(c.held, p...)
	}
	w := m.walks.Get().(*walk)
	defer m.walks.Put(w)
	i, written := 0, 0 // of b
	for ; i < len(b); i++ {
		if c.hidden == 0 {
			if n := m.skip(w, b[i:]); n > 0 {
				i += n
				c.before = b[i-1]
			}
		}
		length := 0
		if m.begins(b[i:]) {
			var undecided bool
			if length, undecided = m.at(w, c.before, b[i:], !last); undecided {
				break
			}
		}
		if length > 0 && c.hidden == 0 {
			c.out = append(append(c.out, b[written:i]...), Mark...)
		}
		if c.hidden = max(c.hidden, length); c.hidden > 0 {
			c.hidden--
			written = i + 1
		}
		c.before = b[i]
	}
	c.out = append(c.out, b[written:i]...)
	c.held = append(c.held[:0], b[i:]...)
}

// Writer masks what is written through it, also a secret that comes in several writes. It belongs to one
// goroutine at a time.
type Writer struct {
	to     io.Writer
	masker *Masker
	cutter
}

// Writer returns a Writer that writes to w. Close writes the rest.
func (m *Masker) Writer(w io.Writer) *Writer {
	return &Writer{to: w, masker: m}
}

// Write implements io.Writer. What may be the beginning of a secret is written with what follows it.
func (w *Writer) Write(p []byte) (int, error) {
	if w.masker == nil {
		return w.to.Write(p)
	}
	if err := w.pass(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass writes what is decided by p.
func (w *Writer) pass(p []byte, last bool) error {
	w.out = w.out[:0]
	w.take(w.masker, p, last)
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.to.Write(w.out)
	return err
}

// Close writes what was held back. It does not close what is written to, and more may be written afterwards.
func (w *Writer) Close() error {
	if w.masker == nil || len(w.held) == 0 {
		return nil
	}
	return w.pass(nil, true)
}

// Text returns s with its secrets masked.
func (m *Masker) Text(s string) string {
	if m == nil || s == "" {
		return s
	}
	var c cutter
	c.take(m, []byte(s), true)
	return string(c.out)
}

// Holds reports whether there is a secret in s.
func (m *Masker) Holds(s string) bool { return m.Text(s) != s }
