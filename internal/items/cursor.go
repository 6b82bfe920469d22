package items

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"

	"prodigy/internal/jobs"
)

// Cursor reads the items of a store in order, also while the store grows.
// It is for one goroutine.
type Cursor struct {
	store *Store

	// in reads the lines of the file as they become whole, and read counts the bytes that it has read.
	in   *bufio.Reader
	read int64

	// next is the index of the item after the cursor, whose line begins at Offset.
	next int
}

// Cursor returns a cursor before the first item.
func (s *Store) Cursor() *Cursor {
	c := &Cursor{store: s}
	c.in = bufio.NewReaderSize(wholeLines{c}, 64<<10)
	return c
}

// More reports whether there is an item after the cursor now.
func (c *Cursor) More() bool { return c.next < c.store.Len() }

// Index returns the index of the item after the cursor.
func (c *Cursor) Index() int { return c.next }

// Offset returns the offset in the file of the item after the cursor.
func (c *Cursor) Offset() int64 { return c.read - int64(c.in.Buffered()) }

// Next returns the item after the cursor, which must be there, and steps over it.
func (c *Cursor) Next() (Item, error) {
	c.next++
	return readItem(c.in, c.store.file.Name(), c.next-1)
}

// Skip steps over the item after the cursor, which must be there.
func (c *Cursor) Skip() error {
	c.next++
	if _, err := jobs.SkipLine(c.in); err != nil {
		return fmt.Errorf("read item %d: %w", c.next-1, err)
	}
	return nil
}

// wholeLines reads the whole lines of the file, not a line that is being written.
type wholeLines struct{ *Cursor }

// Read returns io.EOF at the end of the whole lines. More may follow later: bufio.Reader asks again.
func (w wholeLines) Read(p []byte) (int, error) {
	w.store.mu.Lock()
	left := w.store.size - w.read
	w.store.mu.Unlock()
	if left == 0 {
		return 0, io.EOF
	}
	n, err := w.store.file.ReadAt(p[:min(int64(len(p)), left)], w.read)
	w.read += int64(n)
	return n, err
}

// Find returns the item with this id, and false if there is none. It reads the lines before it.
func (s *Store) Find(id string) (Item, bool, error) {
	begin := []byte(idKey + id + `",`)
	for it, err := range s.candidates(begin) {
		if err != nil || it.ID == id {
			return it, err == nil, err
		}
	}
	return Item{}, false, nil
}

// Named returns at most limit ids that begin with prefix, in the order of the items.
func (s *Store) Named(prefix string, limit int) ([]string, error) {
	var ids []string
	for it, err := range s.candidates([]byte(idKey + prefix)) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(it.ID, prefix) {
			ids = append(ids, it.ID)
		}
		if len(ids) == limit {
			break
		}
	}
	return ids, nil
}

// candidates yields the items whose lines begin with begin, and those whose first bytes cannot decide it, as when the
// id has an escape. Decoding only these makes a search as fast as reading the file.
func (s *Store) candidates(begin []byte) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for c := s.Cursor(); c.More(); {
			if !c.cannotMatch(begin) {
				if it, err := c.Next(); !yield(it, err) || err != nil {
					return
				}
				continue
			}
			if err := c.Skip(); err != nil {
				yield(Item{}, err)
				return
			}
		}
	}
}

// cannotMatch reports whether the next line, by its first bytes, does not begin with begin, escaped or not.
func (c *Cursor) cannotMatch(begin []byte) bool {
	line, err := c.in.Peek(len(begin))
	return err == nil && bytes.HasPrefix(line, []byte(idKey)) && !bytes.Equal(line, begin) &&
		bytes.IndexByte(line, '\\') < 0
}
