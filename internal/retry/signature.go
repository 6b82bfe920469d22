package retry

import (
	"slices"
	"strings"
	"unicode/utf8"

	"prodigy/internal/check"
)

const (
	signatureLength = 200  // bytes of a signature
	signatureInput  = 4096 // bytes of a message that are looked at
)

// Signature returns message with what differs from item to item (numbers, hex, paths, quoted text,
// timestamps) normalised, so that like failures have the same signature. Exit codes and the status codes of
// HTTP stay. It is one line of at most 200 bytes.
func Signature(message string) string {
	s := signer{rest: strings.ToValidUTF8(message[:min(len(message), signatureInput)], "")}
	s.whole = s.rest
	for s.rest != "" && s.out.Len() <= signatureLength {
		s.next()
	}
	return cut(strings.TrimSpace(s.out.String()), signatureLength)
}

// cut shortens text to at most n bytes without splitting a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// signer reads a message from left to right and writes its signature.
type signer struct {
	whole  string
	rest   string
	out    strings.Builder
	inWord bool // the last byte read belongs to a word
}

// volatile is the table of what is replaced at the start of a word. A measure returns how many bytes of s
// match, 0 for none. The first row that matches wins: a time is no path, though its date may have slashes, and a uuid
// begins like a hex number.
var volatile = []struct {
	name    string
	measure func(s string) int
}{
	{"<text>", quoted},
	{"<time>", timestamp},
	{"<uuid>", uuid},
	{"<path>", path},
	{"<hex>", hex},
}

// next takes one token.
func (s *signer) next() {
	if !s.inWord {
		for _, v := range volatile {
			if n := v.measure(s.rest); n > 0 {
				s.replace(v.name, n)
				return
			}
		}
	}
	// The 7 of worker7 differs from item to item as much as a number of its own.
	if n := number(s.rest); n > 0 {
		if !s.inWord && isCode(s.whole[:len(s.whole)-len(s.rest)], s.rest[:n], s.rest[n:]) {
			s.replace(s.rest[:n], n)
		} else {
			s.replace("<n>", n)
		}
		return
	}
	// One byte is copied. Blanks and control characters become one blank.
	c := s.rest[0]
	s.rest = s.rest[1:]
	s.inWord = isWord(c) && c != '_'
	if c > ' ' && c != 0x7f {
		s.out.WriteByte(c)
	} else if text := s.out.String(); text != "" && text[len(text)-1] != ' ' {
		s.out.WriteByte(' ')
	}
}

// codeWords are the words in front of a number that says what went wrong: the exit code of a program, a status code.
const codeWords = "exit exited code status statuscode errno http http/1.0 http/1.1 http/2 http/2.0 http/3"

// reasonPhrases are those of HTTP for errors, which follow a status code.
var reasonPhrases = table(`
	Bad Request
	Unauthorized
	Payment Required
	Forbidden
	Not Found
	Method Not Allowed
	Not Acceptable
	Proxy Auth
	Request Time
	Conflict
	Gone
	Length Required
	Precondition
	Payload Too
	Content Too
	Request Entity
	URI Too
	Unsupported Media
	Range Not
	Unprocessable
	Locked
	Failed Dependency
	Too Early
	Upgrade Required
	Too Many Requests
	Request Header
	Unavailable For
	Internal Server
	Server Error
	Not Implemented
	Bad Gateway
	Service Unavailable
	Gateway Time
	HTTP Version
	Insufficient Storage
`)

// isCode reports whether the number between two parts of a message is an exit code or a status code: "exit code 3",
// "status: 503", "error 404", "503 Service Unavailable".
func isCode(before, number, after string) bool {
	if len(number) > 3 || digits(number) < len(number) || after != "" && isWord(after[0]) {
		return false
	}
	before = strings.ToLower(strings.TrimRight(before, ` :=("'`))
	word := before[strings.LastIndexAny(before, " \t\n\r,;:(=\"'")+1:]
	word = word[strings.LastIndexAny(word, "_-")+1:]
	if check.Among(codeWords, word) {
		return true
	}
	if len(number) != 3 || number[0] != '4' && number[0] != '5' {
		return false
	}
	after = strings.TrimLeft(after, " :-")
	return word == "error" || slices.ContainsFunc(reasonPhrases(), func(phrase string) bool {
		return len(after) >= len(phrase) && strings.EqualFold(after[:len(phrase)], phrase)
	})
}

// replace writes name for the next n bytes, of which there is at least one.
func (s *signer) replace(name string, n int) {
	s.out.WriteString(name)
	s.inWord = isWord(s.rest[n-1])
	s.rest = s.rest[n:]
}

