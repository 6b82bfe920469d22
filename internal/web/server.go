// Package web shows jobs as pages.
//
// A [Server] shows the list, a running job, its items, what happened to an item and what it printed, and the dead
// letters. It renders HTML pages from the functions in [Data]. A small script replaces the middle of a page with what
// the server streams when the log has grown (live.go). The commands that stop, resume, retry and steer can be started
// from the pages (actions.go). [Report] makes one file of a job, from its log.
//
// Both draw the same charts: a plot collects what is drawn over time on an axis, and a chart is one drawing, made into
// an SVG element by the template. Templates, styles and script are embedded (templates.go).
package web

import (
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

// Server serves the pages. Every request needs the token, so that other users of the machine see nothing. Opening a
// page with the token in the address sets a cookie instead.
type Server struct {
	Token   string
	Hosts   []string // the host:port values that requests may use, against DNS rebinding
	Version string
	Data    Data
	Limits  Limits

	ReadOnly bool // nothing can be started from the pages
	Dirs     bool // the list says in which directory each job was started

	every time.Duration // between two updates of the page of a job; 0 means jobEvery

	form string // token that forms must send, new for each server, against CSRF
}

// Data are the functions that the pages get their data from.
type Data struct {
	Jobs    func() ([]jobs.Job, error)
	Find    func(id string) (jobs.Job, error)
	Summary func(jobs.Job) (job.Summary, error)
	Explain func(j jobs.Job, item string) (view.Explanation, json.RawMessage, error)
	Report  func(jobs.Job) ([]byte, error)

	// Outputs yields what the steps of a job have printed.
	Outputs func(jobs.Job, outputs.Query) iter.Seq2[outputs.Entry, error]

	// EachItem yields the items of a job in order, of those that are wanted by index. The others are not decoded.
	EachItem func(j jobs.Job, wanted func(index int) bool) iter.Seq2[Item, error]

	// Labels returns what items of a job are called, for a page that shows a few of them again and again.
	Labels func(jobs.Job) Labels

	// Items returns a function that says what an item of a job is called besides its id, "" for nothing, and its data
	// as it may be shown.
	Items func(jobs.Job) func(id string, item json.RawMessage) (label string, shown json.RawMessage)

	Start func(jobs.Job, Action) error // starts the command of an action, which outlives the server
}

// Labels are what the items of a job are called besides their ids.
type Labels interface {
	Label(index int) string // "" for nothing
	Close() error
}

// Handler returns the handler of all routes. Call it once.
func (s *Server) Handler() http.Handler {
	s.form = rand.Text()
	mux := http.NewServeMux()
	for route, page := range map[string]func(*http.Request, jobs.Job) (page, error){
		"GET /jobs/{job}":                s.job,
		"GET /jobs/{job}/letters":        s.letters,
		"GET /jobs/{job}/letters/{item}": s.letter,
		"GET /jobs/{job}/items/{item}":   s.explain,
		"GET /jobs/{job}/letter":         s.letter,
		"GET /jobs/{job}/items":          s.itemOrItems,
	} {
		mux.HandleFunc(route, s.show(page))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		p, err := s.list()
		s.shown(w, r, p, err)
	})
	mux.HandleFunc("GET /jobs/{job}/find", s.of(s.find))
	mux.HandleFunc("GET /live/jobs", s.liveList)
	mux.HandleFunc("GET /live/jobs/{job}", s.of(s.liveJob))
	mux.HandleFunc("GET /live/jobs/{job}/items", s.live(s.itemOrItems))
	mux.HandleFunc("GET /jobs/{job}/report", s.of(s.report))
	mux.HandleFunc("GET /jobs/{job}/output", s.of(s.output))
	for _, kind := range actionKinds() {
		mux.HandleFunc("POST /jobs/{job}/"+string(kind), s.act(kind))
	}
	mux.HandleFunc("GET /ui.js", asset("text/javascript; charset=utf-8", script))
	mux.HandleFunc("GET /ui.css", asset("text/css; charset=utf-8", []byte(chartsStyle+style)))
	return s.guard(mux)
}

func asset(kind string, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data)
	}
}

// policy is the Content-Security-Policy: pages use their own style, script and stream, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard rejects requests without the token, for other hosts or from other sites.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would send forms with the origin null
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !slices.Contains(s.Hosts, r.Host):
			http.Error(w, "this server does not serve "+r.Host, http.StatusMisdirectedRequest)
		case !sameOrigin(r):
			http.Error(w, "requests from other sites are not allowed", http.StatusForbidden)
		case r.Method == http.MethodGet && s.isToken(r.URL.Query().Get("token")):
			s.welcome(w, r)
		case !s.known(r):
			http.Error(w, "the token is missing: open the address that prodigy ui printed", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameOrigin reports whether the request comes from a page of this server, or from no page.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host == r.Host
}

func (s *Server) isToken(text string) bool { return same(text, s.Token) }

// same compares secrets in constant time.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cookieName returns a cookie name for the port, since all ports of a host share their cookies.
func cookieName(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		port = "80"
	}
	return "prodigy-" + port
}

// welcome stores the token in a cookie and redirects to the address without it.
func (s *Server) welcome(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r.Host), Value: s.Token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
	query := r.URL.Query()
	query.Del("token")
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

func (s *Server) known(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(r.Host))
	return err == nil && s.isToken(cookie.Value)
}
