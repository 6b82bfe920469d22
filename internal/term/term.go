// Package term is what prodigy prints for people: text that is safe for a terminal, colours, lines that fit its width,
// tables of rows, the live lines below what scrolls by, and the keys that are typed meanwhile.
//
// A [Look] says what the terminal can do; the zero Look is for output without one. A [Screen] keeps live lines at the
// end of an output. [Rows] prints values as a table for people, or in one of the formats for programs. An [Echo] shows
// what many commands print at once. Everything goes through a [SafeWriter], which lets only prodigy's own colours and
// cursor moves pass.
package term

import (
	"os"
	"strings"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/term"
)

// Is reports whether f is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Size returns the columns and rows of the terminal that f is, or zeros where they are not known.
func Size(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 0, 0
	}
	return width, height
}

// Look is how lines for people are printed. The zero Look is for output without a terminal.
type Look struct {
	Colours bool
	Width   int // of the terminal; 0 does not limit lines
}

// Narrow is the width of a terminal on which a line has no room for what can be left out.
const Narrow = 120

// IsNarrow reports whether lines go to a terminal that is narrow.
func (k Look) IsNarrow() bool { return k.Width > 0 && k.Width < Narrow }

// Colour is an SGR code: https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
type Colour string

// The colours. Bold stands before one of them, or alone.
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Grey   Colour = "90"
	Bold   Colour = "1"
)

// Strong returns the colour in bold.
func (c Colour) Strong() Colour { return Bold + ";" + c }

// Paint returns text in a colour, if there are colours.
func (k Look) Paint(c Colour, text string) string {
	if !k.Colours || c == "" || text == "" {
		return text
	}
	return escapeMark + "[" + string(c) + "m" + text + escapeMark + "[0m"
}

// Line returns a line in a colour, cut to the width of the terminal.
func (k Look) Line(c Colour, line string) string {
	if k.Width > 0 {
		line = displaywidth.TruncateString(line, k.Width, ellipsis)
	}
	return k.Paint(c, line)
}

// Fold breaks text at blanks into lines that fit the terminal; those after the first are indented by so many columns. A
// word that is longer than a line, which may be a path to copy, is left to the terminal.
func (k Look) Fold(indent int, text string) string {
	if k.Width <= indent {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		wide := Width(word)
		switch {
		case i == 0:
		case used+1+wide <= k.Width:
			b.WriteByte(' ')
			used++
		default:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		}
		b.WriteString(word)
		used += wide
	}
	return b.String()
}

// columns counts those of a line as a terminal gets it, in which a colour takes none. asShown makes such a line: every
// escape character of others is shown as a placeholder.
var (
	columns = displaywidth.Options{ControlSequences: true}
	asShown = strings.NewReplacer("\x1b", "\ufffd", escapeMark, "\x1b")
)

// Width returns how many columns a line takes.
func Width(line string) int { return columns.String(asShown.Replace(line)) }

// Fit joins the parts that are not empty with two spaces, as many as fit into width. The first one is cut if needed.
func Fit(width int, parts ...string) string {
	line := ""
	for _, part := range parts {
		switch {
		case part == "":
		case line == "":
			line = Cut(width, part)
		case Width(line)+2+Width(part) <= width:
			line += "  " + part
		default:
			return line
		}
	}
	return line
}

const ellipsis = "…"

// Cut returns a line that is at most width columns wide, in its colours. The ellipsis stands for what is left out.
func Cut(width int, line string) string {
	if Width(line) <= max(width, 0) {
		return line
	}
	room := width - displaywidth.String(ellipsis)
	var b strings.Builder
	colour := ""
	for i, text := range strings.Split(line, escapeMark) {
		if i > 0 {
			colour, text, _ = strings.Cut(text, "m")
			b.WriteString(escapeMark + colour + "m")
		}
		shown := displaywidth.TruncateString(text, max(room, 0), "")
		b.WriteString(shown)
		if shown != text || room <= 0 {
			b.WriteString(ellipsis)
			break
		}
		room -= displaywidth.String(text)
	}
	if colour != "" && colour != "[0" {
		b.WriteString(escapeMark + "[0m")
	}
	return b.String()
}
