package shell

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/check"
)

// Shorthand translates a command as xargs and GNU parallel take it into the script of a step.
//
// The replacement strings {}, {.}, {/}, {//}, {/.}, {#} and {%} become placeholders, which stand for one
// argument each whatever the item holds. With a number, as {2}, {-1} and {1/.}, they stand for an element of
// it. Words of a command are quoted, so that no shell acts on what is in them. What is not a shorthand is
// refused, never run as it is.
type Shorthand struct {
	// Batch says that {} stands for several items.
	Batch bool

	// Columns is the number of elements of an item that is a list, which {1}, {2} and {-1} name, or ManyColumns.
	// Zero means that an item is a text.
	Columns int

	// Replace is the one text that stands for the item, as with xargs -I. If it is empty, the replacement
	// strings above do.
	Replace string
}

// ManyColumns means that items are lists of any length.
const ManyColumns = 1 << 30

// shorthands are what stands between the braces of replacement strings, and the placeholders that they become. ITEM is
// the item, or the items of a batch.
var shorthands = []struct{ name, placeholder string }{
	{"", "${ITEM}"},
	{".", "${ITEM|noext}"},
	{"/", "${ITEM|basename}"},
	{"//", "${ITEM|dirname}"},
	{"/.", "${ITEM|basename|noext}"},
	{"#", "${item_index|ordinal}"},
	{"%", "${worker.id}"},
}

// named returns the placeholder for the shorthand {name}, or "" if there is none. The name may begin with the number of
// an element, which counts from 1, or from -1 at the end. A text has one element.
func (s Shorthand) named(name string) string {
	rest := strings.TrimLeft(name, "-0123456789")
	index := "[*]"
	if rest != name {
		n, err := strconv.Atoi(name[:len(name)-len(rest)])
		known := max(s.Columns, 1)
		if err != nil || n == 0 || !s.Batch && (n > known || n < -known) {
			return ""
		}
		if n > 0 {
			n--
		}
		index = fmt.Sprintf("[%d]", n)
	}
	value := "item"
	switch {
	case s.Batch:
		value = "items" + index
	case s.Columns > 0:
		value += index
	}
	for _, k := range shorthands {
		if k.name == rest {
			return strings.ReplaceAll(k.placeholder, "ITEM", value)
		}
	}
	return ""
}

// inBraces returns what stands between the braces that text begins with.
func inBraces(text string) (name string, ok bool) {
	rest, opened := strings.CutPrefix(text, "{")
	name, _, closed := strings.Cut(rest, "}")
	return name, opened && closed
}

// at returns the placeholder for the shorthand that text begins with, or the placeholder of an item, and its length; 0
// if there is none.
func (s Shorthand) at(text string) (placeholder string, n int, err error) {
	name, ok := inBraces(text)
	switch {
	case s.Replace != "" && strings.HasPrefix(text, s.Replace):
		return s.named(""), len(s.Replace), nil
	case strings.HasPrefix(text, "${item"):
		placeholder = expansion().FindString(text)
		return placeholder, len(placeholder), nil
	case s.Replace != "" || !ok:
		return "", 0, nil
	}
	if placeholder = s.named(name); placeholder != "" {
		return placeholder, len(name) + 2, nil
	}
	return "", 0, unknownShorthand(name)
}

// inQuotes is at for text in quotes, where {2} is only a shorthand if items have several elements: else it may be meant
// for the program, as in grep -E 'a{2}'.
func (s Shorthand) inQuotes(text string) (placeholder string, n int, err error) {
	name, ok := inBraces(text)
	if !ok || s.Columns == 0 && !s.Batch && strings.ContainsAny(name, "0123456789") {
		return "", 0, nil
	}
	if placeholder = s.named(name); placeholder != "" {
		n = len(name) + 2
	}
	return placeholder, n, nil
}

// replaced returns text with placeholders in the place of what at finds in it, and the first that this found. What is
// constant is written by constant.
func replaced(text string, at func(string) (string, int, error), constant func(string) string) (
	written, first string, err error,
) {
	var b strings.Builder
	start := 0 // text[:start] has been written; text[start:i] is constant
	for i := 0; i < len(text); {
		placeholder, n, err := at(text[i:])
		if err != nil {
			return "", "", err
		}
		if n == 0 {
			i++
			continue
		}
		first = cmp.Or(first, text[i:i+n])
		b.WriteString(constant(text[start:i]) + placeholder)
		i += n
		start = i
	}
	b.WriteString(constant(text[start:]))
	return b.String(), first, nil
}

