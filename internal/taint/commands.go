package taint

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"prodigy/internal/shell"
)

// maxWays is how many readings of one command are followed: each word may have several texts.
const maxWays = 16

// call interprets a simple command and returns what it prints.
func (t *analysis) call(f *shellFrame, call *syntax.CallExpr) texts {
	var prefix []*site
	for _, a := range call.Assigns {
		s := t.assignment(f, a)
		if s != nil && len(call.Args) > 0 {
			t.export(a.Name.Value)
			prefix = append(prefix, s)
		} else if s != nil {
			s.always = a.Index == nil && !a.Append
		}
	}
	if len(call.Args) == 0 {
		var out texts // of $(…) alone in command position: nothing is printed
		return out.with("")
	}
	ways := empty
	for i, word := range call.Args {
		if i > 0 {
			ways = t.joined(ways, texts{fieldEnd}, call)
		}
		in := t.argument(f, word)
		if len(ways)*len(in) > maxWays {
			in = t.remains(in, word, sure)
		}
		ways = t.joined(ways, in, call)
	}
	var out texts
	for i, way := range ways {
		in := f
		if i > 0 { // another reading of the same words
			in = t.branch(f, siteNode{call, i})
		} else if len(ways) > 1 {
			in = t.within(f, siteNode{call, i})
		}
		out = out.with(t.runWords(in, fieldsOf(way), call)...)
	}
	if len(prefix) > 0 && !keepsAssignments(call.Args[0].Lit(), t) {
		for _, s := range prefix {
			s.over = true
		}
	}
	return t.bounded(out, call)
}

// keepsAssignments reports whether what is assigned in front of a command may stay when it has run.
func keepsAssignments(name string, t *analysis) bool {
	return t.funcs[name] != nil || slices.Contains(strings.Fields(": . break continue eval exec exit export readonly return set shift source times trap unset command"), name)
}

// runWords interprets the words of a command.
func (t *analysis) runWords(f *shellFrame, words []field, node syntax.Node) texts {
	t.steps++
	if len(words) == 0 || t.exhausted {
		return empty
	}
	t.assignLast(f, words, node)
	if alias, ok := t.aliases[words[0].text]; ok && len(f.chain) < maxDepth {
		var out texts
		for _, text := range alias {
			in := f.inner()
			in.chain = append(slices.Clip(f.chain), nil)
			if fields := fieldsOf(t.split(texts{text})[0]); len(fields) > 0 && fields[0].text != words[0].text {
				out = out.with(t.runWords(in, append(fields, words[1:]...), node)...)
			}
		}
		return out
	}
	w := wrapperOf(words[0].text)
	switch {
	case shell.ProgramName(words[0].text) == "find":
		return t.find(f, words, node)
	case w != nil:
		return t.wrapped(f, w, words, node)
	}
	return t.program(f, words, node)
}

func (t *analysis) assignLast(f *shellFrame, words []field, node syntax.Node) {
	if t.usesLast {
		t.assign(f, "_", node, texts{words[len(words)-1].text}, true)
	}
}

func wrapperOf(word string) *wrapper {
	name := shell.ProgramName(word)
	if i := slices.IndexFunc(wrapperTable, func(w wrapper) bool { return w.name == name }); i >= 0 {
		return &wrapperTable[i]
	}
	return nil
}

