package web

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// ActionKind is what can be started from a page.
type ActionKind string

const (
	Stop   ActionKind = "stop"
	Resume ActionKind = "resume"
	Retry  ActionKind = "retry" // of dead letters

	// What a running job is asked for.
	Pause    ActionKind = "pause"
	Continue ActionKind = "continue"
	Drain    ActionKind = "drain"
	Cancel   ActionKind = "cancel"
	Scale    ActionKind = "scale"
	Skip     ActionKind = "skip"
	RetryNow ActionKind = "retry-now"

	Accept ActionKind = "accept" // resume although too few of the first items have succeeded
)

// actionKinds returns all of them.
func actionKinds() []ActionKind {
	return []ActionKind{Stop, Resume, Retry, Pause, Continue, Drain, Cancel, Scale, Skip, RetryNow, Accept}
}

// Continues reports whether the action continues a job that is not running.
func (k ActionKind) Continues() bool { return k == Resume || k == Accept || k == Retry }

// Action is what a person asked for on a page.
type Action struct {
	Kind   ActionKind
	Items  []string // to retry or skip; empty means all that are eligible, or that wait
	Reduce bool     // run reduce again after a retry
	Slots  int      // of Scale
}

var (
	errReadOnly = errors.New("this server only shows jobs: it was started with --read-only")
	errRemote   = errors.New("only a browser on the machine of the server can start something")
	errNotMine  = errors.New("the job belongs to another user")
)

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

// act returns a handler that starts the command of an action. The form must send its token, so that no other site can
// submit it; guard has checked the host, the origin and the cookie.
func (s *Server) act(kind ActionKind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.refusal(r); err != nil {
			s.refuse(w, r, http.StatusForbidden, err.Error())
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := r.ParseForm(); err != nil {
			s.refuse(w, r, http.StatusBadRequest, "The form cannot be read.")
			return
		}
		if !same(r.PostForm.Get("token"), s.form) {
			s.refuse(w, r, http.StatusForbidden,
				"The form lacks its token: the page was made by an earlier prodigy ui. Go back, load it again, and press the button there.")
			return
		}
		place, err := s.Data.Find(r.PathValue("job"))
		switch {
		case err != nil:
			s.fail(w, r, err)
			return
		case !place.Own():
			s.refuse(w, r, http.StatusForbidden, errNotMine.Error())
			return
		}
		a := Action{Kind: kind}
		next := "/jobs/" + url.PathEscape(place.ID)
		switch kind {
		case Retry:
			a.Items, a.Reduce = r.Form["item"], r.PostForm.Get("reduce") != ""
		case Skip, RetryNow:
			a.Items = r.Form["item"]
			if len(a.Items) == 1 {
				next = itemURL(place.ID, "items", a.Items[0]) // where its state is
			} else if kind == Skip && len(a.Items) == 0 {
				s.refuse(w, r, http.StatusBadRequest, "No item is named.")
				return
			}
		case Scale:
			if a.Slots, err = strconv.Atoi(strings.TrimSpace(r.PostForm.Get("slots"))); err != nil || a.Slots < 1 {
				s.refuse(w, r, http.StatusBadRequest,
					"The number of slots is a number from 1 on. Pause has nothing start.")
				return
			}
		}
		if err := s.Data.Start(place, a); err != nil {
			s.refuse(w, r, http.StatusConflict, err.Error())
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// refuse writes a page that says why an action was not done, with the way back to its job.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	p := page{Title: "Not done", Name: "error", Data: why}
	if job := r.PathValue("job"); job != "" {
		p.Back = "/jobs/" + url.PathEscape(job)
	}
	s.write(w, r, code, p)
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

func (s standing) action(id string) string { return "/jobs/" + url.PathEscape(s.Place.ID) + "/" + id }

func (d itemPage) action(id string) string { return itemURL(d.Place.ID, id, d.Item.ItemID) }
