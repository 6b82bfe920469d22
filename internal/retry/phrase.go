package retry

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// says reports whether a line, in lower case, holds a phrase as a clause of its own: a client writes "connect:
// connection refused", and no client "the page connection refused is missing". * in a phrase stands for any text; at an
// end it takes away that end's bound: "*timed out" may end a clause that says what timed out.
func says(line, phrase string) bool {
	open, free := strings.HasPrefix(phrase, "*"), strings.HasSuffix(phrase, "*")
	core := strings.Trim(phrase, "*")
	// Most phrases end here, before anything is allocated for them.
	if first, _, _ := strings.Cut(core, "*"); !strings.Contains(line, first) {
		return false
	}
	parts := strings.Split(core, "*")
	for from := 0; ; {
		i := strings.Index(line[from:], parts[0])
		if i < 0 {
			return false
		}
		i += from
		from = i + 1
		inWord := i > 0 && isWord(line[i-1]) && isWord(parts[0][0])
		if isNamed(line[:i]) || open && inWord || !open && !startsClause(line[:i]) {
			continue
		}
		if saysRest(line[i+len(parts[0]):], parts[1:], free) {
			return true
		}
		if i >= len(line) {
			return false
		}
	}
}

// saysRest reports whether the other parts of a phrase follow, in order.
func saysRest(rest string, parts []string, free bool) bool {
	if len(parts) == 0 {
		return free || endsClause(rest)
	}
	for {
		i := strings.Index(rest, parts[0])
		if i < 0 {
			return false
		}
		rest = rest[i+len(parts[0]):]
		if saysRest(rest, parts[1:], free) {
			return true
		}
	}
}

// startsClause reports whether a clause may begin after the text: at the start of a line, after punctuation, after a
// word such as error, or after a status.
func startsClause(before string) bool {
	s := strings.TrimRight(before, " \t")
	if s == "" || s == "fatal" || len(s) == 3 && isDigit(s[0]) || endsIn(s, "error", "failed", "terminated") {
		return true
	}
	last := s[len(s)-1]
	return strings.IndexByte(":;,.([{\"'`=>|-!)]}/", last) >= 0 && (len(s) < len(before) || !isWord(last))
}

// follow are words with which a client goes on after saying what happened.
const follow = `
	at for from to while after when with on by during until because trying reading writing errno or without but`

// endsClause reports whether a clause may end before the text.
func endsClause(after string) bool {
	if after == "" || strings.IndexByte(".,;:!)]}\"'`<>|\\", after[0]) >= 0 {
		return !isSubject(after)
	}
	s := strings.TrimLeft(after, " \t")
	if len(s) == len(after) {
		return false
	}
	if s == "" || strings.IndexByte("([{-'\"`/<\\", s[0]) >= 0 || strings.HasPrefix(s, "in /") {
		return true
	}
	word, _, _ := strings.Cut(s, " ")
	if check.Among(follow, strings.TrimSuffix(word, ":")) {
		return true
	}
	return strings.ContainsAny(word, ":./") && !strings.HasSuffix(word, ":")
}

// isSubject reports whether what stands before the text is quoted or in brackets, and the text goes on to say something
// about it, as in: "connection refused" is not translated.
func isSubject(after string) bool {
	s := strings.TrimLeft(after, `)]}"'`+"`")
	if s == after || !strings.HasPrefix(s, " ") {
		return false
	}
	word, _, _ := strings.Cut(s[1:], " ")
	return word != "" && isLetter(word[0]) && !check.Among(follow, strings.Trim(word, ":,"))
}

// saying are the words before a quotation of what happened.
const saying = "error reason with by message desc cause failed exception was status"

// isNamed reports whether a quotation has begun before the end of the text that only names what it quotes, as in: found
// "connection refused".
func isNamed(before string) bool {
	quote := max(strings.LastIndex(before, ` "`), strings.LastIndex(before, " '"))
	if quote < 1 || strings.IndexByte(before[quote+2:], before[quote+1]) >= 0 || !isLetter(before[quote-1]) {
		return false
	}
	word := before[strings.LastIndexByte(before[:quote], ' ')+1 : quote]
	return !check.Among(saying, word)
}