// wrapped interprets a program that starts another.
func (t *analysis) wrapped(f *shellFrame, w *wrapper, words []field, node syntax.Node) texts {
	i := 1
	replace, whole := "", false // of xargs: what stands for a line, and that blanks do not part one
	for ; i < len(words); i++ {
		text := words[i].text
		t.splitBefore(words[i], w, i)
		name, value, isAssignment := strings.Cut(text, "=")
		switch {
		case w.name == "command" && (text == "-v" || text == "-V"):
			return empty
		case w.name == "env" && isAssignment && syntax.ValidName(name):
			t.export(name)
			s := t.assign(f, name, siteKey{name, node, i}, texts{value}, false)
			defer func() { s.over = true }()
			continue
		case w.name == "env" && len(t.marksIn(text)) > 0 && isAssignment && startsUnknown(text):
			t.leak(nameSink, name)
			continue
		case w.name == "env" && (strings.HasPrefix(text, "-S") || strings.HasPrefix(text, "--split-string")):
			if text == "-S" && i+1 < len(words) {
				i++
				text = words[i].text
			}
			code := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(text, "--split-string"), "-S"), "=")
			t.leak(codeSink, code)
			inner := append(fieldsOf(t.split(texts{code})[0]), words[i+1:]...)
			return t.runWords(f, inner, node)
		case !strings.HasPrefix(text, "-") || text == "-":
			if w.name == "env" && text == "-" {
				continue
			}
		case text == "--":
			i++
		case w.name == "xargs" && strings.HasPrefix(text, "-I"):
			replace = strings.TrimPrefix(text, "-I")
			if replace == "" && i+1 < len(words) {
				i++
				replace = words[i].text
			}
			continue
		case w.name == "xargs" && text == "-i":
			replace = "{}"
			continue
		case w.name == "xargs" && (text == "-0" || text == "--null" || strings.HasPrefix(text, "-d") || strings.HasPrefix(text, "--delimiter")):
			whole = true
			if text == "-d" || text == "--delimiter" {
				i++
			}
			continue
		case len(text) == 2 && strings.Contains(w.takes, text[1:]):
			if i++; i < len(words) {
				t.splitBefore(words[i], w, i)
			}
			continue
		default:
			continue
		}
		break
	}
	if w.operand && i < len(words) {
		t.splitBefore(words[i], w, i)
		i++
	}
	if i >= len(words) {
		if w.name == "xargs" {
			return t.change(f.stdin, func(m mark) mark { m.quoted, m.inert = false, false; return m })
		}
		return empty
	}
	inner := slices.Clone(words[i:])
	if w.name == "flock" && strings.HasPrefix(inner[0].text, "-") || w.name == "parallel" || w.name == "runuser" {
		return t.program(f, words, node) // with -c: code
	}
	if w.name == "xargs" {
		return t.xargs(f, inner, replace, whole, node)
	}
	return t.runWords(f, inner, node)
}

// splitBefore warns of an option or operand of a wrapper that may be several words: the second may be taken for the command.
func (t *analysis) splitBefore(x field, w *wrapper, at int) {
	if !x.many || startsUnknown(x.text) && at == 1 && !w.operand {
		return // it is the command
	}
	says := "is split into words in front of the command that " + w.name + " starts, and one of them may be taken for it; write it in quotes"
	t.leak(sink{code: codeCommandName, says: says, least: likely}, x.text)
}

// xargs interprets a command with what xargs reads as more words of it.
func (t *analysis) xargs(f *shellFrame, command []field, replace string, whole bool, node syntax.Node) texts {
	var out texts
	for i, text := range t.notInert(f.stdin) {
		in := t.fork(f, siteNode{node, i})
		in.stdin = empty
		words := slices.Clone(command)
		text = strings.TrimRight(text, "\n")
		if !whole { // it takes quotes and backslashes away
			text = t.change(texts{text}, func(m mark) mark { m.quoted = false; return m })[0]
		}
		switch {
		case replace != "":
			for i := range words {
				words[i].text = strings.ReplaceAll(words[i].text, replace, text)
			}
		case whole:
			words = append(words, field{text: text, many: true})
		default:
			for _, x := range fieldsOf(t.split(texts{text})[0]) {
				x.many = true
				words = append(words, x)
			}
		}
		out = out.with(t.runWords(in, words, node)...)
	}
	return t.bounded(out, node)
}

// find interprets the commands of find.
func (t *analysis) find(f *shellFrame, words []field, node syntax.Node) texts {
	out := t.remains(textsOf(words), node, perhaps)
	for i, x := range words {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, x.text) {
			continue
		}
		end := i + 1
		for end < len(words) && words[end].text != ";" && words[end].text != "+" {
			end++
		}
		out = out.with(t.runWords(t.branch(f, siteNode{node, i}), slices.Clone(words[i+1:end]), siteNode{node, i})...)
	}
	return out
}

