package workflow

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
)

// Pos is a position in the workflow file. Line and Col count from 1.
type Pos struct {
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`
}

// Problem returns what is wrong at a place of a file that the caller knows.
func (at Pos) Problem(format string, args ...any) Problem {
	return Problem{Line: at.Line, Col: at.Col, Message: fmt.Sprintf(format, args...)}
}

func posOf(n *yaml.Node) Pos { return Pos{Line: n.Line, Col: n.Column} }

// Text is a text that is interpolated when it is used, and its position.
type Text struct {
	Value string `json:"value"`
	Pos   Pos    `json:"pos"`
	Block bool   `json:"block,omitempty"` // a block scalar: the text starts on the line after Pos

	Indent int `json:"indent,omitempty"` // of a block scalar: how many columns of the file are not part of the text
}

// At returns the position in the file of a line and column of the value, both from 1. It is exact for a
// literal block (|) and for a text on one line without escapes. For all other texts it is approximate, and
// beyond the first line it is where the text starts.
func (t Text) At(line, col int) Pos {
	if t.Block {
		return Pos{Line: t.Pos.Line + line, Col: t.Indent + col}
	}
	if line > 1 {
		return t.Pos
	}
	return Pos{Line: t.Pos.Line, Col: t.Pos.Col + col - 1}
}

// withPos returns the text s of scalar n with its position.
func (r *reader) withPos(n *yaml.Node, s string) Text {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return Text{Value: s, Pos: posOf(n), Block: true, Indent: r.indent(n, s)}
	}
	return Text{Value: s, Pos: r.contentPos(n)}
}

// indent returns by how many columns a block scalar is indented in the file.
func (r *reader) indent(n *yaml.Node, s string) int {
	at := n.Line // the index of the line after the header
	for line := range strings.SplitSeq(s, "\n") {
		if strings.Trim(line, " ") != "" {
			return max(0, leadingSpaces(r.line(at))-leadingSpaces(line))
		}
		at++
	}
	return 0
}

func leadingSpaces(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

// line returns a line of the file, by its index from 0.
func (r *reader) line(index int) string {
	if index < 0 || index >= len(r.lines) {
		return ""
	}
	return r.lines[index]
}

// properties matches what may stand before the content of a scalar: anchor and tag.
var properties = check.Regexp(`^(?:[&!][^ ]*|[ \t])*`)

// contentPos returns where the content of scalar n starts: after its anchor, tag and opening quote.
func (r *reader) contentPos(n *yaml.Node) Pos {
	at := posOf(n)
	rest := []rune(r.line(at.Line - 1))
	rest = rest[min(max(at.Col-1, 0), len(rest)):]
	before := utf8.RuneCountInString(properties().FindString(string(rest)))
	if before == len(rest) {
		return at
	}
	at.Col += before
	quoted := rest[before] == '"' || rest[before] == '\''
	if quoted && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		at.Col++
	}
	return at
}