// quotes pairs what opens a quotation with what closes it.
var quotes = []struct{ open, closing string }{{`"`, `"`}, {"'", "'"}, {"`", "`"}, {"`", "'"}, {"‘", "’"}, {"“", "”"}}

// quoted measures a quotation: its end is the first closing quote that no letter or digit follows, so that 'it's here'
// is one.
func quoted(s string) int {
	for _, q := range quotes {
		if !strings.HasPrefix(s, q.open) {
			continue
		}
		for i := len(q.open); i < len(s); i++ {
			if after, ok := strings.CutPrefix(s[i:], q.closing); ok && (after == "" || !isWord(after[0])) {
				return i + len(q.closing)
			}
		}
	}
	return 0
}

// timestamp measures a date, a time of day, or both with a zone.
func timestamp(s string) int {
	date := max(shape(s, "dddd-dd-dd"), shape(s, "dddd/dd/dd"))
	if date == 0 {
		return clock(s)
	}
	if rest := s[date:]; rest != "" && (rest[0] == 'T' || rest[0] == ' ') {
		if n := clock(rest[1:]); n > 0 {
			return date + 1 + n
		}
	}
	return date
}

// clock measures a time of day with fraction and zone, such as 12:30:01,250 and 12:30:01.25+02:00.
func clock(s string) int {
	n := shape(s, "dd:dd:dd")
	if n == 0 {
		return 0
	}
	if fraction := digits(s[min(n+1, len(s)):]); fraction > 0 && isSeparator(s[n]) {
		n += 1 + fraction
	}
	for _, zone := range []string{"Z", "+dd:dd", "-dd:dd", "+dddd", "-dddd"} {
		if z := shape(s[n:], zone); z > 0 {
			return n + z
		}
	}
	return n
}

func uuid(s string) int { return shape(s, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") }

// shape returns the length of pattern when s begins with it and no letter or digit follows. In pattern d is a digit and
// x a hex digit.
func shape(s, pattern string) int {
	if len(s) < len(pattern) {
		return 0
	}
	for i := range len(pattern) {
		fits := s[i] == pattern[i]
		switch pattern[i] {
		case 'd':
			fits = isDigit(s[i])
		case 'x':
			fits = isHex(s[i])
		}
		if !fits {
			return 0
		}
	}
	if rest := s[len(pattern):]; pattern[len(pattern)-1] != 'Z' && rest != "" && rest[0] != 'T' && rest[0] != 'Z' && isWord(rest[0]) {
		return 0
	}
	return len(pattern)
}

// path measures a URL or a word with a slash in it. What ends a sentence does not belong to it.
func path(s string) int {
	n, slashes := 0, 0
	for n < len(s) && (inPath(s[n]) || s[n] == ':' && isRoot(s[n+1:])) {
		if s[n] == '/' || s[n] == '\\' {
			slashes++
		}
		n++
	}
	n = len(strings.TrimRight(s[:n], ".,-=~"))
	if slashes == 0 || n < 2 {
		return 0
	}
	return n
}

// inPath reports whether c can be part of an unquoted path.
func inPath(c byte) bool { return isWord(c) || strings.IndexByte(`/\.-~+@%=?&#,`, c) >= 0 }

// isRoot reports whether s continues after the colon of "https://" or "C:\".
func isRoot(s string) bool {
	return strings.HasPrefix(s, "//") || strings.HasPrefix(s, `\`)
}

// hex measures a number written with 0x, or a word of seven or more hex digits that has both letters and digits in it.
func hex(s string) int {
	if len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && isHex(s[2]) {
		return 2 + run(s[2:], isHex)
	}
	n := run(s, isHex)
	numerals := 0
	for i := range n {
		if isDigit(s[i]) {
			numerals++
		}
	}
	if n < 7 || numerals == 0 || numerals == n || n < len(s) && isWord(s[n]) && s[n] != '_' {
		return 0
	}
	return n
}

// number measures digits, with their decimals and groups: 42, 3.14, 1,234,567 and 10.0.0.1.
func number(s string) int {
	n := digits(s)
	for n > 0 && n+1 < len(s) && isSeparator(s[n]) && isDigit(s[n+1]) {
		n += 1 + digits(s[n+1:])
	}
	return n
}

func digits(s string) int { return run(s, isDigit) }

// run returns how many bytes of s from the start are in the class.
func run(s string, class func(byte) bool) int {
	n := 0
	for n < len(s) && class(s[n]) {
		n++
	}
	return n
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