// siteCode is code that a node runs.
type siteCode struct{ node, code any }

// siteNode is a part of a node that has none of its own.
type siteNode struct {
	syntax.Node
	part int
}

// program interprets a command that is no wrapper.
func (t *analysis) program(f *shellFrame, words []field, node syntax.Node) texts {
	name := words[0].text
	if len(t.marksIn(name)) > 0 && t.isInert(name) {
		return empty
	}
	if len(t.marksIn(name)) > 0 {
		if words[0].many && startsUnknown(name) {
			t.leak(sink{what: "the place of a command", remedy: "write |raw when the value is meant to be code, and quotes when it is meant to name a program", least: likely}, name)
		}
		t.leak(sink{code: codeCommandName, words: true, says: "names the command; whoever writes the value chooses the program"}, name)
		return t.remains(textsOf(words), node, perhaps)
	}
	if startsUnknown(name) {
		t.unknownProgram(words)
		return t.remains(append(textsOf(words), f.stdin...), node, perhaps)
	}
	if fns := t.funcs[name]; fns != nil {
		return t.function(f, fns, words, node)
	}
	if content := t.files[strings.TrimPrefix(name, "./")]; content != nil && strings.Contains(name, "/") {
		t.code(f, content, true, words, node)
	}
	args := make([]string, len(words))
	for i, x := range words {
		if args[i] = x.text; startsUnknown(x.text) {
			args[i] = ""
		}
	}
	if shell.IsShell(name) {
		t.shellFile(f, words, args, node)
	}
	plan := shell.PlanCall(args)
	var ran texts // what the code among the words prints
	outer := f
	if shell.ProgramName(name) == "trap" {
		f = t.within(f, node)
		f.region, f.guards = t.regionOf(outer.region, node, region{anytime: true}), outer.namedGuards()
	}
	for _, code := range plan.Codes {
		parts := make([]string, len(code.Args))
		for i, at := range code.Args {
			parts[i] = words[at].text
		}
		var params []field
		if last := code.Args[len(code.Args)-1]; code.Child && len(code.Args) == 1 {
			params = words[last+1:]
		}
		ran = ran.with(t.code(f, texts{strings.Join(parts, " ")}, code.Child, params, node)...)
	}
	if plan.Stdin != nil {
		ran = ran.with(t.codeOf(f, f.stdin, plan.Stdin.Child, true, stdinParameters(words), siteNode{node, -1})...)
	}
	f = outer
	base := shell.ProgramName(name)
	t.builtin(f, base, words, node)
	p, known := programOf(base)
	if known {
		t.language(f, base, p, words)
	}
	printed := t.printed(f, base, p, known, words, node)
	if len(ran) > 0 {
		return t.bounded(ran.with(printed...), node)
	}
	return printed
}

// stdinParameters returns the parameters of sh -s a b, from $0.
func stdinParameters(words []field) []field {
	for i, x := range words {
		if i > 0 && !strings.HasPrefix(x.text, "-") {
			return words[i-1:]
		}
	}
	return nil
}

// unknownProgram warns of data behind -c of a program whose name only a run knows.
func (t *analysis) unknownProgram(words []field) {
	for i, x := range words[1:] {
		if shell.IsCodeOption(x.text) && i+2 < len(words) && len(t.marksIn(words[i+2].text)) > 0 {
			t.leak(codeSink, t.lowered(texts{words[i+2].text}, likely)...)
		}
	}
}

// function interprets a call of a function of the script.
func (t *analysis) function(f *shellFrame, fns []*syntax.FuncDecl, words []field, node syntax.Node) texts {
	params := texts{joinFields(words[1:])}
	var out texts
	for _, fn := range fns {
		t.called[fn] = true
		if slices.Contains(f.chain, fn) || len(f.chain) > maxDepth {
			merged := t.bounded(t.again[fn].with(params...), fn)
			t.changed = t.changed || !slices.Equal(merged, t.again[fn])
			t.again[fn] = merged
			out = out.with(t.remains(textsOf(words), node, likely)...)
			continue
		}
		out = out.with(t.stmt(f.call(t, fn, node, params), fn.Body)...)
	}
	return out
}

