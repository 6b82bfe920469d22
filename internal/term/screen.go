package term

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/vbauerster/mpb/v8/cwriter"

	"prodigy/internal/check"
)

// Screen is an output stream. On a live terminal it keeps some lines at the end that are redrawn; other output goes
// above them.
type Screen struct {
	Live bool // lines can be redrawn

	w      io.Writer
	size   func() (width, height int)
	cursor *cwriter.Writer // made when it is first needed
	drawn  []string
	width  int    // that they were drawn for
	held   []byte // written while Together runs do
	hold   bool
}

// NewScreen returns a screen that writes to w, on which lines can be redrawn if it is live. Size returns the present
// columns and rows of the terminal.
func NewScreen(w io.Writer, live bool, size func() (width, height int)) *Screen {
	return &Screen{Live: live, w: w, size: size}
}

// Drawn reports whether there are live lines now.
func (s *Screen) Drawn() bool { return len(s.drawn) > 0 }

// Size returns the present columns and rows of the terminal.
func (s *Screen) Size() (width, height int) { return s.size() }

// Write implements io.Writer: the text goes above the live lines.
func (s *Screen) Write(p []byte) (int, error) {
	switch {
	case len(s.drawn) == 0:
		return s.w.Write(p)
	case s.hold:
		s.held = append(s.held, p...)
	default:
		s.show(p, s.drawn)
	}
	return len(p), nil
}

// Together runs do, which may write many lines, and then redraws once: with the lines that lines returns, since what do
// has shown may have made the drawn ones untrue.
func (s *Screen) Together(do func(), lines func(width, height int) []string) {
	s.hold = true
	do()
	s.hold = false
	if len(s.held) > 0 && len(s.drawn) > 0 {
		s.show(nil, lines(s.size()))
	}
}

// Clear removes the live lines until they are drawn again.
func (s *Screen) Clear() {
	if len(s.drawn) > 0 {
		s.show(nil, nil)
	}
}

// Draw replaces the live lines.
func (s *Screen) Draw(lines []string) {
	if s.cursor == nil {
		s.cursor = cwriter.New(cursorWriter{s.w})
	}
	s.show(nil, lines)
}

// show replaces the live lines with text and new lines below it. Lines are cut to the present width of the terminal,
// which may have become narrower.
func (s *Screen) show(text []byte, lines []string) {
	width, _ := s.size()
	var b bytes.Buffer
	if len(s.drawn) > 0 {
		b.WriteString(lineBegin)
	}
	if more := s.wrapped(width); more > 0 {
		_, _ = fmt.Fprintf(&b, "\xff[%dA\xff[J", more)
	}
	b.WriteString(shownText(s.held))
	b.WriteString(shownText(text))
	s.held = s.held[:0]
	drawn := make([]string, len(lines))
	for i, line := range lines {
		drawn[i] = Cut(width-1, strings.ReplaceAll(line, "\t", " ")) // a tab has no width of its own
		b.WriteString(drawn[i] + "\n")
	}
	_, _ = s.cursor.Write(b.Bytes())
	_ = s.cursor.Flush(len(drawn))
	s.drawn, s.width = drawn, width
}

// shownText replaces control characters in text, but keeps colours.
func shownText(text []byte) string {
	return strings.Join(check.Each(strings.Split(string(text), escapeMark), VisibleLines), escapeMark)
}

// lineBegin erases the line of the cursor. What a person types, such as ^C, moves the cursor to the right.
const lineBegin = "\xff\r\xff[K"

// wrapped returns how many more rows the drawn lines take since the terminal became narrower.
func (s *Screen) wrapped(width int) int {
	if width >= s.width || width < 1 {
		return 0
	}
	more := 0
	for _, line := range s.drawn {
		more += max(Width(line)-1, 0) / width
	}
	return more
}
