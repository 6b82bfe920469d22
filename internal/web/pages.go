package web

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/view"
)

// page is one page: the name of its template and its data.
type page struct {
	Title string
	Name  string // of the template of its middle
	Live  string // address of the stream that replaces the middle; empty if it stays as it is
	Ended bool   // nothing comes in the stream until somebody runs the job again
	Back  string // address of the job that an error is about; empty means none
	Data  any
	Token string // for the forms
	Acts  bool   // there are forms that start something
	Home  string // version, for the foot

	Middle template.HTML
}

// itemURL returns the address of a page about an item. The item is in the query, since browsers would resolve . and ..
// in a path.
func itemURL(job, page, item string) string {
	return "/jobs/" + url.PathEscape(job) + "/" + page + "?" + url.Values{"item": {item}}.Encode()
}

// of returns a handler of requests about a job.
func (s *Server) of(do func(http.ResponseWriter, *http.Request, jobs.Job)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		place, err := s.Data.Find(r.PathValue("job"))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		do(w, r, place)
	}
}

// show returns a handler that writes a page about a job.
func (s *Server) show(make func(*http.Request, jobs.Job) (page, error)) http.HandlerFunc {
	return s.of(func(w http.ResponseWriter, r *http.Request, place jobs.Job) {
		p, err := make(r, place)
		s.shown(w, r, p, err)
	})
}

// shown writes a page, or what has gone wrong instead.
func (s *Server) shown(w http.ResponseWriter, r *http.Request, p page, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, r, http.StatusOK, p)
}

// fail writes an error page.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, jobs.ErrNotFound) || errors.Is(err, jobs.ErrAmbiguous) || errors.Is(err, errNoItem) {
		code = http.StatusNotFound
	}
	s.write(w, r, code, page{Title: http.StatusText(code), Name: "error", Data: err.Error()})
}

var errNoItem = errors.New("there is no such item")

// complete fills in what all pages have.
func (s *Server) complete(p page, r *http.Request) page {
	p.Token, p.Acts, p.Home = s.form, s.refusal(r) == nil, s.Version
	return p
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, p page) {
	p = s.complete(p, r)
	p.Middle = template.HTML(render(p.Name, p)) // escaped by the template
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(render("layout", p))
}

// jobsListed is the number of jobs in the list, the newest ones.
const jobsListed = 50

// row is a job in the list.
type row struct {
	job.Summary
	Dir   string // in which it was started, where jobs of all directories are listed
	Error string // why it cannot be read
}

// Badge returns the badge of the job.
func (r row) Badge() badge {
	return badgeOf(r.State, r.Metrics.Failed+r.Metrics.Rejected, r.Metrics.Skipped)
}

func (s *Server) list() (page, error) {
	p := page{Title: "Jobs", Name: "jobs", Live: "/live/jobs"}
	all, err := s.Data.Jobs()
	if err != nil {
		return p, err
	}
	rows := make([]row, 0, jobsListed)
	for _, j := range all[:min(len(all), jobsListed)] {
		sum, err := s.Data.Summary(j)
		r := row{Summary: sum}
		if err != nil {
			r.Job, r.Error = j, err.Error()
		} else if s.Dirs {
			r.Dir = dirOf(j)
		}
		rows = append(rows, r)
	}
	p.Data = struct {
		Rows []row
		More int
		Dirs bool
	}{rows, len(all) - len(rows), s.Dirs}
	return p, nil
}

// dirOf returns the directory in which a job was started, "" if it is not known.
func dirOf(j jobs.Job) string {
	meta, err := j.ReadMeta()
	if err != nil {
		return ""
	}
	return meta.Dir
}

// standing is the data of the page of a job.
type standing struct {
	Place     jobs.Job
	Job       *view.Job
	State     string
	Now       time.Time
	Labels    map[int]string // of the items that are named, by index
	Remaining *view.Estimate
	Rate      string
	Mine      bool          // it belongs to the user whose server this is
	Letters   int           // dead letters
	Dir       string        // in which the job was started
	Merging   int           // items whose work waits to be merged
	Reduces   bool          // it has a reduce phase
	Started   []started     // from the pages, the newest first
	Charts    template.HTML // empty: the page keeps those that it has
	Unproven  bool          // it waits for somebody to accept that too few of the first items have succeeded
}

