package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// expr is a parsed placeholder: ${root.key[0]["key"][*]|filter:-default}.
type expr struct {
	root    string
	steps   []step
	filters []pipe

	// def takes the place of a value that is missing or empty. Nil means that there is no default, which differs from
	// an empty one: ${item.note:-}.
	def *string
}

// isJSON reports whether the value is JSON text, whatever it says: the results of a map, or what |json makes.
func (e *expr) isJSON() bool {
	if len(e.filters) == 0 {
		return e.isOfMap("results") && e.def == nil
	}
	return e.filters[len(e.filters)-1].name == "json" && !e.isList()
}

// isOfMap reports whether the placeholder is ${map.key}.
func (e *expr) isOfMap(key string) bool {
	return e.root == "map" && len(e.steps) == 1 && e.steps[0].kind == byKey && e.steps[0].key == key
}

// step goes from a value to a part of it. index counts from 0, or from -1 at the end.
type step struct {
	kind  stepKind
	key   string
	index int
}

type stepKind uint8

const (
	byKey stepKind = iota
	byIndex
	all // every element: [*]
)

// exprParser reads the text of a placeholder after its "${". It stops at the first fault.
type exprParser struct {
	*expr // what has been read

	src   string
	pos   int
	fault finding
}

// parseExpr reads the placeholder whose "${" is at start and whose root ends at rootEnd. It returns the index
// after its "}".
func parseExpr(src string, start, rootEnd int) (e *expr, end int, fault finding) {
	p := &exprParser{expr: &expr{root: src[start+2 : rootEnd]}, src: src, pos: rootEnd}
	// ${env:NAME} is a spelling of ${env.NAME}.
	if isColonName(src[rootEnd:]) {
		p.pos++
		p.steps = append(p.steps, step{key: p.key()})
	}
	p.path()
	p.filterList()
	p.byDefault()
	if p.fault.code == "" && p.peek() != '}' {
		p.operator()
	}
	if p.fault.code != "" {
		return p.expr, closing(src, start), p.fault
	}
	return p.expr, p.pos + 1, finding{}
}

