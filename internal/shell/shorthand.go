package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Shorthand translates a command as xargs and GNU parallel take it into the script of a step.
//
// The replacement strings {}, {.}, {/}, {//}, {/.}, {#} and {%} become placeholders, which stand for one
// argument each whatever the item holds. Words of a command are quoted, so that no shell acts on what is in
// them. What is not a shorthand is refused, never run as it is.
type Shorthand struct {
	// Batch says that {} stands for several items.
	Batch bool

	// Replace is the one text that stands for the item, as with xargs -I. If it is empty, the replacement
	// strings above do.
	Replace string
}

// shorthands are the replacement strings, and what they stand for. ITEM is the item, or the items of a batch.
var shorthands = []struct{ text, placeholder string }{
	{"{}", "${ITEM}"},
	{"{.}", "${ITEM|noext}"},
	{"{/}", "${ITEM|basename}"},
	{"{//}", "${ITEM|dirname}"},
	{"{/.}", "${ITEM|basename|noext}"},
	{"{#}", "${item_index|ordinal}"},
	{"{%}", "${worker.id}"},
}

// item returns the placeholder of the item.
func (s Shorthand) item() string { return s.placeholder(shorthands[0].placeholder) }

// placeholder returns p, a placeholder of the table above, for one item or for a batch.
func (s Shorthand) placeholder(p string) string {
	if s.Batch {
		return strings.ReplaceAll(p, "ITEM", "items[*]")
	}
	return strings.ReplaceAll(p, "ITEM", "item")
}

// Words returns the script that runs a program with arguments. Nothing but shorthands and the placeholders of
// an item has a meaning in them. If none of them names the item, it is the last argument.
func (s Shorthand) Words(words []string) (string, error) {
	if len(words) == 0 || words[0] == "" {
		return "", errors.New("the command is empty")
	}
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, ":::") }); i >= 0 {
		return "", fmt.Errorf(
			"%s is not supported: items come from standard input, as in printf '%%s\\n' a b | prodigy map, or from --glob, "+
				"--arg-file or --json-file",
			words[i],
		)
	}
	named := false
	script := make([]string, 0, len(words)+2)
	// exec runs the program of that name, and not a builtin or a keyword of the shell: echo is /bin/echo, as for xargs.
	if !IsProgram(words[0]) {
		script = append(script, "exec")
	}
	for _, word := range words {
		if !utf8.ValidString(word) {
			return "", fmt.Errorf("the word %q is not UTF-8", word)
		}
		code, names, err := s.word(word)
		if err != nil {
			return "", err
		}
		named = named || names
		script = append(script, code)
	}
	if !named {
		script = append(script, s.item())
	}
	return strings.Join(script, " "), nil
}

// word returns the shell code for one word, and whether it names the item. The code for word[:start] has been written;
// word[start:at] is constant.
func (s Shorthand) word(word string) (code string, named bool, err error) {
	var b strings.Builder
	for start, at := 0, 0; at <= len(word); {
		placeholder, n, err := s.at(word[at:])
		if err != nil {
			return "", false, err
		}
		if n == 0 {
			placeholder, n = itemPlaceholder(word[at:])
		}
		switch {
		case n > 0:
			b.WriteString(quoteConstant(word[start:at]))
			b.WriteString(placeholder)
			at += n
			start, named = at, true
		case at == len(word):
			if b.WriteString(quoteConstant(word[start:])); b.Len() == 0 {
				b.WriteString("''")
			}
			at++
		default:
			at++
		}
	}
	return b.String(), named, nil
}

// quoteConstant returns s as a part of a word of shell code, in which prodigy finds no placeholder either: a
// dollar sign ends the quotes.
func quoteConstant(s string) string {
	var b strings.Builder
	for part := range strings.SplitAfterSeq(s, "$") {
		if part != "" {
			b.WriteString(Quote(part))
		}
	}
	return b.String()
}

