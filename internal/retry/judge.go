package retry

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"prodigy/internal/check"
)

// Judge returns the type of a failure and the name of the rule that told it, which is empty for command_failed by
// default. Programs are those whose exit code it may be, in the order in which they stand in the command.
//
// What counts, in this order: what the step knows of itself (f.Type); a limit of time; a signal, or the code that a
// shell gives for one; a program that is missing; a machine that has run out of something; the documented exit code of
// the last program; the summary of a test runner or a compiler; and the deciding line of stderr, or of stdout if stderr
// has none. Source code and the lines of a stack are never read.
func Judge(f Failure, programs []string) (Type, string) {
	switch {
	case f.Type != "":
		return f.Type, f.Rule
	case f.TimedOut:
		return TypeTimeout, ""
	}
	if f.Message == "exit code "+strconv.Itoa(f.ExitCode) {
		f.Message = "" // all that there is to read, if the command printed nothing
	}
	f.Stdout, f.Stderr = check.WithoutColours(f.Stdout), check.WithoutColours(f.Stderr)
	if rule, ok := ranOut(f); ok {
		return TypeResource, rule
	}
	switch {
	case f.Signal != "":
		return TypeKilled, ""
	case f.ExitCode == 127:
		return TypeCommandNotFound, ""
	case f.ExitCode == 126:
		return TypePermission, ""
	case f.ExitCode == 128+9 || f.ExitCode == 128+15:
		return TypeKilled, ""
	}

	e, known := exitOf(programs, f.ExitCode)
	// Beside others curl says how it failed, and a script may end with any code.
	others := len(programs) > 1 && (slices.Contains(programs, "curl") ||
		slices.Contains(programs[:len(programs)-1], "exit"))
	if known && !e.soft && !others {
		return e.is, e.rule
	}
	if rule, ok := summary(f); ok {
		return TypeCommandFailed, rule
	}
	t, rule, said := byText(f)
	if rule != "" {
		return t, rule
	}
	if known && !said {
		return e.is, e.rule
	}
	return TypeCommandFailed, ""
}

// Classify returns the type of a failure whose command is not known.
func Classify(f Failure) Type {
	t, _ := Judge(f, nil)
	return t
}

// byText judges what was printed. Without a rule nothing was recognised; said reports whether stderr has a line that
// decides all the same. A text is read only if those before it have no line that decides: stdout is mostly about the
// work, and stderr about the failure.
func byText(f Failure) (t Type, rule string, said bool) {
	texts := []string{f.Stderr, f.Stdout, f.Message}
	if f.Exact {
		texts = []string{f.Message}
	}
	for i, text := range texts {
		t, rule, decides := judgeText(text)
		if rule != "" {
			return t, rule, true
		}
		if decides {
			said = i == 0
			break
		}
	}
	if f.Exact { // its stdout is a conversation, which may be about anything
		return TypeCommandFailed, "", said
	}
	// curl -i prints a status line, whatever was done with the output afterwards.
	for line := range strings.Lines(f.Stdout) {
		if status, ok := statusLine(strings.TrimSpace(line)); ok && status >= 400 {
			return ofStatus(status), "HTTP status " + strconv.Itoa(status), true
		}
	}
	return TypeCommandFailed, "", said
}

// known is a row of exits that fits.
type known struct {
	exit
	rule string
}

// exitOf returns what the exit code of the last program that documents it means. A row for any code of a program counts
// only when no other program may have failed in its place.
func exitOf(programs []string, code int) (known, bool) {
	for _, name := range slices.Backward(programs) {
		for _, e := range exits {
			switch number := strconv.Itoa(code); {
			case !check.Among(e.programs, name):
			case check.Among(e.codes, number):
				return known{e, name + " exit code " + number}, true
			case e.codes == "" && ofItself(programs):
				return known{e, strings.Join(programs, " or ") + " exit code " + number}, true
			}
		}
	}
	return known{}, false
}

// ofItself reports whether all of the programs fail by themselves or by their arguments only, as those of sort a | uniq
// do: whichever of them failed, it was not the network.
func ofItself(programs []string) bool {
	return !slices.ContainsFunc(programs, func(name string) bool {
		return !slices.ContainsFunc(exits, func(e exit) bool { return e.codes == "" && check.Among(e.programs, name) })
	})
}

