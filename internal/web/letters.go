package web

import (
	"fmt"
	"net/http"

	"prodigy/internal/dlq"
	"prodigy/internal/jobs"
)

// letters makes the page of the dead letters of a job.
func (s *Server) letters(_ *http.Request, place jobs.Job) (page, error) {
	var list []letter
	more := 0
	shown := s.Data.Items(place)
	for e, err := range dlq.Each(place.DLQFile()) {
		switch {
		case err != nil:
			return page{}, err
		case len(list) < lettersListed:
			l := letter{Entry: e}
			l.Label, l.Item = shown(e.ItemID, e.Item)
			list = append(list, l)
		default:
			more++
		}
	}
	return page{Title: "Dead letters · " + place.ID, Name: "letters", Data: struct {
		Place   jobs.Job
		Letters []letter
		More    int
		Mine    bool
	}{place, list, more, place.Own()}}, nil
}

// letter is a dead letter as it is shown.
type letter struct {
	dlq.Entry
	Label string
}

// lettersListed is the number of dead letters on a page.
const lettersListed = 500

// letter makes the page of one dead letter.
func (s *Server) letter(r *http.Request, place jobs.Job) (page, error) {
	item := itemOf(r)
	e, found, err := dlq.Find(place.DLQFile(), item)
	switch {
	case err != nil:
		return page{}, err
	case !found:
		return page{}, fmt.Errorf("%w: job %s has no dead letter %q", errNoItem, place.ID, item)
	}
	l := letter{Entry: e}
	l.Label, l.Item = s.Data.Items(place)(e.ItemID, e.Item)
	return page{Title: e.ItemID + " · " + place.ID, Name: "letter", Data: struct {
		Place jobs.Job
		letter
		Mine bool
	}{place, l, place.Own()}}, nil
}

// report sends the report of a job. It may have styles of its own, as the one file that it is, and nothing else.
func (s *Server) report(w http.ResponseWriter, r *http.Request, place jobs.Job) {
	made, err := s.Data.Report(place)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(made)
}
