package template

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonField returns the value of a key of a JSON object, as it stands there. Of a doubled key the last one counts, as in
// encoding/json. It reads the document in place: most placeholders name one field of an item with many.
func jsonField(raw []byte, key string) (found []byte, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	for i := skipBlank(raw, 1); i < len(raw) && raw[i] == '"'; {
		end := skipString(raw, i)
		same := sameKey(raw[i:end], key)
		i = skipBlank(raw, skipBlank(raw, end)+1)
		start := i
		i = skipValue(raw, i)
		if same {
			found, ok = raw[start:i], true
		}
		i = skipBlank(raw, skipBlank(raw, i)+1)
	}
	return found, ok
}

// jsonElements yields the elements of a JSON array, as they stand there.
func jsonElements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(raw) == 0 || raw[0] != '[' {
			return
		}
		for i := skipBlank(raw, 1); i < len(raw) && raw[i] != ']'; {
			end := skipValue(raw, i)
			if !yield(raw[i:end]) {
				return
			}
			i = skipBlank(raw, skipBlank(raw, end)+1)
		}
	}
}

func sameKey(quoted []byte, key string) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return unquoteJSON(quoted) == key
	}
	return len(quoted) >= 2 && string(quoted[1:len(quoted)-1]) == key
}

func skipBlank(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return min(i, len(raw))
}

// skipString returns the index after the string that opens at i.
func skipString(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// skipValue returns the index after the value that starts at i.
func skipValue(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			i = skipString(raw, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ' ', '\t', '\n', '\r', ':':
			if depth <= 0 {
				return i
			}
		}
		if depth < 0 {
			return i
		}
		i++
		if depth == 0 && closes(raw[i-1]) {
			return i
		}
	}
	return len(raw)
}

func closes(c byte) bool { return c == '}' || c == ']' || c == '"' }

func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// unquoteJSON returns the text of a JSON string, byte for byte: unlike encoding/json it does not replace bytes that are not UTF-8.
func unquoteJSON(raw []byte) string {
	body := strings.TrimSuffix(strings.TrimPrefix(string(raw), `"`), `"`)
	if !strings.Contains(body, `\`) {
		return body
	}
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' || i+1 == len(body) {
			out = append(out, body[i])
			continue
		}
		i++
		var extra int
		out, extra = appendEscape(out, body[i:])
		i += extra
	}
	return string(out)
}

// appendEscape adds what the escape at the start of s (after its backslash) stands for. It returns how many bytes beyond the
// first it took.
func appendEscape(out []byte, s string) ([]byte, int) {
	if at := strings.IndexByte("bfnrt", s[0]); at >= 0 {
		return append(out, "\b\f\n\r\t"[at]), 0
	}
	if s[0] != 'u' {
		return append(out, s[0]), 0
	}
	r, ok := hex4(s[1:])
	if !ok {
		return append(out, s[0]), 0
	}
	if utf16.IsSurrogate(r) && len(s) >= 11 && s[5:7] == `\u` {
		if low, ok := hex4(s[7:]); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				return utf8.AppendRune(out, both), 10
			}
		}
	}
	return utf8.AppendRune(out, r), 4
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:4], 16, 32)
	return rune(n), err == nil
}

// quoteJSON returns s as a JSON string. Only what must be is escaped, so that < and & stay readable.
func quoteJSON(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("BUG: encode a text as JSON: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}