// ranOut reports whether the machine ran out of something, by which phrase. Such a line counts wherever it stands: what
// a program prints after it, of a file that it could not write, is a consequence.
func ranOut(f Failure) (string, bool) {
	for _, text := range []string{f.Message, f.Stderr} {
		for line := range strings.Lines(text) {
			line = strings.ToLower(strings.TrimSpace(line))
			for _, p := range exhausted() {
				if says(line, p) {
					return strconv.Quote(p), true
				}
			}
		}
		if f.Exact {
			break
		}
	}
	return "", false
}

// summary returns the line with which a test runner, a compiler or a linter has ended.
func summary(f Failure) (string, bool) {
	if f.Exact {
		return "", false
	}
	for _, text := range []string{f.Stderr, f.Stdout} {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, " \r\n")
			for _, pattern := range summaries {
				if glob(line, pattern) || glob(strings.TrimLeft(line, " "), pattern) {
					return "summary " + strconv.Quote(pattern), true
				}
			}
		}
	}
	return "", false
}

// judgeText looks for the line that decides, from the end. It passes over notes and what belongs to the line above, and
// stops at the first line that is neither that nor known: an earlier one would be about something else, which the
// command has survived. Said reports whether there is such a line.
func judgeText(text string) (t Type, rule string, said bool) {
	lines := plainLines(text)
	t, rule, said = decidingLine(lines)
	// A client that gives up because of a certificate may end with words about the connection.
	if t == TypeNetwork || t == TypeTimeout {
		for _, line := range lines {
			if certificate, ok := phrases[0].match(strings.ToLower(line)); ok {
				return TypeClientError, certificate, true
			}
		}
	}
	return t, rule, said
}

// decidingLine judges the lines from the last one upwards. The first weak result is kept, and counts if no line above
// it says more.
func decidingLine(lines []string) (t Type, rule string, said bool) {
	weak, weakRule := TypeCommandFailed, ""
	// After "giving up after 3 tries" the warnings of the tries are what says why.
	gaveUp := false
	for i, line := range slices.Backward(lines) {
		lower := strings.ToLower(strings.TrimSpace(line))
		note := isAny(lower, notes()) && !containsAny(lower, "connection broken by", "failed to fetch")
		if note && !gaveUp {
			continue
		}
		if isAny(lower, surrenders()) {
			gaveUp = true
			continue
		}
		t, rule, isWeak := judgeLine(strings.TrimSpace(line), lower)
		switch {
		case note && rule == "":
		case isWeak && weakRule == "":
			weak, weakRule = t, rule
		case isWeak:
		case rule != "":
			return t, rule, true
		case !passes(line, lower, i > 0) && !followsCurl(lines[:i]):
			return weak, weakRule, true
		}
	}
	return weak, weakRule, weakRule != ""
}

// passes reports whether a line that is not known says nothing of the cause: it goes on with the line above, is known
// to say nothing, or is an error of Python or Node.js that only wraps the one above.
func passes(line, lower string, above bool) bool {
	if strings.HasPrefix(lower, "npm err") || isAny(lower, asides()) || consequence().MatchString(lower) ||
		!strings.ContainsFunc(lower, isLetterRune) {
		return true
	}
	return above && (line[0] == ' ' || line[0] == '\t') ||
		containsAny(lower, "calledprocesserror: ", "retryerror[", "typeerror: terminated")
}

// followsCurl reports whether one of the last two lines is what curl says of its failure: scripts add a line of their
// own.
func followsCurl(above []string) bool {
	return slices.ContainsFunc(above[max(0, len(above)-2):], func(line string) bool {
		return strings.HasPrefix(line, "curl: (")
	})
}

func isLetterRune(r rune) bool { return 'a' <= r && r <= 'z' || r > 0x7f }

var once = check.Regexp

var (
	// sourceLine is source code in a message of rustc, vite and others: "12 | let x = 1" and "--> src/main.rs:3".
	sourceLine = once(`^\s*(>\s*)?(\d+\s*)?\|\s|^\s*-->`)

	// caret points at the line above it: "    ^~~~".
	caret = once(`^\s*[~^][\s~^]*$`)

	// stackLine is one call of a stack: of Java and Node.js (at), Ruby (from), gdb and PHP (#0), Rust (0:), Python.
	stackLine = once(`^\s+at |^\s+(from|in) .*:\d+|^\s*#\d+ |^\s+\d+: |^\s*\.\.\. \d+ more|^\s*File ".*", line \d+`)

	// property is a field of an error that Node.js prints: "  hostname: 'example.com',".
	property = once(`^\s+["']?(\w+)["']?: ["'].*["'],?$`)

	// consequence is a line that says what has not been done, and not why.
	consequence = once(`^((error|fatal):? )?(cannot|can't|could not|couldn't|failed to|unable to) ` +
		`(clone|connect|download|fetch|publish|pull|push|reach|send|sync|upload)\b[^:]*$`)

	// inDocument is a place in a file that a linter reads: what such a line quotes has not happened.
	inDocument = once(`\.(conf|csv|html|ini|json|log|md|po|toml|tsv|txt|xml|ya?ml):\d+|\bline \d+ of `)

	// position is the line that Node.js prints above the source code of an error: "/app/load.js:12".
	position = once(`^(file://)?[^\s:]+:\d+$`)
)