// at returns the placeholder for the shorthand that text begins with, and its length; 0 if there is none.
func (s Shorthand) at(text string) (placeholder string, n int, err error) {
	if s.Replace != "" {
		if strings.HasPrefix(text, s.Replace) {
			return s.item(), len(s.Replace), nil
		}
		return "", 0, nil
	}
	if !strings.HasPrefix(text, "{") {
		return "", 0, nil
	}
	for _, k := range shorthands {
		if strings.HasPrefix(text, k.text) {
			return s.placeholder(k.placeholder), len(k.text), nil
		}
	}
	return "", 0, unknownShorthand(text)
}

// unknownShorthand returns an error if text begins with what GNU parallel would replace, or looks as if it were
// to be replaced: {1}, {+/}, {= perl code =}. Other braces are text, as in {a,b}, {1..3}, {"a": 1} and {print}.
func unknownShorthand(text string) error {
	end := strings.IndexByte(text, '}')
	if end < 0 {
		return nil
	}
	name := text[:end+1]
	body := name[1:end]
	isPerl := len(body) > 1 && body[0] == '=' && body[len(body)-1] == '='
	odd := strings.Trim(body, "0123456789.+/#%-") != ""
	if !isPerl && (odd || isRange(body)) {
		return nil
	}
	var known []string
	for _, k := range shorthands {
		known = append(known, k.text)
	}
	more := ""
	if strings.Trim(body, "0123456789") == "" {
		more = "; for a column of the items use ${item.NAME}"
	}
	return fmt.Errorf("unknown placeholder %s (known: %s)%s; to use braces literally, set another placeholder with -I STR",
		name, strings.Join(known, " "), more)
}

// isRange reports whether braces around body are a brace expansion, as in {1..9}.
func isRange(body string) bool {
	from, to, found := strings.Cut(body, "..")
	return found && from != "" && to != ""
}

// itemPlaceholder returns the placeholder of an item that text begins with, such as ${item.url}, and its
// length; 0 if there is none.
func itemPlaceholder(text string) (placeholder string, n int) {
	rest, ok := strings.CutPrefix(text, "${item")
	if !ok {
		return "", 0
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\': // \} is a brace in a default
			i++
		case '}':
			n = len(text) - len(rest) + i + 1
			return text[:n], n
		}
	}
	return "", 0
}

// Script returns the script with its shorthands replaced. If it is a simple command and names no item, that is
// the last argument.
func (s Shorthand) Script(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", errors.New("the command is empty")
	}
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("the script %q is not UTF-8", text)
	}
	if s.Replace != "" && strings.Contains(text, s.Replace) {
		return strings.ReplaceAll(text, s.Replace, s.item()), nil
	}
	dialects, _ := Dialects("sh")
	file, err := Parse(withoutExpansions(text), dialects)
	if err != nil {
		at := min(ErrorOffset(err), len(text))
		line, col := 1+strings.Count(text[:at], "\n"), at-strings.LastIndexByte(text[:at], '\n')
		return "", fmt.Errorf("the script, line %d, column %d: %s", line, col, ErrorText(err))
	}
	if s.Replace == "" {
		r := &replacer{style: s, src: text, plain: withoutExpansions(text)}
		syntax.Walk(file, r.visit)
		if r.err == nil && r.bare && r.quoted != "" {
			r.err = r.inQuotes(r.quoted)
		}
		if r.err != nil {
			return "", r.err
		}
		if r.done > 0 {
			r.out.WriteString(text[r.done:])
			return r.out.String(), nil
		}
	}
	if strings.Contains(text, "${item") || strings.Contains(text, "PRODIGY_ITEM") {
		return text, nil
	}
	return s.appended(text, file)
}

// withoutExpansions returns text with a letter for each byte of what stands in ${…}: what prodigy knows there
// is no shell code.
func withoutExpansions(text string) string {
	b := []byte(text)
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '$' || b[i+1] != '{' {
			continue
		}
		for end := i + 2; end < len(b); end++ {
			if b[end] == '\\' {
				end++
			} else if b[end] == '}' {
				for ; i <= end; i++ {
					if b[i] != '\n' {
						b[i] = 'x'
					}
				}
				i--
				break
			}
		}
	}
	return string(b)
}