// shellFile interprets the file that a shell is given, and looks for data that chooses it.
func (t *analysis) shellFile(f *shellFrame, words []field, args []string, node syntax.Node) {
	for _, x := range words[1:] {
		if !strings.HasPrefix(x.text, "-") && x.text != "allexport" {
			break
		}
		if !strings.HasPrefix(x.text, "--") && strings.Contains(x.text, "a") {
			t.export("*")
		}
	}
	for i, x := range words[1:] {
		text := x.text
		data := len(t.marksIn(text)) > 0
		switch {
		case data && x.many && startsUnknown(text):
			t.leak(sink{what: "the options of a shell", remedy: "write it in quotes behind --", least: likely}, text)
			return
		case data && startsUnknown(text) && i == 0:
			t.leak(sink{code: codeCommandName, says: "chooses the script that a shell runs; whoever writes the value chooses what runs"}, text)
			return
		case strings.HasPrefix(text, "-") && text != "-" && text != "--":
			if strings.ContainsAny(text, "cs") && !strings.HasPrefix(text, "--") {
				return
			}
			continue
		case text == "--":
			continue
		}
		if data {
			t.leak(sink{code: codeCommandName, says: "chooses the script that a shell runs; whoever writes the value chooses what runs"}, text)
		}
		if content := t.content(f, text); content != nil && !shell.IsDescriptor(text) && text != "-" {
			t.code(f, content, true, words[i+1:], node)
		} else if shell.IsDescriptor(text) && t.fds != nil {
			t.code(f, t.fds, true, words[i+1:], node)
		}
		return
	}
}

// code interprets code for a shell, a child or this one, and returns what it prints. The parameters of a child begin with $0.
func (t *analysis) code(f *shellFrame, all texts, child bool, params []field, node syntax.Node) texts {
	return t.codeOf(f, all, child, f.fed && !child, params, node)
}

// codeOf is code, for a shell that is fed its code by its input or not.
func (t *analysis) codeOf(f *shellFrame, all texts, child, fed bool, params []field, node syntax.Node) texts {
	var out texts
	all = flat(all)
	for _, text := range all {
		var b strings.Builder
		var marks []int
		t.pieces(text, func(s string) { b.WriteString(s) }, func(i int) {
			b.WriteString("${" + opaqueVariable(i) + "}")
			marks = append(marks, i)
			if m := t.marks[i]; m.source >= 0 && !m.quoted {
				t.leak(codeSink, t.mark(m))
			}
		})
		code := b.String()
		if strings.TrimSpace(code) == "" {
			continue
		}
		if f.depth >= maxDepth {
			t.tooDeep = true
			return out
		}
		file, ok := t.parsed[code]
		if !ok {
			file, _ = shell.Parse(code, t.Dialects)
			t.parsed[code] = file
		}
		if file == nil {
			t.partlyCode(marks)
			continue
		}
		for _, i := range marks {
			if m := t.marks[i]; m.source >= 0 && m.quoted && !standsBare(file, code, opaqueVariable(i)) {
				t.leak(codeSink, t.mark(m))
			}
		}
		in := f.inner()
		in.cond, in.fed = f.cond, fed
		in.ctx, in.depth = t.context(f.ctx, node, code), f.depth+1
		if child || len(all) > 1 {
			in.region = t.regionOf(f.region, siteCode{node, code}, region{fork: child})
		}
		if !child && len(marks) > 0 {
			t.exportUnknown(f)
		}
		if child {
			in.proc = in.ctx
			in.set, in.params, in.loose, in.cond, in.chain = nil, empty, false, 0, nil
			in.guards = f.namedGuards()
			if len(params) > 0 {
				in.zero, in.params = texts{params[0].text}, texts{joinFields(params[1:])}
				if params[0].many {
					in.params = texts{joinFields(params)}
				}
			}
		}
		out = out.with(t.stmts(in, file.Stmts)...)
	}
	return t.bounded(out, node)
}