// telling are the properties of an error that say what happened.
const telling = "code message error reason cause status type name detail description"

// isData reports whether the line is a property of an error that Node.js prints, and not one that says what happened.
func isData(line string) bool {
	m := property().FindStringSubmatch(line)
	return m != nil && !check.Among(telling, strings.ToLower(m[1]))
}

// plainLines returns the lines of a text that may say what went wrong: without blank ones, source code and stacks.
func plainLines(text string) []string {
	// Go: "goroutine 1 [running]:" begins the stacks, and nothing but stacks and registers follows.
	if i := strings.Index(text, "\ngoroutine "); i >= 0 && strings.Contains(text[i:], " [") {
		text = text[:i]
	}
	for _, stack := range []string{"----- Native stack trace", "\n    while executing\n"} { // of Node.js, of Tcl
		text, _, _ = strings.Cut(text, stack)
	}
	var lines []string

	// inStack is true below `File "…", line 1` of Python, up to the next line that is not indented.
	inStack := false

	// source counts the lines of source code that may still follow a position of Node.js: one, and its caret.
	source := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.Trim(strings.TrimSuffix(line, "\n"), "│╷╵\r"), " \t\r")
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		switch {
		case line == "":
			source = 0
			continue
		case strings.HasPrefix(strings.TrimSpace(line), `File "`) && strings.Contains(line, `, line `):
			inStack = true
			continue
		case inStack && indented:
			continue
		case source > 0:
			source--
			continue
		case position().MatchString(line):
			source = 2
			continue
		case caret().MatchString(line):
			// The line above is source code as well, indented or, by psql, after "LINE 1:".
			inStack = false
			if last := len(lines) - 1; last >= 0 && (lines[last][0] == ' ' || strings.HasPrefix(lines[last], "LINE ")) {
				lines = lines[:last]
			}
			continue
		case stackLine().MatchString(line) || sourceLine().MatchString(line) || isData(line):
			inStack = false
			continue
		}
		inStack = false
		lines = append(lines, line)
	}
	return lines
}

// A line of an exception: what may stand before its class, and the class, whose own name is the only group.
const (
	thrown = `(?:Exception in thread ".*?" |Unhandled exception\. |Caused by: |\[cause\]: |Uncaught |` +
		`error: Uncaught (?:\(in promise\) )?|[\w./-]+: |E +)`
	className = `(?:[A-Za-z_]\w*[.:$\\/]+)*([A-Za-z_]\w*)(?: \[\w+\])?(?::\s|$|: ?$| \()`
)

var (
	exceptionFirst = once(`^` + thrown + `*?` + className) // KeyError of "KeyError: Timeout"
	exceptionLast  = once(`^` + thrown + `*` + className)  // KeyError of "load.py: KeyError: 3"

	// lastClass is the class at the end of a line of Ruby: "… (Errno::ECONNREFUSED)".
	lastClass = once(`\((?:\w+::)*([A-Z]\w+)\)$`)

	// curlError, rsyncError and subprocess find the exit code of a program in what it, or a caller of it, has printed.
	curlError  = once(`(?i)\bcurl(?:: \(| error |: error )\s?(\d+)`)
	rsyncError = once(`^rsync error: .*\(code (\d+)\)`)
	subprocess = once(`CalledProcessError: Command '\[?'?([^\s',]+).*returned non-zero exit status (\d+)`)

	// coded finds what may be a code of codes: after a word such as code, status or errno, in brackets, or as a word
	// of its own before a colon.
	coded = once(`(?i:\b(?:code|status|reason|errno|type|__type|error_code|errorcode|sqlstate)\b)["']?\s*` +
		`[:=]?\s*["']?(?:StatusCode\.|Errno::)?([A-Za-z_]\w*|\d{2}\w{3})\b|` +
		`\((?:Errno::)?([A-Za-z_]\w*)\)|` +
		`^(?:(?:npm (?:ERR!|error)|error|Error|ERROR|fatal):? )?([A-Za-z_]\w*): |[a-z]: ([A-Z][A-Z_]{3,}): |desc = |` +
		`: ([A-Z]\w+Error) \{|rpc error: code = (\w+)|://\S+: (E[A-Z]+)\b`)
)

