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

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
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

// page is one page: the name of its template and its data.
type page struct {
	Title string

	// The name of the template of its middle.
	Name string

	// The address of the stream that replaces the middle. It is empty if the page stays as it is.
	Live string

	// Nothing comes in the stream until somebody runs the job again.
	Ended bool

	// The address of the job that an error is about. It is empty if there is none.
	Back string

	Data any

	// The token of forms. See Server.form.
	Token string

	// The page has forms that start something.
	Acts bool

	// The version of prodigy, for the foot of the page.
	Home string

	Middle template.HTML
}

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
	"took":    duration.Milliseconds[time.Duration],
	"millis":  duration.Milliseconds[events.Millis],
	"age":     func(t time.Time) string { return duration.Format(max(time.Since(t).Truncate(time.Second), 0)) },
	"moment":  check.Moment,

	// texts
	"short":  func(s string) string { return events.Clip(s, 400) },
	"raw":    func(m json.RawMessage) string { return string(m) },
	"text":   shownText,
	"word":   statusWord,
	"few":    namesOf,
	"commit": events.ShortCommit,

	// parts of pages
	"style": func() template.CSS { return template.CSS(chartsStyle) },
	"badge": badgeOf,
	"summed": func(s job.Summary) badge {
		b := badgeOf(s.State, s.Metrics.Outcomes)
		b.Text = s.StateShown()
		return b
	},
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

// badge is the state of a job as people see it. A job whose items did not all succeed is never shown as one
// that completed.
type badge struct{ Text, Class string }

// badgeOf returns the badge of a job in a state, by what has become of its items.
func badgeOf(state jobs.State, c view.Counts) badge {
	text := string(state)
	switch {
	case state != jobs.Completed:
		return badge{text, text}
	case c.DeadLetters() > 0:
		return badge{text + " with failures", "left"}
	case c.Skipped > 0:
		return badge{text, "left"}
	}
	return badge{text, text}
}

// button is a form that consists of a button.
type button struct {
	Action, Token   string
	ID, Text, Title string
	Confirm         string // what to ask before; empty means nothing
}

// buttonOf returns a button for an action on the job or the item of a page. The action is called like its id.
func buttonOf(p page, id, text, title string, confirm ...string) button {
	return button{p.Data.(acted).action(id), p.Token, id, text, title, strings.Join(confirm, "")}
}

// acted is the data of a page with buttons.
type acted interface{ action(id string) string } // its address
