package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/view"
)

// act returns a handler that starts the command of an action. The form must send its token, so that no other site can
// submit it; guard has checked the host, the origin and the cookie.
func (s *Server) act(kind ActionKind) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.refusal(r); err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := r.ParseForm(); err != nil {
			return notDone{http.StatusBadRequest, "Invalid form data."}
		}
		if !same(r.PostForm.Get("token"), s.form) {
			return notDone{http.StatusForbidden, "This page is out of date. Go back, reload it, and try again."}
		}
		place, err := s.Data.Find(r.PathValue("job"))
		switch {
		case err != nil:
			return err
		case !place.Own():
			return errNotMine
		}
		a := Action{Kind: kind, All: r.PostForm.Has("all")}
		next := "/jobs/" + url.PathEscape(place.ID)
		switch kind {
		case Retry, Skip, RetryNow:
			a.Items = r.Form["item"]
			a.Reduce = kind == Retry && r.PostForm.Get("reduce") != ""
			if a.All {
				most, _ := strconv.Atoi(r.PostForm.Get("all"))
				if err := s.takeAll(place, itemQueryOf(r.PostForm), most, &a); err != nil {
					return notDone{http.StatusConflict, err.Error()}
				}
			}
			if len(a.Items) == 0 && (kind == Skip || r.PostForm.Has("some")) {
				return notDone{http.StatusBadRequest, "No item selected."}
			}
			if kind != Retry && len(a.Items) == 1 {
				next = itemURL(place.ID, "items", a.Items[0]) // where its state is
			}
		case Scale:
			if a.Slots, err = strconv.Atoi(strings.TrimSpace(r.PostForm.Get("slots"))); err != nil || a.Slots < 1 {
				return notDone{http.StatusBadRequest, "Slots must be at least 1. To run nothing, use Pause."}
			}
		}
		if err := s.Data.Start(place, a); err != nil {
			return notDone{http.StatusConflict, err.Error()}
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
		return nil
	})
}

// takeAll gives an action the items that it can be started for of all that a query selects. It refuses to if they have
// become more than most, which the person was told.
func (s *Server) takeAll(place jobs.Job, q itemQuery, most int, a *Action) error {
	running := place.Running()
	found, err := view.ListItems(events.Read(place.EventsDir()), running)
	if err != nil {
		return err
	}
	all, err := s.matching(place, found, q)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(index int) bool { return !canAct(found.Job.StatusOf(index), running) })
	if len(all) > most {
		return fmt.Errorf("%s items match now, not %s. Go back, reload the list, and select them again",
			number(len(all)), number(most))
	}
	a.Items = nil
	wanted := func(index int) bool {
		_, is := slices.BinarySearch(all, index)
		return is
	}
	for it, err := range s.Data.EachItem(place, wanted) {
		if err != nil {
			return err
		}
		a.Items = append(a.Items, it.ID)
	}
	if len(all) <= itemsListed {
		return nil
	}
	if err := os.MkdirAll(place.StartedDir(), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(place.StartedDir(), "items-")
	if err != nil {
		return err
	}
	a.File = f.Name()
	_, err = f.WriteString(strings.Join(a.Items, "\n"))
	return errors.Join(err, f.Close())
}

// canAct reports whether an item with a status can be retried, or skipped while the job runs.
func canAct(s view.Status, running bool) bool {
	if running {
		return slices.Contains([]view.Status{view.Unseen, view.Pending, view.Waiting, view.InFlight}, s)
	}
	return s == view.DeadLetter || s == view.Rejected
}