// Text returns text that no shell reads, such as a prompt, with its shorthands replaced. A dollar sign in it is one,
// except in the placeholder of an item. An item that is not named is the last word.
func (s Shorthand) Text(text string) (string, error) {
	text, first, err := replaced(text, s.at, func(constant string) string {
		return strings.ReplaceAll(constant, "$", "$$")
	})
	if err == nil && first == "" {
		text += " " + s.named("")
	}
	return text, err
}

// Words returns the script that runs a program with arguments. Nothing but shorthands and the placeholders of
// an item has a meaning in them. If none of them names the item, it is the last argument.
func (s Shorthand) Words(words []string) (string, error) {
	if len(words) == 0 || words[0] == "" {
		return "", errors.New("the command is empty")
	}
	named := false
	script := make([]string, 0, len(words)+2)
	// exec runs the program of that name, and not a builtin or a keyword of the shell: echo is /bin/echo, as for xargs.
	if !IsProgram(words[0]) {
		script = append(script, "exec")
	}
	for _, word := range words {
		if !utf8.ValidString(word) {
			return "", fmt.Errorf("word %q is not valid UTF-8", word)
		}
		code, first, err := replaced(word, s.at, quoteConstant)
		if err != nil {
			return "", err
		}
		named = named || first != ""
		script = append(script, cmp.Or(code, "''"))
	}
	if !named {
		script = append(script, s.named(""))
	}
	return strings.Join(script, " "), nil
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

// unknownShorthand returns an error if braces around name are what GNU parallel would replace, or look as if they were
// to be replaced: {2}, {+/}, {= perl code =}. Other braces are text, as in {a,b}, {1..3}, {"a": 1} and {print}.
func unknownShorthand(name string) error {
	isPerl := len(name) > 1 && name[0] == '=' && name[len(name)-1] == '='
	odd := strings.Trim(name, "0123456789.+/#%-") != "" || strings.Contains(strings.Trim(name, "."), "..") // {1..9}
	if odd && !isPerl {
		return nil
	}
	var known strings.Builder
	for _, k := range shorthands {
		known.WriteString(" {" + k.name + "}")
	}
	return fmt.Errorf("unknown placeholder {%s} (known:%s, with a number only with :::, --colsep or -N); to use braces "+
		"literally, set another placeholder with -I STR", name, known.String())
}

// expansion matches a ${…}. In a default \} is a brace.
var expansion = check.Regexp(`\$\{(?:[^\\}]|\\(?s:.))*\}`)

// Script returns the script with its shorthands replaced. If it is a simple command and names no item, that is
// the last argument.
func (s Shorthand) Script(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", errors.New("the command is empty")
	}
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("script %q is not valid UTF-8", text)
	}
	if s.Replace != "" && strings.Contains(text, s.Replace) {
		return strings.ReplaceAll(text, s.Replace, s.named("")), nil
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
			r.err = r.quotesError(r.quoted)
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
	return expansion().ReplaceAllStringFunc(text, func(whole string) string {
		b := []byte(whole)
		for i, c := range b {
			if c != '\n' {
				b[i] = 'x'
			}
		}
		return string(b)
	})
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
	text := strings.Trim(r.plain[from:to], `"'`)
	placeholder, n, _ := r.style.inQuotes(text)
	if n == 0 || n != to-from-2 {
		return false
	}
	r.put(from, to, placeholder)
	r.quoted = text
	return true
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
	_, first, _ := replaced(r.plain[node.Pos().Offset():node.End().Offset()], r.style.inQuotes, strings.Clone)
	if r.err == nil && first != "" {
		r.err = r.quotesError(first)
	}
}

// quotesError returns the error for a shorthand in quotes, with the command to type if that means the item.
func (r *replacer) quotesError(text string) error {
	meant, _, _ := replaced(r.src, r.style.inQuotes, strings.Clone)
	return fmt.Errorf("%s is inside quotes, and possibly literal: use -- %s for the item, which is always "+
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
			return text[:end] + " " + s.named("") + text[end:], nil
		}
	}
	return "", fmt.Errorf("the script has no placeholder for the item: add %s", cmp.Or(s.Replace, "{}"))
}
