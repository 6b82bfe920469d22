package web

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/view"
)

// The shortest interval between two updates of a page.
const (
	jobEvery    = time.Second
	listEvery   = 3 * time.Second
	chartsEvery = 5 * time.Second
)

// stream sends pages as server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html
type stream struct {
	w http.ResponseWriter

	// How long one write may take.
	limit time.Duration

	// The page that was sent last.
	last []byte
}

// newStream begins the answer to a request for a stream.
func (s *Server) newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	return &stream{w: w, limit: s.Limits.Write}
}

// send sends the middle of a page, unless it has not changed since the last one.
func (s *stream) send(p page) error {
	html := render(p.Name, p)
	if bytes.Equal(html, s.last) {
		return nil
	}
	s.last = html
	return s.event("page", html)
}

// event sends HTML for a part of the page.
func (s *stream) event(name string, html []byte) error {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\n")
	for line := range bytes.Lines(html) {
		fmt.Fprintf(&b, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	b.WriteString("\n")
	return s.write(b.Bytes())
}

// drawn sends the charts of a job.
func (s *stream) drawn(place jobs.Job) error {
	_, charts, err := drawn(place)
	if err != nil {
		return err
	}
	return s.event("charts", []byte(charts))
}

// end tells the browser that the stream is over, so that it does not reconnect.
func (s *stream) end() error { return s.write([]byte("event: end\ndata:\n\n")) }

// write sends b immediately. A browser that does not read it in time loses the stream and reconnects.
func (s *stream) write(b []byte) error {
	c := http.NewResponseController(s.w)
	if s.limit > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(s.limit))
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return c.Flush()
}

// liveJob streams the page of a job from its log until the job ends.
func (s *Server) liveJob(w http.ResponseWriter, r *http.Request, place jobs.Job) error {
	out := s.newStream(w)
	if err := s.follow(r, place, out); err == nil {
		_ = out.end()
	}
	return nil
}

// follow owns the view of a job for one browser, and sends it when it changes, but not before it has all that the log
// has now: the page in the browser has that already.
func (s *Server) follow(req *http.Request, place jobs.Job, out *stream) error {
	last, err := events.Last(place.EventsDir())
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(req.Context())
	records := view.Follow(ctx, g, place)
	g.Go(func() error {
		seen := view.New()
		labels := s.Data.Labels(place)
		defer check.Quietly(labels.Close)
		send := func() error { return out.send(s.complete(s.jobPage(place, seen, labels, "", time.Now()), req)) }
		due := time.Now().Add(chartsEvery) // of the next charts; the page has come with some
		tick := time.NewTicker(cmp.Or(s.every, jobEvery))
		defer tick.Stop()
		read := int64(0)
		for {
			select {
			case r, open := <-records:
				if !open {
					return errors.Join(send(), out.drawn(place))
				}
				seen.Apply(r)
				read = r.Seq
			case <-tick.C:
				if read < last.Seq {
					continue
				}
				if err := send(); err != nil {
					return err
				}
				if !time.Now().After(due) {
					continue
				}
				began := time.Now()
				if err := out.drawn(place); err != nil {
					return err
				}
				due = time.Now().Add(max(chartsEvery, 2*calm*time.Since(began)))
			}
		}
	})
	return g.Wait()
}

// calm is how many times as long as the making of a page the time until it is made again is at least.
const calm = 10

// live returns a handler that streams a page about a job until that is not run any more.
func (s *Server) live(make func(*http.Request, jobs.Job) (page, error)) http.HandlerFunc {
	return s.of(func(w http.ResponseWriter, r *http.Request, place jobs.Job) error {
		s.again(w, r, jobEvery, place.Running, func() (page, error) { return make(r, place) })
		return nil
	})
}

// again streams a page, which it makes again and again until nothing goes on any more.
func (s *Server) again(w http.ResponseWriter, r *http.Request, every time.Duration, goesOn func() bool,
	make func() (page, error),
) {
	out := s.newStream(w)
	for {
		last := !goesOn() // asked before the page is made, so that the last one has all
		began := time.Now()
		p, err := make()
		if err != nil || out.send(s.complete(p, r)) != nil {
			return
		}
		if last {
			_ = out.end()
			return
		}
		if duration.Sleep(r.Context(), max(every, calm*time.Since(began))) != nil {
			return
		}
	}
}
