package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/vbauerster/mpb/v8/cwriter"

	"prodigy/internal/view"
)

// screen is an output stream. On a live terminal it keeps some lines at the end that are redrawn; other output goes above them.
type screen struct {
	w     io.Writer
	live  bool
	size  func() (w, h int)
	term  *cwriter.Writer // moves the cursor; made when it is first needed
	drawn []string
	width int    // that they were drawn for
	held  []byte // written while together runs do
	hold  bool

	said time.Time // when the last line was printed, off a terminal
	last time.Time // of the last record by then
}

const (
	redrawEvery = 100 * time.Millisecond
	reportEvery = 10 * time.Second // off a terminal
	pausedEvery = 15 * time.Minute // off a terminal, while agents wait for the limit of a plan and nothing else happens
)

// every returns the interval at which progress is shown.
func (s *screen) every() time.Duration {
	if s.live {
		return redrawEvery
	}
	return reportEvery
}

// progress shows the progress of a job, redrawn in place or as another line.
func (s *screen) progress(g progressLines, j *view.Job, now time.Time) {
	if !s.live {
		if (len(j.Paused()) > 0 || j.Hold != nil) && j.Last.Equal(s.last) && now.Sub(s.said) < pausedEvery {
			return
		}
		s.said, s.last = now, j.Last
		_, _ = fmt.Fprintln(s, g.statusLine(j, now))
		return
	}
	width, height := s.size()
	s.draw(g.lines(j, now, width, height))
}

func (s *screen) Write(p []byte) (int, error) {
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

// together runs do, which may write many lines, and then redraws once: with the lines that lines returns, since what do has shown may have
// made the drawn ones untrue.
func (s *screen) together(do func(), lines func(width, height int) []string) {
	s.hold = true
	do()
	s.hold = false
	if len(s.held) > 0 && len(s.drawn) > 0 {
		s.show(nil, lines(s.size()))
	}
}

// clear removes the live lines until they are drawn again.
func (s *screen) clear() {
	if len(s.drawn) > 0 {
		s.show(nil, nil)
	}
}

// draw replaces the live lines.
func (s *screen) draw(lines []string) {
	if s.term == nil {
		s.term = cwriter.New(cursorWriter{s.w})
	}
	s.show(nil, lines)
}

// show replaces the live lines with text and new lines below it. Lines are cut to the present width of the terminal, which may have become
// narrower.
func (s *screen) show(text []byte, lines []string) {
	width, _ := s.size()
	var b bytes.Buffer
	if len(s.drawn) > 0 {
		b.WriteString(lineBegin)
	}
	if more := s.wrapped(width); more > 0 {
		_, _ = fmt.Fprintf(&b, "\xff[%dA\xff[J", more)
	}
	b.Write(shownText(s.held))
	b.Write(shownText(text))
	s.held = s.held[:0]
	drawn := make([]string, len(lines))
	for i, line := range lines {
		drawn[i] = cut(width-1, strings.ReplaceAll(line, "\t", " ")) // a tab has no width of its own
		b.WriteString(drawn[i] + "\n")
	}
	_, _ = s.term.Write(b.Bytes())
	_ = s.term.Flush(len(drawn))
	s.drawn, s.width = drawn, width
}

// shownText replaces control characters in text, but keeps colours.
func shownText(text []byte) []byte {
	var b bytes.Buffer
	for at, part := range strings.Split(string(text), escapeMark) {
		if at > 0 {
			b.WriteString(escapeMark)
		}
		b.WriteString(visibleLines(part))
	}
	return b.Bytes()
}

// lineBegin erases the line of the cursor. What a person types, such as ^C, moves the cursor to the right.
const lineBegin = "\xff\r\xff[K"

// wrapped returns how many more rows the drawn lines take since the terminal became narrower.
func (s *screen) wrapped(width int) int {
	if width >= s.width || width < 1 {
		return 0
	}
	more := 0
	for _, line := range s.drawn {
		more += max(displaywidth.String(plain(line))-1, 0) / width
	}
	return more
}
