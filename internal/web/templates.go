package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/view"
)

//go:embed *.html
var layouts embed.FS

// chartsStyle is the style sheet of a report; the pages of the server use style too.
//
//go:embed charts.css
var chartsStyle string

//go:embed ui.css
var style string

//go:embed ui.js
var script []byte

// templates are those of all pages.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(layouts, "*.html"))
})

// render executes a template.
func render(name string, data any) []byte {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		panic("BUG: page " + name + ": " + err.Error())
	}
	return plain(b.Bytes())
}

// functions are those that templates call.
var functions = template.FuncMap{
	// numbers
	"number":   number,
	"bytes":    roughSize,
	"add":      func(a, b int) int { return a + b },
	"percent":  func(part, all int) string { return fmt.Sprintf("%d %%", 100*part/max(all, 1)) },
	"fraction": func(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) },
	"share":    func(part, all int) string { return fmt.Sprintf("%.1f", 1000*float64(part)/float64(max(all, 1))) },

	// times
	"rough":   view.Rough,
	"roughly": roughly,
	"took":    exactly,
	"millis":  func(m events.Millis) string { return exactly(time.Duration(m)) },
	"age":     func(t time.Time) string { return duration.Format(max(time.Since(t).Truncate(time.Second), 0)) },
	"moment":  func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },

	// texts
	"short":  func(s string) string { return events.Clip(s, 400) },
	"raw":    func(m json.RawMessage) string { return string(m) },
	"text":   shownText,
	"word":   statusWord,
	"few":    namesOf,
	"halves": func(depth int) string { return strings.Repeat("↳ ", depth) },
	"commit": func(name string) string { return fmt.Sprintf("%.10s", name) },

	// parts of pages
	"style":  func() template.CSS { return template.CSS(chartsStyle) },
	"badge":  func(state string, c view.Counts) badge { return badgeOf(state, c.Failed+c.Rejected, c.Skipped) },
	"button": buttonOf,

	// addresses
	"path":     url.PathEscape,
	"item":     itemURL,
	"items":    func(job string, state view.Status) string { return itemQuery{State: state}.url(job) },
	"failures": failuresURL,
	"output":   outputURL,
	"step":     stepURL,

	// drawings
	"at":    func(f float64) string { return fmt.Sprintf("%.1f", math.Round(10*f)/10) },
	"below": func(h, more float64) float64 { return h + more },
	"widen": widen,
}

// widen prints the width of a rectangle at x, rounded so that it ends exactly where its neighbour begins.
func widen(x, w float64) string {
	return fmt.Sprintf("%.1f", max(math.Round(10*(x+w))-math.Round(10*x), 1)/10)
}

// number prints n with its digits in groups of three.
func number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// roughly prints a duration with at most two units.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	return duration.Format(d)
}

// exactly prints a duration in milliseconds.
func exactly(d time.Duration) string { return duration.Format(d.Round(time.Millisecond)) }

// badge is the state of a job as people see it. A job whose items did not all succeed is never shown as one
// that completed.
type badge struct{ Text, Class string }

// badgeOf returns the badge of a job in a state, of which some items have failed or were rejected, and some
// were skipped.
func badgeOf(state string, failed, skipped int) badge {
	switch {
	case state != string(view.Completed):
		return badge{state, state}
	case failed > 0:
		return badge{state + " with failures", "left"}
	case skipped > 0:
		return badge{state, "left"}
	}
	return badge{state, state}
}

// plain removes from the texts of a page what is meant for a terminal, such as colours, and replaces the
// characters that turn the direction of text, with which the name of an item could look like another. The
// pages themselves have none of that.
func plain(page []byte) []byte {
	return bytes.Map(func(r rune) rune {
		switch {
		case r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069':
			return utf8.RuneError
		case r != '\n' && r != '\t' && unicode.IsControl(r):
			return -1
		}
		return r
	}, withoutColours(page))
}

// withoutColours removes control sequences: ECMA-48, 5.4. Their parameters are digits here, so that no tag
// after a sequence that is cut off is taken for a part of it.
func withoutColours(page []byte) []byte {
	before, rest, found := bytes.Cut(page, []byte("\x1b["))
	if !found {
		return page
	}
	plain := make([]byte, 0, len(page))
	for found {
		plain = append(plain, before...)
		rest = bytes.TrimLeft(rest, "0123456789;:?")
		if len(rest) > 0 && rest[0] >= '@' && rest[0] <= '~' {
			rest = rest[1:]
		}
		before, rest, found = bytes.Cut(rest, []byte("\x1b["))
	}
	return append(plain, before...)
}