// judgeLine judges one line. Weak is a result that counts only if no line above says more.
func judgeLine(line, lower string) (t Type, rule string, weak bool) {
	class, classType := "", Type("")
	for _, of := range []func() *regexp.Regexp{exceptionFirst, exceptionLast, lastClass} {
		if m := of().FindStringSubmatch(line); m != nil && classType == "" {
			class, classType = m[1], ofClass(m[1])
		}
	}
	// An EOFError of Ruby is a connection that the other side has closed; that of Python is the end of the input. A
	// TypeError of JavaScript is also what fetch throws without a network.
	closed := class == "EOFError" && strings.HasSuffix(line, ")")
	if classType == TypeCommandFailed && class != "TypeError" && !closed {
		return classType, "error " + class, false
	}
	if rule, ok := phrases[0].match(lower); ok {
		return phrases[0].is, rule, false
	}
	for _, program := range []struct {
		name string
		re   func() *regexp.Regexp
	}{{"curl", curlError}, {"rsync", rsyncError}} {
		if m := program.re().FindStringSubmatch(line); m != nil {
			code, _ := strconv.Atoi(m[1])
			if e, ok := exitOf([]string{program.name}, code); ok {
				// curl: (22) The requested URL returned error: 503
				if status, ok := statusIn(lower); ok && e.soft {
					return ofStatus(status), "HTTP status " + strconv.Itoa(status), false
				}
				return e.is, e.rule, e.soft && e.is == TypeNetwork && program.name == "rsync"
			}
		}
	}
	if m := subprocess().FindStringSubmatch(line); m != nil {
		code, _ := strconv.Atoi(m[2])
		if e, ok := exitOf([]string{m[1][strings.LastIndexByte(m[1], '/')+1:]}, code); ok {
			return e.is, e.rule, e.soft
		}
	}
	for _, m := range coded().FindAllStringSubmatch(line, -1) {
		for _, code := range m[1:] {
			if t, ok := serviceCodes()[code]; ok {
				return t, "code " + code, false
			}
		}
	}

	// In a line about a document only a status counts: what else it says is what the document says.
	talksAbout := containsAny(lower, judging...) || inDocument().MatchString(lower)
	if !talksAbout {
		if rule, ok := phrases[1].match(lower); ok {
			return phrases[1].is, rule, false
		}
	}
	// The SDKs of AWS put the status in a line of its own, below the code, which says more.
	if status, ok := statusIn(lower); ok {
		return ofStatus(status), "HTTP status " + strconv.Itoa(status), strings.HasPrefix(lower, "status code: ")
	}
	if !talksAbout {
		for _, p := range phrases[2:] {
			if rule, ok := p.match(lower); ok {
				return p.is, rule, p.weak
			}
		}
	}
	if classType != "" && !talksAbout {
		return classType, "error " + class, false
	}
	return TypeCommandFailed, "", false
}

// ofClass returns the type of a class of errors, also of one that a library calls its own: KafkaTimeoutError is a
// TimeoutError.
func ofClass(name string) Type {
	if t := classes()[name]; t != "" || strings.HasPrefix(name, "Invalid") {
		return t
	}
	for _, general := range []string{"TimeoutError", "TimeoutException", "ConnectionError", "RateLimitError"} {
		if strings.HasSuffix(name, general) {
			return classes()[general]
		}
	}
	return ""
}

var (
	classes      = sync.OnceValue(func() map[string]Type { return byName(exceptions) })
	serviceCodes = sync.OnceValue(func() map[string]Type { return byName(codes) })
)

// byName returns the type of each name in the rows.
func byName(rows []words) map[string]Type {
	m := map[string]Type{}
	for _, row := range rows {
		for name := range strings.FieldsSeq(row.names) {
			m[name] = row.is
		}
	}
	return m
}

// table reads a list of texts, one a line, when it is asked first.
func table(text string) func() []string {
	return sync.OnceValue(func() (texts []string) {
		for line := range strings.Lines(strings.TrimSpace(text)) {
			texts = append(texts, strings.TrimSpace(line))
		}
		return texts
	})
}

// match returns the first text of the row that a line, in lower case, says. The rule is that text, quoted.
func (p phrase) match(lower string) (rule string, ok bool) {
	for _, text := range p.texts() {
		if says(lower, text) {
			return strconv.Quote(strings.Trim(text, "*")), true
		}
	}
	return "", false
}