// replacer replaces the shorthands of a script. out holds what src[:done] has become.
type replacer struct {
	style Shorthand
	src   string
	plain string // withoutExpansions(src), which has the same offsets
	out   strings.Builder
	done  int

	// quoted is a shorthand that is all that stands in some quotes, and bare is set if another stands in none. Either
	// is the item. With both, as in find {} -exec rm '{}' +, those in quotes may be meant for the program.
	quoted string
	bare   bool

	// err is the first error. Nothing is looked at after it.
	err error
}

// visit is called by syntax.Walk in the order of the text, which replace relies on.
func (r *replacer) visit(node syntax.Node) bool {
	if r.err != nil || node == nil {
		return false
	}
	switch n := node.(type) {
	case *syntax.SglQuoted:
		if !r.whole(n) {
			r.refuse(n)
		}
	case *syntax.DblQuoted:
		if r.whole(n) {
			return false
		}
		for _, part := range n.Parts {
			if lit, ok := part.(*syntax.Lit); ok {
				r.refuse(lit)
			} else {
				syntax.Walk(part, r.visit)
			}
		}
		return false
	case *syntax.Lit:
		r.replace(n)
	}
	return true
}

// whole puts a placeholder in the place of quotes with nothing but a shorthand in them, as people write them for xargs.
// It reports whether these are such.
func (r *replacer) whole(node syntax.Node) bool {
	from, to := int(node.Pos().Offset()), int(node.End().Offset())
	for _, k := range shorthands {
		if text := r.plain[from:to]; text == `"`+k.text+`"` || text == "'"+k.text+"'" {
			r.put(from, to, r.style.placeholder(k.placeholder))
			r.quoted = k.text
			return true
		}
	}
	return false
}

// put writes a placeholder in the place of src[from:to].
func (r *replacer) put(from, to int, placeholder string) {
	r.out.WriteString(r.src[r.done:from])
	r.out.WriteString(placeholder)
	r.done = to
}

// refuse reports a shorthand among other text in quotes: a program may want those characters, or the value may be
// meant.
func (r *replacer) refuse(node syntax.Node) {
	text := r.plain[node.Pos().Offset():node.End().Offset()]
	for _, k := range shorthands {
		if r.err == nil && strings.Contains(text, k.text) {
			r.err = r.inQuotes(k.text)
		}
	}
}

// inQuotes returns the error for a shorthand in quotes, with the command to type if that means the item.
func (r *replacer) inQuotes(text string) error {
	meant := r.src
	for _, k := range shorthands {
		meant = strings.ReplaceAll(meant, k.text, r.style.placeholder(k.placeholder))
	}
	return fmt.Errorf("%s is inside quotes and may be meant literally: use -- %s if it is the item, which is always "+
		"one argument; to use braces literally, set another placeholder with -I STR", text, Quote(meant))
}

// replace puts placeholders in the place of the shorthands in unquoted text. One after a backslash stays.
func (r *replacer) replace(lit *syntax.Lit) {
	end := int(lit.End().Offset())
	for i := int(lit.Pos().Offset()); i < end; {
		if r.plain[i] == '\\' {
			i += 2
			continue
		}
		placeholder, n, err := r.style.at(r.plain[i:end])
		if err != nil {
			r.err = err
			return
		}
		if n == 0 {
			i++
			continue
		}
		r.put(i, i+n, placeholder)
		r.bare = true
		i += n
	}
}

// appended returns a script that names no item with that as the last argument of its one command. A script with a pipe,
// a redirection or a second command has no obvious end: what to do with the item must be written there.
func (s Shorthand) appended(text string, file *syntax.File) (string, error) {
	if len(file.Stmts) == 1 && len(file.Last) == 0 && len(file.Stmts[0].Comments) == 0 {
		stmt := file.Stmts[0]
		call, isCall := stmt.Cmd.(*syntax.CallExpr)
		if isCall && len(call.Args) > 0 && len(stmt.Redirs) == 0 && !stmt.Semicolon.IsValid() && !stmt.Background {
			end := call.End().Offset()
			return text[:end] + " " + s.item() + text[end:], nil
		}
	}
	name := shorthands[0].text
	if s.Replace != "" {
		name = s.Replace
	}
	return "", fmt.Errorf("the script has no placeholder for the item: add %s", name)
}
