package main

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

// screen is a stream with, when it is live, some lines at its end that are drawn again and again. What is written to it goes above
// them.
type screen struct {
	w     io.Writer
	live  bool
	size  func() (w, h int)
	term  *cwriter.Writer // moves the cursor; made when it is first needed
	drawn []string
	width int    // that they were drawn for
	held  []byte // what is written while do of together runs
	hold  bool
}

const (
	redrawEvery = 100 * time.Millisecond
	reportEvery = 10 * time.Second // off a terminal
)

// every is how often the screen shows how a job stands.
func (s *screen) every() time.Duration {
	if s.live {
		return redrawEvery
	}
	return reportEvery
}

// progress shows how a job stands: drawn in place, or as one line more.
func (s *screen) progress(g region, j *view.Job, now time.Time) {
	if !s.live {
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

// together does what may write many lines, and draws once for all of them.
func (s *screen) together(do func()) {
	s.hold = true
	do()
	s.hold = false
	if len(s.held) > 0 {
		s.show(nil, s.drawn)
	}
}

// clear takes the lines away until they are drawn again.
func (s *screen) clear() {
	if len(s.drawn) > 0 {
		s.show(nil, nil)
	}
}

// draw replaces the lines.
func (s *screen) draw(lines []string) {
	if s.term == nil {
		s.term = cwriter.New(marked{s.w})
	}
	s.show(nil, lines)
}

// show replaces the lines that are drawn by a text and by lines below it. They are cut to the width that the terminal has now: it may
// have become narrower since they were made.
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
		drawn[i] = fit(width-1, line)
		b.WriteString(drawn[i] + "\n")
	}
	_, _ = s.term.Write(b.Bytes())
	_ = s.term.Flush(len(drawn))
	s.drawn, s.width = drawn, width
}

// shownText makes visible what was written, in which there may be colours.
func shownText(text []byte) []byte {
	var b bytes.Buffer
	for at, part := range strings.Split(string(text), ownMark) {
		if at > 0 {
			b.WriteString(ownMark)
		}
		b.WriteString(visibleLines(part))
	}
	return b.Bytes()
}

// lineBegin leaves nothing of the line that the cursor is in. What a person types, as ^C, moves the cursor to the right.
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
