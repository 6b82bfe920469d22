package web

import (
	"bytes"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// sequences match what steers a terminal: first what sets colours, which is the group, then other control sequences
// with their parameters and final character, control strings such as titles and links, and other escape sequences.
// ECMA-48, 5.3 to 5.6.
var sequences = check.Regexp(`(\x1b\[[0-9;]*m)|(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?|` +
	`\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?`)

// rewritten matches what a line showed before a carriage return, such as the earlier states of a bar of progress, if
// text follows. Colours that are set before the text are in the group, too.
var rewritten = check.Regexp(`(?m)^.*\r((?:\x1b[^m]*m)*[^\x1b\r\n])`)

// unescaped returns what a command printed without what steers a terminal, except for the groups of sequences, which
// kept can refer to.
func unescaped(printed []byte, kept string) []byte {
	return sequences().ReplaceAll(bytes.ToValidUTF8(printed, []byte("\ufffd")), []byte(kept))
}

// shownText returns what a command printed as HTML, with its colours and what is bold as classes of spans. What else
// steers a terminal is dropped. Of a line that is written again and again over itself the last state is shown.
func shownText(printed any) template.HTML {
	text := rewritten().ReplaceAll(unescaped(fmt.Appendf(nil, "%s", printed), "$1"), []byte("$1"))
	var b strings.Builder
	var p pen
	for i, part := range strings.Split(template.HTMLEscapeString(string(text)), "\x1b[") {
		if i > 0 {
			parameters, rest, _ := strings.Cut(part, "m")
			p.set(parameters)
			part = rest
		}
		if p != (pen{}) && part != "" {
			part = fmt.Sprintf(`<span class="%s">%s</span>`, strings.TrimSpace(strings.Join(p[:], " ")), part)
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// pen is how a terminal would show the next character: the classes of its colour, of the colour behind it, and of bold
// text; empty for none. The colours are the eight of ECMA-48, of which each scheme of the pages has readable shades,
// the bright ones included. Text in other colours is shown as if it had none.
type pen [3]string

// set follows Select Graphic Rendition: ECMA-48, 8.3.117. A parameter that is left out counts as 0.
func (p *pen) set(parameters string) {
	for text := range strings.SplitSeq(parameters, ";") {
		n, _ := strconv.Atoi(text)
		switch n {
		case 0:
			*p = pen{}
		case 1:
			p[2] = "strong"
		case 22:
			p[2] = ""
		}
		switch n / 10 {
		case 3, 9:
			p[0] = colourClass("text", n)
		case 4, 10:
			p[1] = colourClass("ground", n)
		}
		if n == 38 || n == 48 {
			return // what follows names a colour of a larger palette
		}
	}
}

// colourClass returns the class for the colour that a parameter sets, or nothing for that of the page.
func colourClass(name string, parameter int) string {
	if parameter%10 > 7 {
		return ""
	}
	return fmt.Sprint(name, parameter%10)
}