// partlyCode takes code that is no valid shell, since data in it may make it so: what is quoted may not be in it either.
func (t *analysis) partlyCode(marks []int) {
	for _, i := range marks {
		t.leak(codeSink, t.mark(t.marks[i]))
	}
}

// standsBare reports whether a variable is used outside quotes only.
func standsBare(file *syntax.File, code, name string) bool {
	bare := 0
	var quotes []syntax.Node
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			quotes = quotes[:len(quotes)-1]
			return true
		}
		quotes = append(quotes, n)
		p, ok := n.(*syntax.ParamExp)
		if !ok || p.Param == nil || p.Param.Value != name {
			return true
		}
		inQuotes := slices.ContainsFunc(quotes, func(q syntax.Node) bool {
			switch q := q.(type) {
			case *syntax.DblQuoted, *syntax.ArithmExp, *syntax.ArithmCmd:
				return true
			case *syntax.Redirect:
				return q.Hdoc != nil
			}
			return false
		})
		if !inQuotes {
			bare++
		}
		return true
	})
	return bare == strings.Count(code, "${"+name+"}")
}

// language reports data in code of a language that is not the shell's.
func (t *analysis) language(f *shellFrame, name string, p program, words []field) {
	says := "stands in code for " + name + ", which may read more into it than a value; pass it as an argument or through the environment"
	report := func(text string) {
		_, flags, _ := strings.Cut(text[strings.LastIndexByte(text, 0)+1:], "/")
		runs := name == "sed" && (startsUnknown(text) || strings.Contains(flags, "e")) // 1ecommand, and s/a/b/e, which runs the line
		t.leak(sink{code: codeLanguage, says: says, least: likely, words: runs}, text)
	}
	found, operands := false, 0
	for i := 1; i < len(words); i++ {
		text := words[i].text
		if option := slices.IndexFunc(p.options, func(o string) bool { return text == o }); option >= 0 {
			found = true
			if i+1 < len(words) {
				i++
				report(words[i].text)
			}
			continue
		}
		if o := slices.IndexFunc(p.options, func(o string) bool {
			return len(o) == 2 && strings.HasPrefix(text, o) || strings.HasPrefix(o, "--") && strings.HasPrefix(text, o+"=") ||
				len(o) == 2 && strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") && strings.HasSuffix(text, o[1:]) && isConstant(text)
		}); o >= 0 {
			found = true
			if isConstant(text) && strings.HasSuffix(text, p.options[o][1:]) && i+1 < len(words) {
				i++
				text = words[i].text
			}
			report(text)
			continue
		}
		if slices.Contains([]string{"--arg", "--argjson", "--slurpfile", "--rawfile"}, text) {
			i += 2
			continue
		}
		if strings.HasPrefix(text, "-") && text != "-" {
			if len(text) == 2 && strings.Contains(p.takes, text[1:]) {
				i++
				if text == "-f" && i < len(words) {
					found = true
					for _, content := range t.content(f, words[i].text) {
						report(content)
					}
				}
			}
			continue
		}
		operands++
		if operands == 1 && p.operand && !found {
			report(text)
		}
		if operands == 1 && p.reads && text == "-" {
			operands = 0
			break
		}
	}
	if p.reads && operands == 0 && !found {
		for _, text := range f.stdin {
			report(text)
		}
	}
}

