package template

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// edit replaces the bytes of the parsed text from span[0] up to span[1].
type edit struct {
	span [2]int
	piece
}

// quotedDoc is a heredoc with a quoted delimiter. Values can only be filled in when it becomes an unquoted one.
// The spans are in compiler.parseText.
type quotedDoc struct {
	word [2]int // of the delimiter after <<
	body [2]int
	end  [2]int // of the delimiter after the body

	// delimiter is the one after the body, without the quotes.
	delimiter string

	// refs are counted from the start of the body.
	refs []span

	// rewritten reports whether the heredoc becomes an unquoted one, since a value is filled in.
	rewritten bool
}

// edits returns what makes the heredoc an unquoted one that prints the same text. The refs in it are edits of their
// own.
func (d quotedDoc) edits(text string) []edit {
	name := d.unquotedName(text)
	edits := []edit{{d.word, constant(name)}, {d.end, constant(name)}}
	last := d.body[0]
	for _, at := range d.refs {
		literalSpan := [2]int{last, d.body[0] + at.start}
		edits = append(edits, edit{literalSpan, constant(heredoc.write(text[literalSpan[0]:literalSpan[1]]))})
		last = d.body[0] + at.end
	}
	return append(edits, edit{[2]int{last, d.body[1]}, constant(heredoc.write(text[last:d.body[1]]))})
}

// unquotedName returns a delimiter that needs no quotes and is no line of the body.
func (d quotedDoc) unquotedName(text string) string {
	if syntax.ValidName(d.delimiter) {
		return d.delimiter
	}
	name := "PRODIGY_EOF"
	for n := 0; strings.Contains(text[d.body[0]:d.body[1]], name); n++ {
		name = "PRODIGY_EOF_" + strconv.Itoa(n)
	}
	return name
}
