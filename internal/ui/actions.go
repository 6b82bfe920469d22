package ui

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
)

// Action is what a person asked for on a page.
type Action struct {
	Kind   ActionKind
	Items  []string // to retry; empty: all that are eligible
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

// act returns a handler that starts the command of an action. The form must send its token, so that no other site can submit it; guard has
// checked the host, the origin and the cookie.
func (s *Server) act(kind ActionKind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.refusal(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read", http.StatusBadRequest)
			return
		}
		if !same(r.PostForm.Get("token"), s.form) {
			http.Error(w, "the form lacks its token", http.StatusForbidden)
			return
		}
		place, err := s.Data.Find(r.PathValue("job"))
		switch {
		case err != nil:
			s.fail(w, r, err)
			return
		case !place.Own():
			http.Error(w, errNotMine.Error(), http.StatusForbidden)
			return
		}
		a := Action{Kind: kind}
		if kind == Retry {
			a.Items, a.Reduce = r.Form["item"], r.PostForm.Get("reduce") != ""
		}
		if kind == Scale {
			if a.Slots, err = strconv.Atoi(strings.TrimSpace(r.PostForm.Get("slots"))); err != nil || a.Slots < 1 {
				s.write(w, r, http.StatusBadRequest, page{Title: "Not done", Name: "error", Data: "the number of slots is a number from 1 on; Pause has nothing start"})
				return
			}
		}
		if err := s.Data.Start(place, a); err != nil {
			s.write(w, r, http.StatusConflict, page{Title: "Not done", Name: "error", Data: err.Error()})
			return
		}
		http.Redirect(w, r, "/jobs/"+url.PathEscape(place.ID), http.StatusSeeOther)
	}
}