// printed returns what a program prints.
func (t *analysis) printed(f *shellFrame, name string, p program, known bool, words []field, node syntax.Node) texts {
	args := textsOf(words[1:])
	switch {
	case name == "printf":
		if len(args) > 0 && args[0] == "-v" {
			return empty
		}
		return t.format(args, node)
	case name == "echo":
		for len(args) > 0 && slices.Contains([]string{"-n", "-e", "-ne", "-en", "-E"}, args[0]) {
			args = args[1:]
		}
		return texts{strings.Join(args, " ") + "\n"}
	case strings.HasSuffix(name, "grep") && slices.ContainsFunc(args, func(a string) bool { return a == "-c" || a == "--count" || a == "-q" }):
		return t.opaque(node)
	case name == "pwd":
		return t.read(f, "PWD")
	case name == "printenv" && len(args) > 0 && syntax.ValidName(args[0]):
		return t.read(f, args[0])
	case name == "tr" && len(args) == 2 && (args[0] == "-dc" || args[0] == "-cd") && isStrictClass("[!"+strings.TrimSuffix(args[1], `\n`)+"]"):
		return t.opaque(node)
	case name == "tee":
		for _, a := range args {
			t.written(a, f.stdin)
		}
		return f.stdin
	case !known && (name == "eval" || shell.IsShell(name) || name == "source" || name == "."):
		return t.remains(append(args, f.stdin...), node, likely)
	case !known:
		return t.remains(append(args, f.stdin...), node, perhaps)
	}
	switch p.prints {
	case silence:
		if slices.Contains([]string{"wc", "date", "mktemp", "id", "seq", "uname", "nproc", "hostname", "stat", "du", "df"}, name) {
			return t.opaque(node)
		}
		return empty
	case itsWords:
		return t.remains(args, node, sure).with(args...)
	case itsInput, partsOf:
		var in texts
		for _, a := range args {
			if content := t.content(f, a); content != nil {
				in = in.with(content...)
			}
		}
		if len(in) == 0 {
			in = f.stdin
		}
		at := sure
		if p.prints == partsOf {
			at = likely
		}
		out := t.remains(in, node, at)
		if p.prints == itsInput {
			out = in.with(out...)
			if name == "cat" && len(in) > 0 {
				out = in
			} else {
				out = t.notInert(out)
			}
		}
		passed := perhaps
		if name != "sed" && name != "jq" && p.operand {
			passed = likely // awk -v
		}
		if rest := t.remains(args, node, passed); len(t.marksIn(rest...)) > 0 {
			out = t.joined(out, rest, node)
		}
		return out
	}
	return t.remains(append(args, f.stdin...), node, perhaps)
}

// format returns what printf prints.
func (t *analysis) format(args []string, node syntax.Node) texts {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return empty
	}
	format, args := args[0], args[1:]
	if !isConstant(format) {
		return t.remains(append(args, format), node, sure)
	}
	var b strings.Builder
	for first := true; first || len(args) > 0; first = false {
		used := false
		for i := 0; i < len(format); i++ {
			if format[i] == '\\' && i+1 < len(format) {
				i++
				switch format[i] {
				case 'n':
					b.WriteByte('\n')
				case 't':
					b.WriteByte('\t')
				default:
					b.WriteByte(format[i])
				}
				continue
			}
			if format[i] != '%' || i+1 == len(format) {
				b.WriteByte(format[i])
				continue
			}
			for i++; i < len(format)-1 && strings.IndexByte("-+ #0123456789.*", format[i]) >= 0; i++ {
			}
			if format[i] == '%' {
				b.WriteByte('%')
				continue
			}
			used = true
			arg := ""
			if len(args) > 0 {
				arg, args = args[0], args[1:]
			}
			switch format[i] {
			case 'q', 'Q':
				arg = t.change(texts{arg}, quotedOnce)[0]
			case 'd', 'i', 'u', 'x', 'X', 'o', 'f', 'g', 'e':
				if !isConstant(arg) {
					arg = t.mark(mark{source: -1, node: node})
				}
			}
			b.WriteString(arg)
		}
		if !used {
			break
		}
	}
	return texts{b.String()}
}

