package items

import (
	"bytes"
	"context"
	"io"
	"regexp"
)

// lookAhead is how many bytes may be read to find out what the data is.
const lookAhead = 64 << 10

// peekReader reads data as it comes, by lines or JSON values, and can look at what comes before it is taken.
type peekReader struct {
	r io.Reader

	// buf is what was read from r and not taken yet. It mostly lies in room.
	buf  []byte
	room []byte

	// off counts the bytes taken.
	off int64

	// err is the error that ended r: io.EOF at its end. What is in buf is still there to take.
	err error

	// out holds the value being built.
	out []byte

	// found reports whether a JSON value has been read.
	found bool

	// dialect says more of the format.
	dialect
}

// dialect is what a workflow says of a format.
type dialect struct {
	// delimiter is between the fields of CSV, or between lines. Zero means a comma, or the end of a line.
	delimiter rune

	// split is between the columns of an item. Nil means that items are texts.
	split *regexp.Regexp
}

// Read returns what was looked at, then what follows.
func (f *peekReader) Read(p []byte) (int, error) {
	if len(f.buf) == 0 && f.err == nil {
		f.more()
	}
	n := copy(p, f.buf)
	f.skip(n)
	if n == 0 {
		return 0, f.err
	}
	return n, nil
}

// skip takes n bytes of buf.
func (f *peekReader) skip(n int) {
	f.buf = f.buf[n:]
	f.off += int64(n)
}

// chunk is how many bytes are read at once.
const chunk = 64 << 10

// more reads the next chunk. It may move buf. When room is full, what is left of buf goes to the start of a room that
// holds it twice and two chunks, so that a long line is copied only a few times.
func (f *peekReader) more() {
	if cap(f.buf)-len(f.buf) < chunk {
		if len(f.room) < len(f.buf)+chunk {
			f.room = make([]byte, 2*len(f.buf)+2*chunk)
		}
		f.buf = f.room[:copy(f.room, f.buf)]
	}
	var n int
	n, f.err = f.r.Read(f.buf[len(f.buf) : len(f.buf)+chunk])
	f.buf = f.buf[:len(f.buf)+n]
}

// line returns the next line with its end, without taking it. whole is false if the line is longer than limit bytes.
func (f *peekReader) line(limit int) (line []byte, whole bool) { return f.until('\n', limit) }

// until returns the data up to and including the next end byte, or all that is left, without taking it. whole
// is false if there is no such byte within limit bytes.
func (f *peekReader) until(end byte, limit int) (data []byte, whole bool) {
	// There is no end byte in f.buf[:seen].
	for seen := 0; ; {
		if i := bytes.IndexByte(f.buf[seen:], end); i >= 0 {
			return f.buf[:seen+i+1], true
		}
		seen = len(f.buf)
		if f.err != nil {
			return f.buf, true
		}
		if seen >= limit {
			return f.buf, false
		}
		f.more()
	}
}

// skipBlank skips blank lines, and reports whether data follows.
func (f *peekReader) skipBlank() (more bool) {
	for {
		line, whole := f.line(lookAhead)
		if len(bytes.TrimSpace(line)) > 0 {
			return true
		}
		f.skip(len(line))
		if whole && f.err != nil && len(f.buf) == 0 {
			return false
		}
	}
}

// failure returns the error that ended the data, or nil at io.EOF.
func (f *peekReader) failure() error {
	if f.err == io.EOF {
		return nil
	}
	return f.err
}

// readerFunc is an io.Reader made of a function.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// during returns a reader of in that looks at ctx before each read, and ends with it.
func during(ctx context.Context, in io.Reader) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return in.Read(b)
	})
}
