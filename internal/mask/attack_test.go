package mask

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	rounds = flag.Int("rounds", 400, "how many encoded secrets TestNoEncodingAndNoCutHidesASecret tries")
	live   = flag.Int("live", 0, "how often the commands of testdata/commands.txt that are here are run with random secrets")
	seed   = flag.Uint64("seed", 1, "seed of the random secrets; 0: a random one")
)

// encoder writes a secret in one way. Before and after are what is around it, for encodings that do not keep to bytes.
type encoder struct {
	name   string
	encode func(r *rand.Rand, before, secret, after string) string
}

// each returns an encoder that writes each character by itself.
func each(name string, one func(r *rand.Rand, c rune, raw string) string) encoder {
	return encoder{name, func(r *rand.Rand, before, secret, after string) string {
		var b strings.Builder
		for rest := secret; rest != ""; {
			c, n := utf8.DecodeRuneInString(rest)
			if c == utf8.RuneError && n == 1 {
				c = -1
			}
			b.WriteString(one(r, c, rest[:n]))
			rest = rest[n:]
		}
		return before + b.String() + after
	}}
}

func whole(name string, f func(secret string) string) encoder {
	return encoder{name, func(_ *rand.Rand, before, secret, after string) string { return before + f(secret) + after }}
}

// around is whole for encodings in which what stands before and after a secret is encoded with it.
func around(name string, f func(r *rand.Rand, text string) string) encoder {
	return encoder{name, func(r *rand.Rand, before, secret, after string) string { return f(r, before+secret+after) }}
}

func wrapped(s string, width int, end string) string {
	var lines []string
	for chunk := range slices.Chunk([]byte(s), width) {
		lines = append(lines, string(chunk))
	}
	return strings.Join(lines, end)
}

func jsonText(s string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func ascii(s, format string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c < 0x80:
			b.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, format+format, high, low)
		default:
			fmt.Fprintf(&b, format, c)
		}
	}
	return b.String()
}

