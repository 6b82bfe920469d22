package web

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

// standing is the data of the page of a job.
type standing struct {
	Place jobs.Job
	Job   *view.Job
	State jobs.State
	Now   time.Time

	// What the items on the page are called besides their ids, by index.
	Labels map[int]string

	// The steps in which running items have printed something last, by the ids of the items.
	Steps map[string]string

	// The estimated remaining time. It is nil if none can be given.
	Remaining *view.Estimate

	// Items per second. It is empty while that is not known.
	Rate string

	// The job belongs to the user whose server this is: only then there are buttons.
	Mine bool

	// The directory in which the job was started. It is empty if it is not known.
	Dir string

	// The job has run a reduce or merge phase, which can be run again.
	Reduces bool

	// The commands that were started from the pages, the newest first.
	Started []started

	// The charts. It is empty on a page that keeps those that it has.
	Charts template.HTML

	Told told
}

// told is what the page and the report of a job say in words: why it ended, and what to do.
type told struct {
	Place  jobs.Job
	State  jobs.State
	Reason string
	Advice []string
	job    *view.Job
}

// Letters returns the number of dead letters.
func (t told) Letters() int { return t.job.Counts.DeadLetters() }

// Last returns what the last record of the job says.
func (t told) Last() job.Last {
	last, _ := job.LastOf(t.Place) // a log that cannot be read has no page
	return last
}

// jobsListed is the number of jobs in the list, the newest ones.
const jobsListed = 50

// row is a job in the list.
type row struct {
	job.Summary

	// Why the job cannot be read.
	Error string
}

// list makes the page of the newest jobs. A job that cannot be read has a row with the reason.
func (s *Server) list() (page, error) {
	p := page{Title: "Jobs", Name: "jobs", Live: "/live/jobs"}
	all, err := s.Data.Jobs()
	if err != nil {
		return p, err
	}
	rows := make([]row, 0, jobsListed)
	for _, j := range check.First(all, jobsListed) {
		sum, err := s.Data.Summary(j)
		r := row{Summary: sum}
		if err != nil {
			r.Job, r.Error = j, err.Error()
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

// Notices says what holds the job back.
func (s standing) Notices() []string {
	if s.State != jobs.Running {
		return nil
	}
	return check.Each(view.Progress{}.HoldingBack(s.Job, s.Now), sentence)
}

// action returns the address that starts an action on the job.
func (s standing) action(id string) string { return "/jobs/" + url.PathEscape(s.Place.ID) + "/" + id }

// sentence begins a text with a capital, and ends it.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// job makes the page of a job, with its charts.
func (s *Server) job(_ *http.Request, place jobs.Job) (page, error) {
	seen, charts, err := drawn(place)
	if err != nil {
		return page{}, err
	}
	labels := s.Data.Labels(place)
	defer check.Quietly(labels.Close)
	return s.jobPage(place, seen, labels, charts, time.Now()), nil
}

// drawn returns the view of a job as its log has it now, and its charts.
func drawn(place jobs.Job) (*view.Job, template.HTML, error) {
	var now time.Time
	if place.Running() {
		now = time.Now()
	}
	return chartsOf(events.Read(place.EventsDir()), now)
}

// newestOutputs is how much of what a running job has printed is read to show its last lines.
const newestOutputs = 256 << 10

// jobPage makes the page of a job from its view. The stream of the page makes it again and again without charts,
// which cost more and are sent by themselves.
func (s *Server) jobPage(place jobs.Job, seen *view.Job, labels Labels, charts template.HTML, now time.Time) page {
	st := standing{
		Place: place, Job: seen, State: stateOf(seen,
			place.Running()), Now: now, Labels: map[int]string{}, Steps: map[string]string{}, Mine: place.Own(),
		Started: startedIn(place), Charts: charts,
	}
	st.Reduces = slices.ContainsFunc(seen.Phases,
		func(p view.Phase) bool { return p.Name == "reduce" || p.Name == "merge" })
	st.Dir = dirOf(place)
	for _, a := range append(seen.InFlight(), seen.Slowest...) {
		st.Labels[a.Index] = labels.Label(a.Index)
	}
	for _, g := range seen.Failures.Groups() {
		st.Labels[g.Example.ItemIndex] = labels.Label(g.Example.ItemIndex)
	}
	ended := st.State != jobs.Running
	st.Told = told{place, st.State, seen.Reason, nil, seen}
	if ended {
		sum, _ := s.Data.Summary(place) // without it there is no advice
		st.Told.Advice = s.Data.Advice(sum)
	} else {
		st.Rate = check.Some("%.1f", seen.Rate(now))
		if e, ok := seen.Remaining(now); ok {
			st.Remaining = &e
		}
		for e, err := range s.Data.Outputs(place, outputs.Query{Newest: newestOutputs}) {
			if err == nil {
				seen.Output(e)
				st.Steps[e.ItemID] = e.Step
			}
		}
	}
	return page{
		Title: seen.Workflow + " · " + place.ID, Name: "job", Live: "/live/jobs/" + url.PathEscape(place.ID),
		Ended: ended, Data: st,
	}
}
