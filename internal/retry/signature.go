package retry

import (
	"strconv"
	"strings"

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
	message = strings.ToValidUTF8(message[:min(len(message), signatureInput)], "")
	var out strings.Builder
	inWord := false // the last byte read belongs to a word
	for at := 0; at < len(message) && out.Len() <= signatureLength; {
		rest := message[at:]
		name, n := "", 0
		if !inWord {
			name, n = volatileAt(rest)
		}
		if n == 0 {
			// The 7 of worker7 differs from item to item as much as a number of its own.
			name, n = "<n>", len(number().FindString(rest))
			if n > 0 && !inWord && isCode(message[:at], rest[:n], rest[n:]) {
				name = rest[:n]
			}
		}
		if n > 0 {
			out.WriteString(name)
			at += n
			inWord = isWord(rest[n-1])
			continue
		}
		// One byte is copied. Blanks and control characters become one blank.
		c := rest[0]
		at++
		inWord = isWord(c) && c != '_'
		if c > ' ' && c != 0x7f {
			out.WriteByte(c)
		} else if text := out.String(); text != "" && text[len(text)-1] != ' ' {
			out.WriteByte(' ')
		}
	}
	text := strings.TrimSpace(out.String())
	return strings.ToValidUTF8(text[:min(len(text), signatureLength)], "") // without a part of a character
}

// volatileNames are what stands for the groups of volatile, in their order.
var volatileNames = []string{"<text>", "<time>", "<uuid>", "<path>", "<hex>", "<hex>"}

// A path is a URL or a word with a slash in it. What ends a sentence does not belong to it.
const (
	slash     = `(?:[/\\]|://|:\\)`
	ofPath    = `(?:[\w/\\.~+@%=?&#,\x{80}-\x{10FFFF}-]|` + slash + `)`
	endOfPath = `[\w/\\+@%?&#\x{80}-\x{10FFFF}]`

	clock = `\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?`
)

var (
	// volatile finds what is replaced at the start of a word; the first group that fits wins. A time is no path, though
	// its date may have slashes, and a uuid begins like a hex number. A quotation ends with a quote that no letter
	// follows, so that 'it's here' is one. A hex number without 0x has letters and digits.
	volatile = once(`(?s)^(?:("(?:.*?)"|'.*?'|` + "`.*?[`']" + `|‘.*?’|“.*?”)(?:[^\pL\pN_]|$)` +
		`|(\d{4}[-/]\d\d[-/]\d\d(?:[T ]` + clock + `)?|` + clock + `)\b` +
		`|([[:xdigit:]]{8}-(?:[[:xdigit:]]{4}-){3}[[:xdigit:]]{12})\b` +
		`|(` + ofPath + `+` + slash + `(?:` + ofPath + `*` + endOfPath + `)?|[/\\]` + ofPath + `*` + endOfPath + `)` +
		`|(0[xX][[:xdigit:]]+)` +
		`|((?:\d+[a-fA-F]|[a-fA-F]+\d)[[:xdigit:]]*)(?:[^\pL\pN]|$))`)

	// number finds digits, with their decimals and groups: 42, 3.14, 1,234,567 and 10.0.0.1.
	number = once(`^\d+(?:[.,]\d+)*`)
)

// leastHex is how many digits a hex number without 0x has at least.
const leastHex = 7

// volatileAt returns what stands for the first bytes of a text, and how many these are: 0 if they stay.
func volatileAt(text string) (name string, n int) {
	groups := volatile().FindStringSubmatch(text)
	for i, name := range volatileNames {
		if groups != nil && groups[i+1] != "" {
			if n = len(groups[i+1]); i == len(volatileNames)-1 && n < leastHex {
				n = 0
			}
			return name, n
		}
	}
	return "", 0
}

// codeWords are the words in front of a number that says what went wrong: the exit code of a program, a status code.
const codeWords = "exit exited code status statuscode errno http http/1.0 http/1.1 http/2 http/2.0 http/3"

// isCode reports whether the number between two parts of a message is an exit code or a status code: "exit code 3",
// "status: 503", "error 404", "503 Service Unavailable".
func isCode(before, number, after string) bool {
	code, err := strconv.Atoi(number)
	if err != nil || len(number) > 3 || after != "" && isWord(after[0]) {
		return false
	}
	before = strings.ToLower(before)
	word := strings.TrimRight(before, " :=(\"'`")
	word = word[strings.LastIndexAny(word, " \t\n\r,;:(=\"'_-")+1:]
	return check.Among(codeWords, word) || code >= 400 && code < 600 && isStatus(before, strings.ToLower(after), code)
}
