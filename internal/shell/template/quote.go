package template

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

// quoting is what surrounds a place of a script, and so how text must be written there.
type quoting uint8

const (
	unquoted      quoting = iota // outside quotes
	single                       // '…'
	ansi                         // $'…'
	double                       // "…", and words within it where quotes are text
	heredoc                      // the body of <<EOF
	quotedHeredoc                // the body of <<'EOF'
	arithmetic                   // $((…)) and its like
	comment
)

// write returns text so that it stands for itself in the given place.
func (q quoting) write(text string) string {
	switch q {
	case unquoted:
		return shell.Quote(text)
	case single:
		return strings.ReplaceAll(text, `'`, `'\''`)
	case ansi:
		return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text)
	case double:
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(text)
	case heredoc:
		return strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`").Replace(text)
	}
	return text
}

// reference returns the reference to a shell variable as the given place needs it.
func (q quoting) reference(name string) string {
	ref := "${" + name + "}"
	switch q {
	case unquoted:
		return `"` + ref + `"`
	case single:
		return `'"` + ref + `"'`
	case ansi:
		return `'"` + ref + `"$'`
	}
	return ref
}

// encode writes code of an inner shell into the places around it, the nearest first.
func encode(code string, around []quoting) string {
	for _, q := range around {
		code = q.write(code)
	}
	return code
}

const codeHeredoc = "PS025"

// quotedDoc is a heredoc with a quoted delimiter. Values can only be filled in when it becomes an unquoted one.
type quotedDoc struct {
	word      [2]int // of the delimiter behind <<
	body      [2]int
	end       [2]int // of the delimiter after the body
	delimiter string
	refs      []span // within the body
	rewritten bool
}

// heredoc places the refs of a heredoc's body.
func (w *walker) heredoc(r *syntax.Redirect) {
	if !shell.IsQuoted(r.Word) {
		w.word(r.Hdoc, quoteContext{quote: heredoc, joinsList: true})
		return
	}
	body := shell.HeredocText(r)
	if body == nil {
		return
	}
	s := quoteContext{quote: quotedHeredoc, joinsList: true}
	if w.nested || w.backquotes > 0 {
		s.fault = finding{codeHeredoc, "is inside a quoted heredoc in nested code or backquotes; use an unquoted heredoc"}
	}
	found := w.c.sentinelsIn(body.Value)
	for _, at := range found {
		w.put(at.ref, s, 1)
	}
	if s.fault.code == "" && len(found) > 0 && !w.noteQuotedDoc(r, body, found) {
		w.impossible(body.Value, "is inside a heredoc that cannot be analyzed")
	}
}

// noteQuotedDoc remembers the heredoc for rewriting. It returns false when the text is not what the tree says.
func (w *walker) noteQuotedDoc(r *syntax.Redirect, body *syntax.Lit, found []span) bool {
	text := w.c.parseText
	start := int(body.Pos().Offset())
	end := start + len(body.Value)
	delimiter := shell.WordText(r.Word)
	if end > len(text) || text[start:end] != body.Value || !strings.HasPrefix(text[end:], delimiter) {
		return false
	}
	w.c.heredocs = append(w.c.heredocs, quotedDoc{
		word: [2]int{int(r.Word.Pos().Offset()), int(r.Word.End().Offset())},
		body: [2]int{start, end}, end: [2]int{end, end + len(delimiter)},
		delimiter: delimiter, refs: found,
	})
	return true
}

// edits returns what makes the heredoc an unquoted one that prints the same text. The refs in it are edits of their own.
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
