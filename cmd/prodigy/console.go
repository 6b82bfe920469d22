package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// console is where the process talks: results to out, all else to err.
type console struct {
	out     io.Writer
	err     io.Writer
	plain   bool       // no colours: err is no terminal, or NO_COLOR is set
	noColor bool       // the flag
	live    bool       // err is a terminal on which a line can be redrawn
	width   func() int // of that terminal
}

// newConsole looks at the terminal and the environment.
func newConsole(out, err *os.File, getenv func(string) string) *console {
	terminal := term.IsTerminal(int(err.Fd())) && getenv("TERM") != "dumb"
	return &console{
		out:   out,
		err:   err,
		plain: getenv("NO_COLOR") != "" || !terminal,
		live:  terminal,
		width: func() int {
			w, _, sizeErr := term.GetSize(int(err.Fd()))
			if sizeErr != nil || w < 1 {
				return 80
			}
			return w
		},
	}
}

// logger returns the log for people that writes to w.
func (c *console) logger(w io.Writer) zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: w, NoColor: c.plain || c.noColor, TimeFormat: "15:04:05"}).With().Timestamp().Logger()
}

// printJSON prints v as one indented document.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// screen is a stream with, when it is live, one line at its end that is redrawn. What is written to it goes above that line.
type screen struct {
	w     io.Writer
	live  bool
	width func() int
	drawn bool
}

const eraseLine = "\r\x1b[K"

func (s *screen) Write(p []byte) (int, error) {
	s.clear()
	return s.w.Write(p)
}

// clear takes the line away until it is drawn again.
func (s *screen) clear() {
	if s.drawn {
		_, _ = io.WriteString(s.w, eraseLine)
		s.drawn = false
	}
}

// draw replaces the line, cut to the width of the terminal.
func (s *screen) draw(line string) {
	if limit := s.width() - 1; len(line) > limit {
		line = line[:max(limit, 0)]
	}
	_, _ = io.WriteString(s.w, eraseLine+line)
	s.drawn = true
}
