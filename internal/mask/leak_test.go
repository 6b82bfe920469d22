package mask

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	colours        = regexp.MustCompile("\x1b\\[[0-9;]*[mK]")
	unicodePercent = regexp.MustCompile(`%u([0-9a-fA-F]{4})`)
	percentByte    = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
	continued      = regexp.MustCompile(`\\\n\s*`)
	surrogates     = regexp.MustCompile(`\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)`)
	escape         = regexp.MustCompile(`(?s)\\(x\{[0-9a-fA-F]+\}|u\{[0-9a-fA-F]+\}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)`)
	hexFiller      = regexp.MustCompile(`0[xX]|\\x|[\s,:;-]`)
	hexRun         = regexp.MustCompile(`[0-9a-fA-F]{8,}`)
	base64Filler   = regexp.MustCompile(`\\r|\\n|\\u000a|'\s+b'|\s`)
	base64Run      = regexp.MustCompile(`[A-Za-z0-9+/]{4,}`)
	space          = regexp.MustCompile(`\s`)
	base32Run      = regexp.MustCompile(`[A-Z0-9]{8,}`)
)

// leakFrom is how many bytes of a secret in a row are a leak. Base64 may keep some bits of its first byte, and
// a text the same few letters by accident.
const leakFrom = 6

// leak decodes what was masked in all the ways that are known here, and returns the first that has a part of
// the secret. It shares no code with what masks: it decodes whole texts, by the standard library where that
// can.
func leak(masked, secret string) (how, part string) {
	parts := map[string]bool{}
	size := min(leakFrom, len(secret))
	for i := range len(secret) - size + 1 {
		parts[secret[i:i+size]] = true
	}
	for _, d := range decoders() {
		for _, text := range d.decode(masked) {
			for i := range max(0, len(text)-size+1) {
				if parts[text[i:i+size]] {
					return d.name, text[i : i+size]
				}
			}
		}
	}
	return "", ""
}

type decoder struct {
	name   string
	decode func(string) []string
}

func decoders() []decoder {
	one := func(f func(string) string) func(string) []string {
		return func(s string) []string { return []string{f(s), f(f(s))} }
	}
	return []decoder{
		{"reading it", func(s string) []string { return []string{s} }},
		{"joining lines", one(func(s string) string {
			return strings.NewReplacer("\\\n", "", "=\n", "", "=\r\n", "", "\r", "", "\n", "").Replace(s)
		})},
		{"removing colours", one(func(s string) string { return colours.ReplaceAllString(s, "") })},
		{"unescaping a URL", one(percentDecoded)},
		{"unescaping HTML", one(html.UnescapeString)},
		{"unescaping backslashes", one(unescaped)},
		{"removing quotes", one(func(s string) string {
			return strings.NewReplacer(`'\''`, "'", `'"'"'`, "'", "'$'", "", "''", "").Replace(unescaped(s))
		})},
		{"halving quotes", one(func(s string) string { return strings.NewReplacer("''", "'", `""`, `"`, "%%", "%").Replace(s) })},
		{"hexadecimal", fromHex},
		{"base64", fromBase64},
		{"base32", fromBase32},
	}
}

func percentDecoded(s string) string {
	s = unicodePercent.ReplaceAllStringFunc(s, func(m string) string { return unescaped(`\` + m[1:]) })
	return percentByte.ReplaceAllStringFunc(s, func(m string) string {
		if v, err := url.PathUnescape(m); err == nil {
			return v
		}
		return m
	})
}

func unescaped(s string) string {
	s = continued.ReplaceAllString(s, "")
	s = surrogates.ReplaceAllStringFunc(s, func(m string) string {
		if v, err := strconv.Unquote(`"` + m + `"`); err == nil {
			return v
		}
		high, _ := strconv.ParseUint(m[2:6], 16, 32)
		low, _ := strconv.ParseUint(m[8:12], 16, 32)
		return string(rune((high-0xd800)<<10 + (low - 0xdc00) + 0x10000))
	})
	return escape.ReplaceAllStringFunc(s, func(m string) string {
		body := m[1:]
		switch c := body[0]; {
		case strings.IndexByte("abtnvfr", c) >= 0:
			return "\a\b\t\n\v\f\r"[strings.IndexByte("abtnvfr", c):][:1]
		case (c == 'x' || c == 'u' || c == 'U') && len(body) > 1:
			v, err := strconv.ParseUint(strings.Trim(body[1:], "{}"), 16, 32)
			if err == nil && c == 'x' && body[1] != '{' {
				return string([]byte{byte(v)})
			}
			if err == nil && utf8.ValidRune(rune(v)) {
				return string(rune(v))
			}
		case '0' <= c && c <= '7':
			v, _ := strconv.ParseUint(body, 8, 16)
			return string([]byte{byte(v)})
		}
		return body
	})
}

func fromHex(s string) (texts []string) {
	for _, digits := range hexRun.FindAllString(hexFiller.ReplaceAllString(s, ""), -1) {
		for from := range 2 {
			text := digits[from:]
			b, _ := hex.DecodeString(text[:len(text)/2*2])
			texts = append(texts, string(b))
		}
	}
	return texts
}

func fromBase64(s string) (texts []string) {
	s = percentDecoded(s)
	s = base64Filler.ReplaceAllString(s, "")
	s = strings.NewReplacer(`\/`, "/", "-", "+", "_", "/").Replace(s)
	for _, run := range base64Run.FindAllString(s, -1) {
		for from := range 4 {
			text := run[from:]
			b, _ := base64.RawStdEncoding.DecodeString(text[:len(text)/4*4])
			texts = append(texts, string(b))
		}
	}
	return texts
}

func fromBase32(s string) (texts []string) {
	s = space.ReplaceAllString(s, "")
	for _, e := range []*base32.Encoding{base32.StdEncoding, base32.HexEncoding} {
		for _, run := range base32Run.FindAllString(s, -1) {
			for from := range 8 {
				text := run[min(from, len(run)):]
				b, _ := e.WithPadding(base32.NoPadding).DecodeString(text[:len(text)/8*8])
				texts = append(texts, string(b))
			}
		}
	}
	return texts
}