// builtin interprets what builtins of a shell do with variables, and where they evaluate their arguments.
func (t *analysis) builtin(f *shellFrame, name string, words []field, node syntax.Node) {
	args := words[1:]
	switch name {
	case "read":
		t.readInto(f, args, node)
	case "mapfile", "readarray":
		t.mapfile(f, args, node)
	case "printf":
		if len(args) > 2 && args[0].text == "-v" {
			if variable := t.name(f, args[1].text); variable != "" {
				if s := t.assign(f, variable, node, t.format(textsOf(args[2:]), node), false); s != nil {
					s.always = !t.mayBeDash
				}
			}
		}
	case "wait":
		for i, x := range args {
			if x.text == "-p" && i+1 < len(args) {
				t.name(f, args[i+1].text)
			}
		}
	case "set":
		t.setParameters(f, args)
	case "shift":
		t.shift(f, args)
	case "let":
		for _, x := range args {
			t.arithText(f, x.text, nil)
		}
	case "test", "[":
		for i, x := range args {
			if (x.text == "-v" || x.text == "-R") && i+1 < len(args) {
				t.name(f, args[i+1].text)
			}
		}
	case "unset":
		for i, x := range args {
			if strings.HasPrefix(x.text, "-") {
				continue
			}
			variable := t.name(f, x.text)
			if variable != "" && variable == x.text && !x.many && args[0].text != "-f" && len(f.chain) == 0 { // in a function it may bring back what a caller has
				always(t.assign(f, variable, siteNode{node, i}, empty, false))
			}
		}
	case "getopts":
		if len(args) > 1 {
			if variable := t.name(f, args[1].text); variable != "" {
				t.assign(f, variable, node, t.opaque(node), false)
			}
			given := flat(f.owner().params)
			if len(args) > 2 {
				given = textsOf(args[2:])
			}
			t.assign(f, "OPTARG", node, t.remains(given, node, sure).with(given...), false)
		}
	case "export", "readonly", "declare", "typeset", "local":
		t.declaredWords(f, name, args, node)
	case "cd", "pushd":
		if len(args) > 0 {
			dir := texts{args[len(args)-1].text}
			t.assign(f, "PWD", node, t.remains(dir, node, likely), true)
			t.assign(f, "OLDPWD", node, t.remains(dir, node, likely), true)
		}
	case "alias":
		for _, x := range args {
			alias, value, _ := strings.Cut(x.text, "=")
			t.leak(codeSink, x.text)
			if isConstant(alias) && !slices.Contains(t.aliases[alias], value) {
				t.aliases[alias] = t.aliases[alias].with(value)
				t.changed = true
			}
		}
	case "complete", "compgen":
		for _, x := range args {
			t.leak(sink{what: "a word that " + name + " expands again", remedy: nameSink.remedy, words: true}, x.text)
		}
	case "enable", "bind", "fc", "history", "hash":
		for _, x := range args {
			t.leak(sink{what: "an argument that the builtin " + name + " runs or expands", remedy: nameSink.remedy, least: likely}, t.lowered(texts{x.text}, likely)...)
		}
	case "source", ".":
		t.sourceFile(f, args, node)
	case "shopt":
		for _, x := range args {
			if x.text == "allexport" {
				t.export("*")
			}
		}
	}
}

func (t *analysis) sourceFile(f *shellFrame, args []field, node syntax.Node) {
	if len(args) == 0 {
		return
	}
	file := args[0].text
	t.leak(sink{code: codeCommandName, says: "chooses the script that a shell runs; whoever writes the value chooses what runs"}, file)
	if shell.IsDescriptor(file) && file != "/dev/stdin" {
		t.code(f, t.fds, false, args[1:], node)
		return
	}
	content := t.content(f, file)
	if content == nil {
		t.exportUnknown(f)
	}
	t.code(f, content, false, args[1:], node)
}

// declaredWords interprets a declaration that the parser took for a common command.
func (t *analysis) declaredWords(f *shellFrame, name string, args []field, node syntax.Node) {
	integer := false
	for i, x := range args {
		if strings.HasPrefix(x.text, "-") {
			integer = integer || strings.Contains(x.text, "i")
			continue
		}
		t.declared(f, x.text, integer, siteNode{node, i})
		if variable, _, isAssignment := strings.Cut(x.text, "="); name == "export" {
			t.export(variable)
			if !isAssignment && syntax.ValidName(variable) {
				t.steers(variable, t.read(f, variable))
			}
		}
	}
}