// judging are words with which a program judges a value or a text. What such a line quotes has not happened.
var judging = []string{
	"no such code", "expected '", `expected "`, " expected status", "invalid json", "invalid type", "bad status",
	"should ", "must ", ", want ", " not a ", "is required", "is missing", "unknown key", "unknown kind",
	"invalid value", "invalid int", "invalid float", "invalid input", "invalid literal", "invalid choice",
	"invalid argument", "invalid config", "unrecognized ", "could not convert", "cannot parse", "is declared",
	"is used twice", "is not documented", "is not translated", "misspelled", "failed to connect to bus",
}

// glob reports whether the whole of a text fits a pattern: * stands for any text, # for a number. It goes back to the
// last * only, so that a text made for it costs no more than its length times that of the pattern.
func glob(text, pattern string) bool {
	i, j := 0, 0
	star, from := -1, 0 // the last * in the pattern, and where what follows it is looked for
	for i < len(text) || j < len(pattern) {
		fits := 0
		if j < len(pattern) {
			switch {
			case pattern[j] == '*':
				star, from = j, i
				j++
				continue
			case pattern[j] == '#':
				fits = len(text[i:]) - len(strings.TrimLeft(text[i:], "0123456789"))
			case i < len(text) && text[i] == pattern[j]:
				fits = 1
			}
		}
		if fits > 0 {
			i, j = i+fits, j+1
			continue
		}
		if star < 0 || from >= len(text) {
			return false
		}
		from++
		i, j = from, star+1
	}
	return true
}

// isAny reports whether the whole of a text fits one of the patterns.
func isAny(text string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob(text, p) })
}

// ofStatus returns the type of an HTTP status of 400 or more (RFC 9110; 429 in RFC 6585; 52x and 529 as Cloudflare and
// Anthropic use them).
func ofStatus(status int) Type {
	switch status {
	case 401, 403, 407, 511:
		return TypeAuth
	case 408:
		return TypeTimeout
	case 429, 509:
		return TypeRateLimit
	case 425, 421:
		return TypeServerError
	case 501, 505, 506, 510:
		return TypeClientError
	}
	if status >= 500 {
		return TypeServerError
	}
	return TypeClientError
}

// reasonOf returns the phrase of a status (RFC 9110, 15), in lower case, if clients write it.
func reasonOf(status int) string {
	switch status {
	case 413:
		return "payload too large"
	case 414, 416, 418, 506, 510:
		return ""
	case 529:
		return "overloaded"
	}
	return strings.ToLower(http.StatusText(status))
}

// statusLine returns the status of an HTTP status line, as by curl -i, also behind the < of curl -v.
func statusLine(line string) (int, bool) {
	line = strings.TrimPrefix(line, "< ")
	version, rest, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(version, "HTTP/") || len(rest) < 3 {
		return 0, false
	}
	status, err := strconv.Atoi(rest[:3])
	return status, err == nil
}

// beside are the words before a number that make it a status, as clients write them. After the others it counts only at
// the end of a clause.
var (
	beside = table(`
		http
		http/1.0
		http/1.1
		http/2
		http/2.0
		http/3
		http error
		http code
		http status
		status
		status code
		status_code
		statuscode
		response code
		error code
		returned error
		does not indicate success
		http response code
		response code was
		http status was
		status was
		returned http
		response status
	`)
	besideAtEnds = table(`
		error
		code
		returned
		answered
		responded
		responded with
		response
		got
		received
		answer
		replied
		err!
		failed with
		with
		rejected
	`)
)

// talking are words of which a line has one before its status if only a word such as error or got stands beside the
// number.
var talking = []string{
	"http", "status", "url", "server", "response", "responded", "request", "api", "fetch", "get ", "post ", "download",
	"upload", "npm", "proxy", "remote", "service", "upstream",
}

// endsStatus reports whether nothing follows a status but what a client says with it: "503 for https://…", "404 (…)".
func endsStatus(after string) bool {
	if after == "" || strings.IndexByte(".,;:)]}\"'", after[0]) >= 0 {
		return true
	}
	return slices.ContainsFunc([]string{" -", " from", " for", " (", " {", " ["}, func(s string) bool {
		return strings.HasPrefix(after, s)
	})
}

