package workflow

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// located reads a text, not blank, together with where it stands.
func (r *reader) located(e entry) (Text, bool) {
	s, ok := r.filled(e)
	if !ok {
		return Text{}, false
	}
	return r.locate(e.value, s), true
}

// locate returns the text s of scalar n with its place.
func (r *reader) locate(n *yaml.Node, s string) Text {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return Text{Value: s, Pos: place(n), Block: true, Indent: r.indent(n, s)}
	}
	return Text{Value: s, Pos: r.content(n)}
}

// indent returns how many columns of the file a block scalar is indented by.
func (r *reader) indent(n *yaml.Node, s string) int {
	at := n.Line // the index of the line after the header
	for line := range strings.SplitSeq(s, "\n") {
		if strings.Trim(line, " ") != "" {
			return max(0, leading(r.line(at))-leading(line))
		}
		at++
	}
	return 0
}

func leading(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

// line returns a line of the file, by its index from 0.
func (r *reader) line(index int) string {
	if index < 0 || index >= len(r.lines) {
		return ""
	}
	return r.lines[index]
}

// content returns where the content of scalar n starts: behind its anchor, tag and opening quote.
func (r *reader) content(n *yaml.Node) Pos {
	at := place(n)
	rest := []rune(r.line(at.Line - 1))
	rest = rest[min(max(at.Col-1, 0), len(rest)):]
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '&', '!':
			for i < len(rest) && rest[i] != ' ' {
				i++
			}
		case ' ', '\t':
		case '"', '\'':
			if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
				i++
			}
			return Pos{at.Line, at.Col + i}
		default:
			return Pos{at.Line, at.Col + i}
		}
	}
	return at
}