// peek returns the next byte, or 0 at the end of the text. A script holds no NUL byte, since scan refuses it.
func (p *exprParser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func (p *exprParser) fail(format string, args ...any) {
	if p.fault.code == "" {
		p.fault = finding{codePlaceholder, fmt.Sprintf(format, args...)}
	}
}

// isColonName reports whether what follows a root is the ":NAME" of ${env:NAME}.
func isColonName(rest string) bool {
	return len(rest) > 1 && rest[0] == ':' && isKeyByte(rest[1]) && rest[1] != '-' && !isDigit(rest[1])
}

// stepForm matches ".key", "[0]", "[*]", `["key"]` and "['key']". A quoted key may hold anything but its own quote and
// bracket: nothing is escaped in it.
var stepForm = check.Regexp(`^(?s:\.([\w\x{80}-\x{10FFFF}-]+)|\[(-?\d{1,9}|\*)\]|\["(.*?)"\]|\['(.*?)'\])`)

// path reads any number of steps.
func (p *exprParser) path() {
	for p.fault.code == "" && (p.peek() == '.' || p.peek() == '[') {
		rest := p.src[p.pos:]
		form := stepForm().FindStringSubmatch(rest)
		switch {
		case form == nil && rest[0] == '.':
			p.fail("a name is required after the dot in %s", p.String())
			return
		case form == nil:
			line, _, _ := strings.Cut(rest, "\n")
			index, _, _ := strings.Cut(line, "]")
			p.fail("invalid index %s]: use [0], [\"key\"] or [*]", index)
			return
		case form[2] == "*":
			p.steps = append(p.steps, step{kind: all})
		case form[2] != "":
			n, _ := strconv.Atoi(form[2])
			p.steps = append(p.steps, step{kind: byIndex, index: n})
		default:
			p.steps = append(p.steps, step{key: form[1] + form[3] + form[4]})
		}
		p.pos += len(form[0])
	}
}

// key reads a name, which may be empty. It may hold dashes, as ids of steps do.
func (p *exprParser) key() string {
	start := p.pos
	for isKeyByte(p.peek()) {
		p.pos++
	}
	return p.src[start:p.pos]
}

// filterList reads any number of "|name", some of them with ":argument".
func (p *exprParser) filterList() {
	for p.fault.code == "" && p.peek() == '|' {
		p.pos++
		name := p.key()
		switch {
		case !slices.Contains(filterNames, name):
			p.fail("unknown filter |%s (known: %s)", name, strings.Join(filterNames, ", "))
		case name == "default":
			def := p.argument(name)
			p.def = &def
		case name == "pattern":
			pattern := p.argument(name)
			if !doublestar.ValidatePattern(pattern) {
				p.fail("%q is not a pattern like *.go or src/**/*.go", pattern)
			}
			p.filters = append(p.filters, pipe{name, pattern})
		default:
			p.filters = append(p.filters, pipe{name: name})
		}
	}
}

// argument reads the literal text behind the colon of a filter.
func (p *exprParser) argument(name string) string {
	if p.peek() != ':' {
		p.fail("the filter |%s needs an argument: ${%s|%s:…}", name, p.root, name)
		return ""
	}
	p.pos++
	return p.literal("}|", "the argument of |"+name+": is literal")
}

// literal reads text up to one of the ends, which are part of it behind a backslash. Messages say what it is.
func (p *exprParser) literal(ends, what string) string {
	var text strings.Builder
	for ; p.pos < len(p.src) && strings.IndexByte(ends, p.peek()) < 0; p.pos++ {
		switch c := p.peek(); {
		case c == '$' || c == '`':
			p.fail("%s; %q is not expanded", what, string(c))
		case c == '\\' && p.pos+1 < len(p.src) && strings.IndexByte(ends, p.src[p.pos+1]) >= 0:
			p.pos++
		}
		text.WriteByte(p.src[p.pos])
	}
	if p.pos == len(p.src) {
		p.fail("${%s has no closing brace", p.root)
	}
	return text.String()
}

// byDefault reads ":-text}".
func (p *exprParser) byDefault() {
	if p.fault.code != "" || !strings.HasPrefix(p.src[p.pos:], ":-") {
		return
	}
	p.pos += 2
	// A default takes all up to the brace. ${item.name:-none|url} would have the default "none|url".
	def := p.literal("}", "the default of ${"+p.root+"…} is literal")
	if _, filter, ok := strings.Cut(def, "|"); ok && slices.Contains(filterNames, filter) {
		p.fail("a filter must come before the default: ${%s|%s:-…}", p.root, filter)
	}
	p.def = &def
}

// operator says what is wrong with a placeholder that goes on where it should end, as ${item.path%.txt} does.
func (p *exprParser) operator() {
	if p.pos >= len(p.src) {
		p.fail("${%s has no closing brace", p.root)
		return
	}
	op := p.src[p.pos : p.pos+1]
	p.fail("%q is not supported on prodigy values; assign to a shell variable first: v=%s; then use ${v%s...}", op,
		(&expr{root: p.root, steps: p.steps}).String(), op)
}

// String writes the placeholder in its plainest spelling, which parses to the same expression.
func (e *expr) String() string {
	var b strings.Builder
	b.WriteString("${" + e.root)
	for _, s := range e.steps {
		b.WriteString(s.String())
	}
	for _, f := range e.filters {
		b.WriteString(f.String())
	}
	if e.def != nil {
		b.WriteString(":-" + check.Escape(*e.def, "}"))
	}
	return b.String() + "}"
}

func (s step) String() string {
	switch {
	case s.kind == all:
		return "[*]"
	case s.kind == byIndex:
		return "[" + strconv.Itoa(s.index) + "]"
	case s.key != "" && !strings.ContainsFunc(s.key, func(c rune) bool { return c < 0x80 && !isKeyByte(byte(c)) }):
		return "." + s.key
	case strings.Contains(s.key, `"]`):
		return "['" + s.key + "']"
	}
	return `["` + s.key + `"]`
}

// isList reports whether the placeholder stands for several words.
func (e *expr) isList() bool {
	return e.takesAll() || slices.ContainsFunc(e.filters, pipe.makesList)
}

// takesAll reports whether the path goes to every element of a list.
func (e *expr) takesAll() bool {
	return slices.ContainsFunc(e.steps, func(s step) bool { return s.kind == all })
}

// has reports whether the placeholder has a filter of this name.
func (e *expr) has(name string) bool {
	return slices.ContainsFunc(e.filters, func(f pipe) bool { return f.name == name })
}

// closing returns the index after the brace that closes the "${" at start, or the end of its line. Unlike parseExpr it
// takes any text, such as ${x:-${y}}, for messages and for what the shell is left with.
func closing(src string, start int) int {
	depth := 0
	for i := start; i < len(src); i++ {
		switch {
		case src[i] == '\\':
			i++
		case strings.HasPrefix(src[i:], "${"):
			depth++
			i++
		case src[i] == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case src[i] == '\n':
			return i
		}
	}
	return len(src)
}

func isKeyByte(c byte) bool { return shell.IsNameByte(c) || c == '-' || c >= 0x80 }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// filterNames are the filters, in the order in which messages list them. What they do is in filtered (sh, json, url,
// int, ordinal, basename, dirname, noext, file) and expanded (words, opt, pattern). raw changes only where the value
// stands: it becomes code. default is another way to write :-text.
var filterNames = strings.Fields("raw sh json url int ordinal words basename dirname noext file opt pattern default")

// pipe is a filter of a placeholder, such as |json.
type pipe struct {
	name string

	// pattern is the argument of |pattern: * and ? stand for anything but a slash, ** for any folders, [a-z] for one of
	// these. Without a slash it is about the last part of a path.
	pattern string
}

func (f pipe) String() string {
	if f.name != "pattern" {
		return "|" + f.name
	}
	return "|pattern:" + check.Escape(f.pattern, "}|")
}

// makesList reports whether the filter gives any number of words.
func (f pipe) makesList() bool { return f.name == "words" || f.name == "opt" || f.name == "pattern" }
