package term

import (
	"fmt"
	"io"
)

// Lines prints lines for people. A line that cannot be written is dropped: whoever read them has gone, and what the
// program does goes on.
type Lines struct {
	W io.Writer
	Look
}

// Print prints a line.
func (l Lines) Print(line string) { _, _ = io.WriteString(l.W, line+"\n") }

// Printf prints a line.
func (l Lines) Printf(format string, args ...any) { l.Print(fmt.Sprintf(format, args...)) }

// Tell prints a line, unless there is nothing behind its beginning.
func (l Lines) Tell(begin, text string) {
	if text != "" {
		l.Print(begin + text)
	}
}

// Foldf prints a line, and breaks it at blanks where the terminal ends. What follows a break is indented.
func (l Lines) Foldf(indent int, format string, args ...any) {
	l.Print(l.Fold(indent, fmt.Sprintf(format, args...)))
}
