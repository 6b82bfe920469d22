package web

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// sequences match what steers a terminal: control sequences with their parameters and final character, control strings
// such as titles and links, and other escape sequences. ECMA-48, 5.3 to 5.6.
var sequences = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\x1b\[|\x{9b})([0-?]*)[ -/]*([@-~])?|` +
		`\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?`)
})

// shownText returns what a command printed as HTML, with its colours as classes of spans. Other sequences for
// terminals are dropped. Of a line that is written again and again over itself the last state is shown.
func shownText(text []byte) template.HTML {
	var b strings.Builder
	var p pen
	for line := range bytes.Lines(bytes.ToValidUTF8(text, []byte("\ufffd"))) {
		line, end := bytes.CutSuffix(line, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		from := bytes.LastIndexByte(line, '\r') + 1 // what precedes it counts for its colours only
		at := 0
		for _, m := range sequences().FindAllSubmatchIndex(line, -1) {
			p.write(&b, line[max(at, from):max(m[0], from)])
			if m[4] >= 0 && line[m[4]] == 'm' {
				p.set(string(line[m[2]:m[3]]))
			}
			at = m[1]
		}
		p.write(&b, line[max(at, from):])
		if end {
			b.WriteByte('\n')
		}
	}
	return template.HTML(b.String())
}

// pen is how a terminal would show the next character. Its colours are the eight of ECMA-48, of which each scheme of
// the pages has readable shades, the bright ones included. Of other colours text is as if it had none.
type pen struct {
	text, ground int  // the number of a colour, plus 1; zero is the colour of the page
	on           uint // the bit n is set for the attribute that the parameter n switches on
}

const inverse = 7

// attributes are the classes of attributes, by the parameter that switches them on.
var attributes = [...]string{1: "strong", 2: "faint", 3: "italic", 4: "underlined", 9: "struck"}

// write writes text, which has no sequences, as HTML.
func (p pen) write(b *strings.Builder, text []byte) {
	var classes []string
	for n, class := range attributes {
		if p.on>>n&1 == 1 && class != "" {
			classes = append(classes, class)
		}
	}
	if p.on>>inverse&1 == 1 {
		p.text, p.ground = p.ground, p.text
		if p.text == p.ground {
			classes = append(classes, "inverse")
		}
	}
	if p.text > 0 {
		classes = append(classes, fmt.Sprintf("text%d", p.text-1))
	}
	if p.ground > 0 {
		classes = append(classes, fmt.Sprintf("ground%d", p.ground-1))
	}
	escaped := template.HTMLEscapeString(string(plain(text)))
	if classes != nil && escaped != "" {
		escaped = fmt.Sprintf(`<span class="%s">%s</span>`, strings.Join(classes, " "), escaped)
	}
	b.WriteString(escaped)
}

// set follows Select Graphic Rendition: ECMA-48, 8.3.117. A parameter that is not a number counts as 0, which resets
// the pen.
func (p *pen) set(parameters string) {
	var list []int
	for text := range strings.SplitSeq(parameters, ";") {
		n, _ := strconv.Atoi(text)
		list = append(list, min(n, 255))
	}
	for len(list) > 0 {
		n := list[0]
		list = list[1:]
		at := &p.text
		if n/10 == 4 || n/10 == 10 {
			at = &p.ground
		}
		switch {
		case n == 38 || n == 48: // one of 256, of which the first are these, or of 24 bits
			*at = 0
			if len(list) == 2 && list[0] == 5 && list[1] < 16 {
				*at = 1 + list[1]%8
			}
			return
		case n == 0:
			*p = pen{}
		case n < 10:
			p.on |= 1 << n
		case n == 22:
			p.on &^= 1<<1 | 1<<2
		case n > 22 && n < 30:
			p.on &^= 1 << (n - 20)
		case n >= 30 && n < 50, n >= 90 && n < 98, n >= 100 && n < 108:
			*at = (n%10 + 1) % 10 // 9 stands for the colour of the page
		}
	}
}