// inStatusLine reports whether a number after the text is the status of a status line, whatever the reason is: servers
// make up their own, as in "http/1.1 520 origin error".
func inStatusLine(before string) bool {
	version := before[strings.LastIndex(before, "http/")+1:]
	return len(version) < len(before) && !strings.ContainsAny(version, "\"'") && strings.Count(version, " ") == 1
}

// saysStatus reports whether a number before the text is called a status there, as in "HTTP 503 error".
func saysStatus(after string) bool {
	word, _, _ := strings.Cut(strings.TrimPrefix(after, " "), " ")
	return slices.Contains([]string{"error", "response", "status", "returned", "received", "unknown"}, word)
}

// statusIn returns the HTTP status of 400 or more that a line, in lower case, tells.
func statusIn(line string) (int, bool) {
	for i := 0; i+3 <= len(line); i++ {
		if line[i] != '4' && line[i] != '5' || !isDigit(line[i+1]) || !isDigit(line[i+2]) ||
			endsInWord(line[:i]) && !endsInE(line[:i]) || startsWithWord(line[i+3:]) {
			continue
		}
		status, _ := strconv.Atoi(line[i : i+3])
		if status >= 600 {
			continue
		}
		if isStatus(line[:i], line[i+3:], status) {
			return status, true
		}
	}
	return 0, false
}

// endsInE reports whether a number follows the e of a code of npm, as in E503.
func endsInE(before string) bool { return strings.HasSuffix(before, "code e") }

// answersURL reports whether a number after the text is what a URL was answered with, as in "http://x/rows: 503".
func answersURL(before string) bool {
	url, ok := strings.CutSuffix(before, ": ")
	url = url[strings.LastIndexByte(url, ' ')+1:]
	return ok && (strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://"))
}

// isStatus reports whether a number between two parts of a line, in lower case, is an HTTP status, and no port, line
// number or count. What speaks for it comes first, then what speaks against it, then words that alone mean little.
func isStatus(before, after string, status int) bool {
	if endsInE(before) {
		return true
	}
	// The reason follows: "503 service unavailable". nginx writes two of them in its own way.
	rest := strings.Replace(strings.TrimLeft(after, " '\"():-"), "service temporarily un", "service un", 1)
	rest = strings.Replace(rest, "time-out", "timeout", 1)
	reason := reasonOf(status)
	if reason != "" && strings.HasPrefix(rest, reason) {
		return endsClause(rest[len(reason):]) || answersURL(before)
	}
	// The reason stands before it: "not found (404)".
	left := strings.TrimRight(before, " :=\"'([")
	if reason != "" && strings.HasSuffix(left, reason) {
		return true
	}
	if strings.HasPrefix(rest, "server error") || strings.HasPrefix(rest, "client error") {
		return true
	}
	if strings.HasSuffix(before, "error(") && strings.HasPrefix(after, ",") { // HTTPError(503, …)
		return true
	}
	// A test that wanted a status, and the exit code of a program.
	if i := strings.LastIndex(" "+left, " expected"); i >= 0 && !strings.ContainsAny(left[i:], "0123456789") {
		return false
	}
	if endsIn(left, "exit code", "exit status", "return code") {
		return false
	}
	switch {
	case endsIn(left, beside()...):
		return endsClause(after) || saysStatus(after) || inStatusLine(before)
	case endsIn(left, besideAtEnds()...):
		return endsStatus(after) && (left == "error" || containsAny(before, talking...))
	}
	if strings.HasPrefix(after, " {") { // the body of an answer
		return before == "" || strings.HasSuffix(before, "exception: ")
	}
	return before == "" && strings.HasPrefix(after, ": ")
}

// containsAny reports whether s has one of the texts.
func containsAny(s string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s, text) })
}

// endsIn reports whether s ends in one of the words.
func endsIn(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		rest, ok := strings.CutSuffix(s, w)
		return ok && (rest == "" || !isWord(rest[len(rest)-1]) && rest[len(rest)-1] != '#' && rest[len(rest)-1] != '-')
	})
}
