package web

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"html/template"
	"iter"
	"net"
	"net/http"
	"net/url"
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

	// Nothing can be started from the pages.
	ReadOnly bool

	// The list says in which directory each job was started.
	Dirs bool

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
	Advice  func(job.Summary) []string // for the failures of a job that has ended

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

// Item is an item of a job as it may be shown.
type Item struct {
	ID    string
	Index int
	Label string // what it is called besides its id; empty means nothing
	Data  json.RawMessage
}

// Limits bound the resources that a client can use, with or without the token.
type Limits struct {
	Header      time.Duration // to read the header of a request
	Read        time.Duration // to read header and body
	Write       time.Duration // to write a response, or one event of a stream
	Idle        time.Duration // between two requests
	HeaderBytes int
	Connections int // at the same time; further ones wait
}

// DefaultLimits returns limits that ordinary use of a browser does not reach.
func DefaultLimits() Limits {
	return Limits{
		Header: 10 * time.Second, Read: 30 * time.Second, Write: time.Minute,
		Idle: 2 * time.Minute, HeaderBytes: 64 << 10, Connections: 128,
	}
}

// handle returns a handler that calls do, and writes an error page if it returns an error.
func (s *Server) handle(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// of returns a handler of requests about a job.
func (s *Server) of(do func(http.ResponseWriter, *http.Request, jobs.Job) error) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		place, err := s.Data.Find(r.PathValue("job"))
		if err != nil {
			return err
		}
		return do(w, r, place)
	})
}

// show returns a handler that writes a page about a job.
func (s *Server) show(make func(*http.Request, jobs.Job) (page, error)) http.HandlerFunc {
	return s.of(func(w http.ResponseWriter, r *http.Request, place jobs.Job) error {
		p, err := make(r, place)
		return s.shown(w, r, p, err)
	})
}

// shown writes a page, unless there is an error.
func (s *Server) shown(w http.ResponseWriter, r *http.Request, p page, err error) error {
	if err == nil {
		s.write(w, r, http.StatusOK, p)
	}
	return err
}

// notDone is why an action was not done, with a status code.
type notDone struct {
	code int
	why  string
}

// Error returns the reason.
func (e notDone) Error() string { return e.why }

// fail writes an error page. That of an action has the way back to its job.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, p := http.StatusInternalServerError, page{Name: "error", Data: err.Error()}
	refused, isAction := errors.AsType[notDone](err)
	switch {
	case isAction:
		code, p.Title, p.Back = refused.code, "Not done", "/jobs/"+url.PathEscape(r.PathValue("job"))
	case errors.Is(err, jobs.ErrNotFound), errors.Is(err, jobs.ErrAmbiguous), errors.Is(err, errNoItem):
		code = http.StatusNotFound
	}
	p.Title = cmp.Or(p.Title, http.StatusText(code))
	s.write(w, r, code, p)
}

var errNoItem = errors.New("item not found")

// complete fills in what all pages have.
func (s *Server) complete(p page, r *http.Request) page {
	p.Token, p.Acts, p.Home = s.form, s.refusal(r) == nil, s.Version
	return p
}

// write writes a page with a status code.
func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, p page) {
	p = s.complete(p, r)
	p.Middle = template.HTML(render(p.Name, p)) // escaped by the template
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(render("layout", p))
}

// itemOf returns the item that a request names, in the path or in the query.
func itemOf(r *http.Request) string {
	if item := r.PathValue("item"); item != "" {
		return item
	}
	return r.URL.Query().Get("item")
}

// refusal returns why nothing is started for a request, or nil.
func (s *Server) refusal(r *http.Request) error {
	if s.ReadOnly {
		return errReadOnly
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return errRemote
	}
	return nil
}

var (
	errReadOnly = notDone{http.StatusForbidden, "this server is read-only (--read-only)"}
	errRemote   = notDone{http.StatusForbidden, "actions are allowed only from a browser on the server's machine"}
	errNotMine  = notDone{http.StatusForbidden, "the job belongs to another user"}
)

// stateOf returns the state of a job that is shown.
func stateOf(j *view.Job, running bool) jobs.State {
	switch {
	case running:
		return jobs.Running
	case j.State == jobs.Running:
		return jobs.Killed
	}
	return j.State
}

// same compares secrets in constant time.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