// readInto interprets read: what is on its input goes into variables.
func (t *analysis) readInto(f *shellFrame, args []field, node syntax.Node) {
	var names []string
	in := f.stdin
	array, plain := false, true
	for i := 0; i < len(args); i++ {
		text := args[i].text
		if !strings.HasPrefix(text, "-") {
			if name := t.name(f, text); name != "" {
				names = append(names, name)
			}
			continue
		}
		if strings.HasPrefix(text, "-u") && t.fds != nil {
			in = t.fds
		}
		plain = plain && text == "-r" // which every shell knows
		array = array || strings.HasSuffix(text, "a")
		if strings.HasSuffix(text, "a") {
			continue
		}
		if last := text[len(text)-1]; strings.IndexByte("pdnNtui", last) >= 0 {
			i++
		}
	}
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	in = t.notInert(in)
	for i, name := range names {
		var value texts
		for _, text := range in {
			for line := range strings.SplitSeq(text, "\n") {
				fields := strings.Fields(line)
				switch {
				case len(names) == 1 && !array || !isConstant(line):
					value = value.with(strings.TrimSpace(line)) // IFS or a blank in the data may part it anywhere
					if i > 0 && i < len(fields) {
						value = value.with(strings.Join(fields[i:], " "))
					}
				case array:
					value = value.with(strings.Join(fields, itemEnd))
				case i >= len(fields):
				case i == len(names)-1:
					value = value.with(strings.Join(fields[i:], " "))
				default:
					value = value.with(fields[i])
				}
			}
		}
		if len(value) > 1 {
			value = slices.DeleteFunc(slices.Clone(value), func(s string) bool { return s == "" })
		}
		if len(value) == 0 || len(value) == 1 && value[0] == "" {
			value = t.opaque(node)
		}
		if s := t.assign(f, name, node, t.bounded(value, node), false); s != nil {
			s.always = plain
		}
	}
}

func (t *analysis) mapfile(f *shellFrame, args []field, node syntax.Node) {
	name := "MAPFILE"
	for i := 0; i < len(args); i++ {
		text := args[i].text
		if text == "-C" && i+1 < len(args) {
			callback := t.branch(f, siteNode{node, i})
			callback.region = t.regionOf(f.region, siteNode{node, i}, region{anytime: true})
			t.code(callback, texts{args[i+1].text}, false, nil, siteNode{node, i})
		}
		if strings.HasPrefix(text, "-") {
			if len(text) == 2 && strings.Contains("dnOsuCc", text[1:]) {
				i++
			}
			continue
		}
		name = t.name(f, text)
	}
	var value texts
	for _, text := range t.notInert(f.stdin) {
		value = value.with(strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", itemEnd))
	}
	t.index(name)
	t.assign(f, name, node, value, false)
}

// setParameters interprets set -- a b.
func (t *analysis) setParameters(f *shellFrame, args []field) {
	i := 0
	for ; i < len(args); i++ {
		text := args[i].text
		if text == "--" {
			i++
			break
		}
		if text == "-o" || text == "+o" {
			i++
			if i < len(args) && (args[i].text == "allexport" || !isConstant(args[i].text)) {
				t.export("*")
			}
			continue
		}
		if strings.HasPrefix(text, "-") && strings.Contains(text, "a") || strings.HasSuffix(text, "o") && i+1 < len(args) && args[i+1].text == "allexport" {
			t.export("*")
		}
		if !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "+") {
			break
		}
		if i == len(args)-1 {
			return
		}
	}
	if len(args) == 0 || i == len(args) && args[len(args)-1].text != "--" {
		return
	}
	own := f.owner()
	t.tick++
	own.moved = t.tick
	given := texts{joinFields(args[i:])}
	if f.cond > own.cond || own.loose {
		given = t.bounded(own.params.with(given...), "set")
	}
	own.params = given
}

// shift moves the parameters.
func (t *analysis) shift(f *shellFrame, args []field) {
	t.tick++
	f.owner().moved = t.tick
	n := 1
	if len(args) > 0 {
		var err error
		if n, err = strconv.Atoi(args[0].text); err != nil {
			f.owner().loose = true
			return
		}
	}
	own := f.owner()
	if f.cond > own.cond {
		own.loose = true
		return
	}
	var out texts
	for _, text := range own.params {
		fields := fieldsOf(text)
		for range n {
			if len(fields) > 0 && !fields[0].many {
				fields = fields[1:]
			}
		}
		out = out.with(joinFields(fields))
	}
	own.params = out
}
