package items

import (
	"bytes"
	"io"
	"strings"
)

// lookAhead is how much of the data may be read to find out what it is.
const lookAhead = 64 << 10

// feed is data that is read by lines or by JSON values, as they come, and can be looked at before it is taken.
type feed struct {
	r    io.Reader
	buf  []byte // read from r and not yet taken
	room []byte // where buf lies, as long as it is
	off  int64  // how many bytes have been taken
	err  error  // of r, io.EOF at the end

	out []byte // a value in the making

	found bool // a JSON value has been read
}

// Read gives what has been looked at, then what follows.
func (f *feed) Read(p []byte) (int, error) {
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

func (f *feed) skip(n int) {
	f.buf = f.buf[n:]
	f.off += int64(n)
}

// unread gives back what Read has given last.
func (f *feed) unread(b []byte) {
	if len(b) > 0 {
		f.buf = append(bytes.Clone(b), f.buf...)
		f.off -= int64(len(b))
	}
}

// chunk is how much is read at once.
const chunk = 64 << 10

// more reads on. What is looked at stays, but not where it was.
func (f *feed) more() {
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

// line returns what is there up to the end of the line, without taking it. whole is false when the line goes on after limit bytes.
func (f *feed) line(limit int) (line []byte, whole bool) { return f.until('\n', limit) }

// until returns what is there up to the next end, that included, or up to the end of the data, without taking it. whole is false when
// it goes on after limit bytes.
func (f *feed) until(end byte, limit int) (data []byte, whole bool) {
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

// blank takes lines that hold nothing, and reports whether any data follows.
func (f *feed) blank() (more bool) {
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

// skipMark takes a byte order mark, which some editors put before UTF-8.
func (f *feed) skipMark() {
	const mark = "\uFEFF"
	for len(f.buf) < len(mark) && f.err == nil && strings.HasPrefix(mark, string(f.buf)) {
		f.more()
	}
	if bytes.HasPrefix(f.buf, []byte(mark)) {
		f.skip(len(mark))
	}
}