// breakersShown bounds the breakers of keys that are named.
const breakersShown = 5

// Notices says what holds the job back.
func (s standing) Notices() []string {
	var list []string
	j, now := s.Job, s.Now
	if s.State == string(view.Running) {
		list = j.Holding(now)
		if j.Stopping() != "" {
			list[0] = "the job is " + list[0]
		}
		for i, text := range list {
			list[i] = sentence(text)
		}
	}
	breakers := j.Breakers()
	for _, b := range breakers[:min(len(breakers), breakersShown)] {
		of := ""
		if b.Scope != events.WorkflowScope {
			of = " of step " + b.Scope
		}
		if b.Key != "" {
			of += " for " + events.Clip(b.Key, 80)
		}
		text := fmt.Sprintf("The circuit breaker%s is %s", of, b.State)
		if s.State == string(view.Running) && b.Until.After(now) {
			text += ", and tests in " + view.Rough(b.Until.Sub(now))
		}
		list = append(list, text+".")
	}
	switch more := len(breakers) - breakersShown; {
	case more == 1:
		list = append(list, "1 more circuit breaker is not closed.")
	case more > 1:
		list = append(list, fmt.Sprintf("%s more circuit breakers are not closed.", number(more)))
	}
	return list
}

// sentence begins a text with a capital, and ends it.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (s *Server) job(_ *http.Request, place jobs.Job) (page, error) {
	seen, charts, err := drawn(place)
	if err != nil {
		return page{}, err
	}
	labels := s.Data.Labels(place)
	defer func() { _ = labels.Close() }() // only read from
	return jobPage(place, seen, labels, charts, time.Now()), nil
}

// drawn returns the view of a job as its log has it now, and its charts.
func drawn(place jobs.Job) (*view.Job, template.HTML, error) {
	var now time.Time
	if place.Running() {
		now = time.Now()
	}
	return chartsOf(events.Read(place.EventsDir()), now)
}

func jobPage(place jobs.Job, seen *view.Job, labels Labels, charts template.HTML, now time.Time) page {
	st := standing{
		Place: place, Job: seen, State: stateOf(seen,
			place.Running()), Now: now, Labels: map[int]string{}, Mine: place.Own(),
		Letters: seen.Counts.Failed + seen.Counts.Rejected, Started: startedIn(place), Charts: charts,
	}
	st.Reduces = slices.ContainsFunc(seen.Phases,
		func(p view.Phase) bool { return p.Name == "reduce" || p.Name == "merge" })
	st.Merging, _ = seen.Merging(now)
	st.Dir = dirOf(place)
	name := func(index int) { st.Labels[index] = labels.Label(index) }
	for _, a := range seen.InFlight() {
		name(a.Index)
	}
	for _, a := range seen.Slowest {
		name(a.Index)
	}
	for _, g := range seen.Failures.Groups() {
		name(g.Example.ItemIndex)
	}
	if e, ok := seen.Remaining(now); ok && st.State == "running" {
		st.Remaining = &e
	}
	if rate := seen.Rate(now); rate > 0 && st.State == "running" {
		st.Rate = fmt.Sprintf("%.1f", rate)
	}
	ended := st.State != string(view.Running)
	if ended {
		st.Unproven, _ = job.AwaitsAccept(place) // a log that cannot be read has no page
	}
	return page{
		Title: seen.Workflow + " · " + place.ID, Name: "job", Live: "/live/jobs/" + url.PathEscape(place.ID),
		Ended: ended, Data: st,
	}
}

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

// itemOf returns the item that a request names, in the path or in the query.
func itemOf(r *http.Request) string {
	if item := r.PathValue("item"); item != "" {
		return item
	}
	return r.URL.Query().Get("item")
}

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