func percentAll(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func listed(s, format, separator string) string {
	var all []string
	for i := range len(s) {
		all = append(all, fmt.Sprintf(format, s[i]))
	}
	return strings.Join(all, separator)
}

func alnum(c rune) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// escapes are the ways to write one character, for encodings that change in the middle.
func escapes(c rune, raw string) []string {
	all := []string{raw, percentAll(raw, "%%%02X"), percentAll(raw, "%%%02x"), percentAll(raw, `\x%02x`), percentAll(raw, `\%03o`)}
	if c < 0 {
		return all
	}
	all = append(all, fmt.Sprintf("&#%d;", c), fmt.Sprintf("&#x%x;", c), fmt.Sprintf("&#X%04X;", c), fmt.Sprintf(`\u{%x}`, c), fmt.Sprintf(`\U%08x`, c), fmt.Sprintf(`\x{%X}`, c))
	if c < 0x10000 {
		all = append(all, fmt.Sprintf(`\u%04x`, c), fmt.Sprintf(`\u%04X`, c), fmt.Sprintf(`\\u%04x`, c), fmt.Sprintf("%%u%04X", c))
	} else {
		high, low := utf16.EncodeRune(c)
		all = append(all, fmt.Sprintf(`\u%04x\u%04x`, high, low), fmt.Sprintf(`\\\u%04X\\\u%04X`, high, low))
	}
	if c < 0x80 && !alnum(c) && c != '_' {
		all = append(all, `\`+raw)
	}
	return all
}

func base64s() map[string]*base64.Encoding {
	return map[string]*base64.Encoding{
		"": base64.StdEncoding, "url": base64.URLEncoding, "raw": base64.RawStdEncoding, "rawurl": base64.RawURLEncoding,
	}
}

func encoders() []encoder {
	all := []encoder{
		whole("as it is", func(s string) string { return s }),
		whole("JSON", func(s string) string { return jsonText(s, true) }),
		whole("JSON without HTML", func(s string) string { return jsonText(s, false) }),
		whole("JSON in JSON", func(s string) string { return jsonText(jsonText(s, false), false) }),
		whole("JSON in JSON in JSON", func(s string) string { return jsonText(jsonText(jsonText(s, true), true), true) }),
		whole("ASCII JSON", func(s string) string { return ascii(jsonText(s, false), `\u%04x`) }),
		whole("ASCII JSON, upper case", func(s string) string { return ascii(jsonText(s, false), `\u%04X`) }),
		whole("PHP's JSON", func(s string) string {
			return strings.ReplaceAll(ascii(jsonText(s, false), `\u%04x`), "/", `\/`)
		}),
		whole("QueryEscape", url.QueryEscape),
		whole("PathEscape", url.PathEscape),
		whole("all percent", func(s string) string { return percentAll(s, "%%%02x") }),
		each("encodeURI", func(_ *rand.Rand, c rune, raw string) string {
			if alnum(c) || strings.ContainsRune(";,/?:@&=+$-_.!~*'()#", c) {
				return raw
			}
			return percentAll(raw, "%%%02X")
		}),
		each("JavaScript's escape", func(_ *rand.Rand, c rune, raw string) string {
			switch {
			case alnum(c) || strings.ContainsRune("@*_+-./", c):
				return raw
			case c < 0:
				return "%uFFFD"
			case c > 0xffff:
				high, low := utf16.EncodeRune(c)
				return fmt.Sprintf("%%u%04X%%u%04X", high, low)
			case c > 0xff:
				return fmt.Sprintf("%%u%04X", c)
			}
			return fmt.Sprintf("%%%02X", c)
		}),
		whole("Go's %q", strconv.Quote),
		whole("Go's %+q", strconv.QuoteToASCII),
		each("Python's ascii", func(_ *rand.Rand, c rune, raw string) string {
			switch {
			case c < 0:
				return fmt.Sprintf(`\udc%02x`, raw[0])
			case c == '\\' || c == '\'':
				return `\` + raw
			case c >= 0x20 && c < 0x7f:
				return raw
			case c <= 0xff:
				return fmt.Sprintf(`\x%02x`, c)
			case c <= 0xffff:
				return fmt.Sprintf(`\u%04x`, c)
			}
			return fmt.Sprintf(`\U%08x`, c)
		}),
		whole("single quotes", func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }),
		whole("double quotes in single", func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'" }),
		whole("single quotes in JSON", func(s string) string { return jsonText("'"+strings.ReplaceAll(s, "'", `'\''`)+"'", false) }),
		each("backslashes", func(_ *rand.Rand, c rune, raw string) string {
			if alnum(c) || c >= 0x80 || strings.ContainsRune("_-./", c) || c < 0x20 {
				return raw
			}
			return `\` + raw
		}),
		each("coreutils", func(_ *rand.Rand, c rune, raw string) string {
			switch {
			case c == '\'':
				return `'\''`
			case c < 0x20:
				return "'$'" + percentAll(raw, `\%03o`) + "''"
			}
			return raw
		}),
		whole("ANSI C quoting", func(s string) string { return "$'" + percentAll(s, `\%03o`) + "'" }),
		whole("HTML", html.EscapeString),
		each("decimal entities", func(_ *rand.Rand, c rune, raw string) string {
			if c < 0 {
				return raw
			}
			return fmt.Sprintf("&#%d;", c)
		}),
		whole("CSV", func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }),
		whole("SQL", func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }),
		each("each character in another way", func(r *rand.Rand, c rune, raw string) string {
			all := escapes(c, raw)
			return all[r.IntN(len(all))]
		}),
		around("hex", func(_ *rand.Rand, s string) string { return hex.EncodeToString([]byte(s)) }),
		around("HEX", func(_ *rand.Rand, s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) }),
		around("xxd -p", func(_ *rand.Rand, s string) string { return wrapped(hex.EncodeToString([]byte(s)), 60, "\n") }),
		around("hex with colons", func(_ *rand.Rand, s string) string { return listed(s, "%02x", ":") }),
		around("xxd -i", func(_ *rand.Rand, s string) string { return wrapped(listed(s, "0x%02x", ", "), 72, "\n  ") }),
		around("base32", func(_ *rand.Rand, s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) }),
		around("base32 on lines", func(_ *rand.Rand, s string) string {
			return wrapped(base32.HexEncoding.EncodeToString([]byte(s)), 76, "\n")
		}),
	}
	for name, e := range base64s() {
		all = append(all,
			around("base64 "+name, func(_ *rand.Rand, s string) string { return e.EncodeToString([]byte(s)) }),
			around("base64 on lines "+name, func(r *rand.Rand, s string) string {
				end := []string{"\n", "\r\n", `\n`, `\r\n`, "\n    ", "%0A", " "}[r.IntN(7)]
				return wrapped(e.EncodeToString([]byte(s)), []int{60, 64, 76}[r.IntN(3)], end)
			}),
			around("base64 in a URL "+name, func(_ *rand.Rand, s string) string { return url.QueryEscape(e.EncodeToString([]byte(s))) }),
		)
	}
	slices.SortFunc(all, func(a, b encoder) int { return strings.Compare(a.name, b.name) })
	return all
}

// randomSecret returns a secret of one of several kinds.
func randomSecret(r *rand.Rand, least int) string {
	n := least + r.IntN(12)
	if r.IntN(3) == 0 {
		n += r.IntN(60)
	}
	kinds := []func() string{
		func() string {
			return string("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[r.IntN(62)])
		},
		func() string { return string(rune(0x21 + r.IntN(94))) },
		func() string { return `'"\$%&+=/<> ` + "`;\t{}^M" }, // cut below
		func() string {
			return string([]rune("äöüßé€ñ中文😀𝔘\u00a0\u0085\u2028\u2029")[r.IntN(15)])
		},
		func() string { return string([]byte{byte(1 + r.IntN(255))}) },
		func() string { return string([]byte{"abcde0123\n\n\t "[r.IntN(13)]}) },
	}
	var b strings.Builder
	mixed, kind := r.IntN(2) == 0, r.IntN(len(kinds))
	for b.Len() < n {
		k := kind
		if mixed {
			k = r.IntN(len(kinds))
		}
		piece := kinds[k]()
		if k == 2 {
			piece = string(piece[r.IntN(len(piece))])
		}
		b.WriteString(piece)
	}
	return b.String()
}

// surrounding returns text that may stand beside a secret.
func surrounding(r *rand.Rand, secret string) string {
	words := []string{
		"", "", " ", "token: ", "Authorization: Bearer ", `{"a":"`, "user:", "x", "1", "%", `\`, "'", `"`, "=", "&", "\n", "a line\n", "M-", "^", "$", "0x", "73 33 ", "YWJj",
		secret[:r.IntN(min(leakFrom-2, len(secret)))], strings.Repeat("-", r.IntN(20)),
	}
	return words[r.IntN(len(words))]
}

// inPieces masks a text that is written in random pieces.
func inPieces(r *rand.Rand, m *Masker, text string) string {
	var b bytes.Buffer
	w := m.Writer(&b)
	most := []int{1, 3, 20, len(text) + 1}[r.IntN(4)]
	for rest := text; rest != ""; {
		n := min(1+r.IntN(most), len(rest))
		_, _ = w.Write([]byte(rest[:n]))
		rest = rest[n:]
	}
	_ = w.Close()
	return b.String()
}

func random(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64() >> 32
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// Whatever a secret is made of, however it is encoded and wherever the text is cut, no decoder finds it in what was masked.
func TestNoEncodingAndNoCutHidesASecret(t *testing.T) {
	r := random(t)
	all, failed := encoders(), map[string]int{}
	for round := range *rounds {
		e := all[round%len(all)]
		secret := randomSecret(r, 4)
		before, after := surrounding(r, secret), surrounding(r, secret)
		text := surrounding(r, secret) + e.encode(r, before, secret, after) + surrounding(r, secret)
		m := New([]string{secret, randomSecret(r, 4)})
		masked := m.Text(text)
		how, part := leak(masked, secret)
		switch pieces := inPieces(r, m, text); {
		case pieces != masked:
			t.Errorf("round %d, %s of %q: in pieces %q, as a whole %q", round, e.name, secret, pieces, masked)
		case !strings.Contains(masked, Mark):
			how = "nothing is masked: reading it"
		case how == "":
			continue
		}
		if failed[e.name]++; failed[e.name] <= 3 {
			t.Errorf("round %d, %s of %q: %s gives %q\n%q\n%q", round, e.name, secret, how, part, text, masked)
		}
	}
	t.Logf("%d encoded secrets, %d encoders, failures %v", *rounds, len(all), failed)
}

// harmless returns text that knows no secret.
func harmless(r *rand.Rand) string {
	data := make([]byte, 30+r.IntN(300))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var b strings.Builder
	switch r.IntN(8) {
	case 0:
		return hex.EncodeToString(data)
	case 1:
		return base64.StdEncoding.EncodeToString(data)
	case 2:
		return hex.Dump(data)
	case 3:
		return fmt.Sprint(data)
	case 4:
		return jsonText(strings.ToValidUTF8(string(data), "?"), true)
	case 5:
		for i := range 20 {
			fmt.Fprintf(&b, "2026-03-%02dT10:%02d:07Z [info] request=%d \"GET /a?x=%%2F%d&y='1'\" 200 took %dms\n", 1+i, r.IntN(60), r.IntN(1e6), r.IntN(1000), r.IntN(100))
		}
	case 6:
		for range 60 {
			b.WriteString([]string{"the ", "and ", "error: ", "\"name\": ", "if (x == 'a') {\n", "}\n", "0 1 2 3 10 100 ", "$HOME/", "\\n", "echo \"${x}\" ", "&amp; "}[r.IntN(11)])
		}
	default:
		for range 200 {
			b.WriteByte(byte(0x20 + r.IntN(95)))
		}
	}
	return b.String()
}

// Nothing is masked in texts that hold no secret. The shortest secrets are found by accident, as they always were.
func TestTextsWithoutSecretsStayAsTheyAre(t *testing.T) {
	r := random(t)
	size, wrong := 0, map[int]int{}
	for range *rounds {
		secret := randomSecret(r, 4)
		if len(strings.TrimSpace(secret)) < 4 || slices.ContainsFunc(strings.Split(secret, "\n"), func(line string) bool { return line != secret && len(line) > 4 && len(line) < 8 }) {
			continue
		}
		text := harmless(r)
		size += len(text)
		masked := New([]string{secret}).Text(text)
		if masked == text {
			continue
		}
		wrong[len(secret)]++
		if len(secret) >= 7 {
			t.Errorf("%q in %q: %q", secret, text, masked)
		}
	}
	t.Logf("%d bytes, masked by accident by the length of the secret: %v", size, wrong)
}

// What the programs that are here print of random secrets holds nothing of them.
func TestNothingIsLeftInWhatCommandsPrintOfRandomSecrets(t *testing.T) {
	r := random(t)
	ran := 0
	for range *live {
		long := ""
		for len(long) < 120 {
			long += strings.Map(func(c rune) rune {
				if c <= ' ' || c >= 0x7f || c == '#' { // of a URL, wget sends only what is in front of that
					return 'x'
				}
				return c
			}, randomSecret(r, 10))
		}
		values := map[string]string{
			"SECRET": strings.ToValidUTF8(randomSecret(r, 6), "é"), "TOKEN": long,
			"KEY":  "begin" + randomSecret(r, 10) + "\n" + strings.ToValidUTF8(randomSecret(r, 10), "ü") + "\nend",
			"NAME": strings.NewReplacer("/", "_", "\n", " ").Replace("n" + strings.ToValidUTF8(randomSecret(r, 6), "é")),
		}
		values["KEY"] = strings.ToValidUTF8(values["KEY"], "ö")
		m := New([]string{values["SECRET"], values["TOKEN"], values["KEY"], values["NAME"]})
		for _, p := range printings(t) {
			text, ok := p.print(t, values)
			if !ok {
				continue
			}
			ran++
			masked := m.Text(text)
			for _, secret := range values {
				if how, part := leak(masked, secret); how != "" {
					t.Errorf("%s: %s gives %q of %q\n%q\n%q", p.name, how, part, secret, text, masked)
				}
			}
		}
	}
	t.Logf("%d commands ran", ran)
}
