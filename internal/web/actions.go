package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

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
			s.refuse(w, r, http.StatusBadRequest, "Invalid form data.")
			return
		}
		if !same(r.PostForm.Get("token"), s.form) {
			s.refuse(w, r, http.StatusForbidden,
				"This page is out of date. Go back, reload it, and try again.")
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
				s.refuse(w, r, http.StatusBadRequest, "No item selected.")
				return
			}
		case Scale:
			if a.Slots, err = strconv.Atoi(strings.TrimSpace(r.PostForm.Get("slots"))); err != nil || a.Slots < 1 {
				s.refuse(w, r, http.StatusBadRequest,
					"Slots must be at least 1. To run nothing, use Pause.")
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
