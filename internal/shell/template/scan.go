package template

import (
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// ref is a piece of a text that prodigy may have to fill in. The scanner finds it, the walker finds its places, and
// fill gives it a slot.
type ref struct {
	kind refKind

	// start and end are offsets in the text as written, in bytes, and written is what stands there.
	start, end int
	written    string

	// expr is nil for unknownRef.
	expr *expr

	// fault is what is wrong with the ref, wherever it stands.
	fault finding

	// parseStart is the offset of its sentinel in compiler.parseText.
	parseStart int

	// places has one element once the walk is over. None, or several, means that the walk did not understand the text.
	places []place

	// filled reports whether a value takes the place of the ref, which is that of slot.
	filled bool
	slot   int

	// meant reports whether an unknownRef is a slip, or a name of prodigy at the wrong place, and no text of another
	// language.
	meant bool
}

type refKind uint8

const (
	dotted     refKind = iota // ${item.x}, ${item|json}: no shell allows it, so it can only be prodigy's
	simple                    // ${name} and ${name[0]}: the shell's when the script sets the name
	short                     // $name
	literal                   // $${item.x}: the text ${item.x}
	unknownRef                // ${a.b} of an unknown root
)

// nativeUse is an expansion such as ${name%.txt} of a name of prodigy, which the shell itself must do.
type nativeUse struct {
	name    string
	offset  int
	written string
}

// scanner finds the refs of a text. It knows no quotes.
type scanner struct {
	src   string
	names Names

	// refs are in the order of the text.
	refs []*ref

	natives []nativeUse

	// undeclared are each unknown ${name}, which is the shell's, and each $${name}, which is text where ${name} would
	// be refused.
	undeclared []nativeUse

	// noShell reports whether no shell reads the text, so that an unknown name has no value at all.
	noShell bool
}

func (s *scanner) known(name string) bool {
	_, known := s.names.Lookup(name)
	return known
}

// run looks at each run of dollars: $$ is the process id of the shell, but before a placeholder the doubled
// dollar makes it text. Of \$x only the walker knows whether the backslash escapes the dollar, since it knows the
// quotes, so x is looked at. In \$${item.x} the first dollar does not count, and the second begins a placeholder.
func (s *scanner) run() {
	for i := 0; i < len(s.src); {
		next := strings.IndexByte(s.src[i:], '$')
		if next < 0 {
			return
		}
		first := i + next
		i = first
		for i < len(s.src) && s.src[i] == '$' {
			i++
		}
		dollars := i - first
		if backslashes(s.src[:first])%2 == 1 {
			dollars--
		}
		if dollars > 0 || i-first == 1 {
			i = s.at(i-1, dollars)
		}
	}
}

// backslashes counts the backslashes at the end of s.
func backslashes(s string) int { return len(s) - len(strings.TrimRight(s, `\`)) }

// at looks at the expansion whose dollar is at i, the last of a run of dollars, and returns where to go on. An even
// number makes text of it: $$${item.x} is the process id and a value, $${item.x} is text.
func (s *scanner) at(i, dollars int) int {
	doubled := dollars > 0 && dollars%2 == 0
	refs, undeclared := len(s.refs), len(s.undeclared)
	end := i + 1
	if strings.HasPrefix(s.src[end:], "{") {
		end = s.braced(i)
	} else if !doubled {
		end = s.unbraced(i)
	}
	if doubled && len(s.refs) > refs {
		s.makeLiteral(s.refs[len(s.refs)-1])
	}
	if doubled && len(s.undeclared) > undeclared {
		u := &s.undeclared[undeclared]
		u.offset, u.written = u.offset-1, "$"+u.written
	}
	return end
}

// makeLiteral takes the second dollar into r, which then stands for its own text. In a script an unknown $${a.b} is no
// ref at all, and the shell reads it as it is.
func (s *scanner) makeLiteral(r *ref) {
	if r.kind == unknownRef && !r.meant && !s.noShell {
		s.refs = s.refs[:len(s.refs)-1]
		return
	}
	r.kind, r.fault = literal, finding{}
	r.start--
	r.written = s.src[r.start:r.end]
}

// unbraced takes $name if the name is declared, and returns its end. That of a root which is not, as in $map, is the
// shell's.
func (s *scanner) unbraced(i int) int {
	end := i + 1 + shell.NameLen(s.src[i+1:])
	name := s.src[i+1 : end]
	if name != "" && s.names.declared(name) {
		s.add(short, i, end, &expr{root: name}, finding{})
	}
	return end
}

// braced looks at the "${" at i, and returns where to go on. That is after the name if the shell does the rest, since
// its operand may hold placeholders, as in ${x:-${item.name}}.
func (s *scanner) braced(i int) int {
	nameStart := i + 2
	if nameStart < len(s.src) && (s.src[nameStart] == '#' || s.src[nameStart] == '!') {
		return s.prefixed(i)
	}
	end := s.rootEnd(nameStart)
	if end == nameStart { // ${1}, ${@}
		return nameStart
	}
	if s.known(s.src[nameStart:end]) {
		return s.ours(i, end)
	}
	if rest := s.src[end:]; looksDotted(rest) || s.noShell && strings.HasPrefix(rest, ":-") || isSource(rest) {
		if to, ok := s.addUnknown(i, end); ok {
			return to
		}
	}
	if strings.HasPrefix(s.src[end:], "}") {
		s.undeclared = append(s.undeclared, nativeUse{s.src[nameStart:end], i, s.src[i : end+1]})
	}
	return end
}

// rootEnd returns where the name at start ends. Ids of steps may hold dashes; a shell reads ${a-b} as a
// default, so the dashes count only when the whole is a known name.
func (s *scanner) rootEnd(start int) int {
	end := start + shell.NameLen(s.src[start:])
	long := end
	for long > start && long < len(s.src) && (shell.IsNameByte(s.src[long]) || s.src[long] == '-') {
		long++
	}
	if long > end && s.known(s.src[start:long]) {
		return long
	}
	return end
}

// prefixed looks at ${#name…} and ${!name…}: the length of a value, and the variable that it names. The shell does that
// for a whole value, while nothing can do it for ${#item.path}.
func (s *scanner) prefixed(i int) int {
	start := i + 3
	end := s.rootEnd(start)
	name := s.src[start:end]
	switch {
	case name == "" || !s.known(name):
	case looksDotted(s.src[end:]):
		fault := fmt.Sprintf("%q is not supported on prodigy values; assign to a shell variable first: v=${%s; then use ${%sv}",
			s.src[i+2:start], s.src[start:closing(s.src, i)], s.src[i+2:start])
		s.add(dotted, i, closing(s.src, i), &expr{root: name}, finding{codePlaceholder, fault})
		return closing(s.src, i)
	default:
		s.native(name, i)
	}
	return end
}

// ours takes the expansion at i of a known name that ends at nameEnd.
func (s *scanner) ours(i, nameEnd int) int {
	name := s.src[i+2 : nameEnd]
	rest := s.src[nameEnd:]
	// An operator of the shell follows the name, as in ${name%.txt}. Of these, ${name:-text} is a placeholder with a
	// default, unless the text holds expansions, which only the shell can do.
	if !strings.HasPrefix(rest, "}") && !looksDotted(rest) && !strings.HasPrefix(rest, "[") &&
		!(isColonName(rest) && s.names.root(name) && !s.names.declared(name)) {
		e, end, fault := parseExpr(s.src, i, nameEnd)
		if !strings.HasPrefix(rest, ":-") || fault.code != "" {
			s.native(name, i)
			return nameEnd
		}
		s.add(simple, i, end, e, finding{})
		return end
	}
	if name == "workflow" && retired(name, s.src[nameEnd:closing(s.src, i)]) != "" {
		to, _ := s.addUnknown(i, nameEnd)
		return to
	}
	e, end, fault := parseExpr(s.src, i, nameEnd)
	if fault.code == "" {
		fault = s.field(e, s.src[i:end])
		if is, _ := s.names.Lookup(e.root); is.List && len(e.steps) == 0 {
			e.steps = []step{{kind: all}}
		}
	}
	kind := dotted
	if strings.HasPrefix(rest, "}") || strings.HasPrefix(rest, "[") && len(e.steps) <= 1 && len(e.filters) == 0 {
		kind = simple // which a shell could read too, as ${name} and ${name[0]}
	}
	s.add(kind, i, end, e, fault)
	return end
}

// field returns what is wrong with a placeholder whose root does not have the field, and what to write instead.
func (s *scanner) field(e *expr, written string) finding {
	if len(e.steps) == 0 || e.steps[0].kind != byKey {
		return finding{}
	}
	is, _ := s.names.Lookup(e.root)
	key, hint := e.steps[0].key, ""
	near := check.Nearest(key, is.Fields)
	switch {
	case is.List: // ${items.url}, where items are those of a batch
		path := strings.TrimPrefix(written, "${"+e.root)
		hint = fmt.Sprintf("%s is a list: use ${%s[*]%s or ${%s[0]%s", e.root, e.root, path, e.root, path)
	case is.Fields == nil || slices.Contains(is.Fields, key) || is.Seen && (e.def != nil || e.has("opt")):
		return finding{}
	case is.Text:
		hint = fmt.Sprintf("%s is a string here: use ${%s}", e.root, e.root)
	case !is.Seen && s.names.declared(key) && len(e.steps) == 1:
		// In the older tool ${shell.NAME} was the output captured as NAME.
		hint = "did you mean ${" + key + "}?"
	case near != "":
		hint = fmt.Sprintf("did you mean ${%s.%s}?", e.root, near)
	default:
		hint = e.root + " has " + strings.Join(is.Fields, ", ")
	}
	return finding{codeUnknown, "unknown value " + written + " (" + hint + ")"}
}

// native leaves the expansion at i of a name of prodigy to the shell.
func (s *scanner) native(name string, i int) {
	s.natives = append(s.natives, nativeUse{name, i, s.src[i:closing(s.src, i)]})
}

func (s *scanner) add(kind refKind, start, end int, e *expr, fault finding) {
	s.refs = append(s.refs, &ref{kind: kind, start: start, end: end, written: s.src[start:end], expr: e, fault: fault})
}

// addUnknown takes the expansion at i, whose name ends at nameEnd, as one of nobody, and returns its end. It is not ok
// if the expansion can be the shell's.
func (s *scanner) addUnknown(i, nameEnd int) (end int, ok bool) {
	end = closing(s.src, i)
	name, rest := s.src[i+2:nameEnd], s.src[nameEnd:end]
	text, meant := s.unknown(s.src[i:end], name)
	if instead := retired(name, rest); instead != "" {
		text, meant = "unknown value "+s.src[i:end]+": "+instead, looksDotted(rest)
	} else if isSource(rest) {
		return 0, false
	} else if strings.Contains(s.src, "`") { // a template of JavaScript
		meant = false
	}
	s.add(unknownRef, i, end, nil, finding{codeUnknown, text})
	s.refs[len(s.refs)-1].meant = meant
	return end, true
}

// looksDotted reports whether what follows a name can only be a placeholder: no shell has ${a.b} or ${a|b}.
func looksDotted(rest string) bool {
	return len(rest) > 1 && (rest[0] == '.' || rest[0] == '|') && rest[1] != '}'
}

// isSource reports whether what follows a name asked the older tool for something, as in ${cmd:ls}, and is no operator
// of a shell.
func isSource(rest string) bool {
	return len(rest) > 1 && rest[0] == ':' && strings.IndexByte("-=?+ \t\n0123456789", rest[1]) < 0
}

// isValue reports whether r stands for a value, and not for text.
func (r *ref) isValue() bool { return r.kind != unknownRef && r.kind != literal }

// root returns the name that a dotted placeholder of nobody begins with.
func (r *ref) root() string {
	name := r.written[len("${"):]
	return name[:shell.NameLen(name)]
}

// span is the place of a ref in a text with sentinels.
type span struct{ ref, start, end int }
