package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

const (
	token = "0123456789abcdef"
	evil  = `</main><script>alert(1)</script><img src=x onerror=alert(2)>'"`
)

// site is a server over one job whose every text is evil.
type site struct {
	*httptest.Server
	job     jobs.Job
	mu      sync.Mutex // of started
	started []Action
	server  *Server
	refuse  error
	form    string
	items   []string // ids
	home    jobs.Home
	failed  int // items, according to the summary
}

// noLabels are labels that say what would be a script.
type noLabels struct{}

func (noLabels) Label(int) string { return evil }
func (noLabels) Close() error     { return nil }

func newSite(t *testing.T) *site {
	t.Helper()
	home := jobs.Home{Root: t.TempDir()}
	now := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	place, err := home.Create("repo", "mapreduce", now)
	if err != nil {
		t.Fatal(err)
	}
	log, err := events.Create(place.EventsDir(), place.ID, now, events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []events.Event{
		events.JobStarted{Workflow: evil, Mode: "mapreduce", MaxParallel: 1},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: evil, Attempt: 1}, Worker: 1},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: evil, AgentID: "a", Attempt: 1},
			Error:     evil, ErrorSignature: evil, ErrorType: "network", Action: "dlq",
		},
		events.JobCompleted{Reason: evil},
	} {
		log.Append(now, e)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	s := &site{job: place, items: []string{evil}, home: home}
	server := &Server{Token: token, Version: "test", Data: Data{
		Jobs: home.List, Find: home.Find,
		Summary: func(j jobs.Job) (job.Summary, error) {
			return job.Summary{Job: j, Workflow: evil, State: "completed", Metrics: errorpolicy.Metrics{Outcomes: errorpolicy.Outcomes{Failed: s.failed}}}, nil
		},
		Explain: func(_ jobs.Job, item string) (view.Explanation, json.RawMessage, error) {
			if item == "none" {
				return view.Explanation{}, nil, errors.New("no item none")
			}
			return view.Explanation{ItemID: item, Status: view.Succeeded, Now: evil, Entries: []view.Entry{{
				Text: evil, Why: []string{evil}, Event: "AgentStarted", Attempt: 1,
			}, {
				Text: evil, Event: "AgentFailed", Attempt: 1,
			}}}, json.RawMessage(`"a secret of ` + evil + `"`), nil
		},
		Items: func(jobs.Job) func(string, json.RawMessage) (string, json.RawMessage) {
			return func(id string, item json.RawMessage) (string, json.RawMessage) {
				return "label of " + id, bytes.ReplaceAll(item, []byte("secret"), []byte("***"))
			}
		},
		Outputs: func(j jobs.Job, q outputs.Query) iter.Seq2[outputs.Entry, error] {
			return outputs.Read(j.OutputsDir(), q)
		},
		EachItem: func(_ jobs.Job, wanted func(int) bool) iter.Seq2[Item, error] {
			return func(yield func(Item, error) bool) {
				for i := range s.items {
					if wanted(i) && !yield(Item{ID: s.items[i], Index: i, Label: "label of " + s.items[i]}, nil) {
						return
					}
				}
			}
		},
		Labels: func(jobs.Job) Labels { return noLabels{} },
		Report: func(jobs.Job) ([]byte, error) { return nil, errors.New(evil) },
		Advice: func(job.Summary) []string { return []string{"advice: " + evil} },
		Start: func(_ jobs.Job, a Action) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.started = append(s.started, a)
			return s.refuse
		},
	}}
	s.Server = httptest.NewServer(server.Handler())
	s.form, s.server = server.form, server
	server.Hosts = []string{strings.TrimPrefix(s.URL, "http://")}
	t.Cleanup(s.Close)
	return s
}

// actions returns what was started so far.
func (s *site) actions() []Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.started)
}

// get asks for a page as the browser of the person does who has the cookie; change may make another request of it.
func (s *site) get(t *testing.T, path string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: token})
	if change != nil {
		change(r)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestOnlyThePersonWhoStartedItIsLetIn(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"with the cookie", nil, http.StatusOK},
		{"without it", func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		{"with a wrong one", func(r *http.Request) { r.Header.Set("Cookie", cookieName(r.Host)+"=x") }, http.StatusUnauthorized},
		{"with the token in the address", func(r *http.Request) { r.Header.Del("Cookie"); r.URL.RawQuery = "token=" + token }, http.StatusSeeOther},
		{"with a wrong one in the address", func(r *http.Request) { r.Header.Del("Cookie"); r.URL.RawQuery = "token=x" }, http.StatusUnauthorized},
		{"for a name that was pointed here", func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		{"from a page of another site", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		{"a picture in another site", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
		}, http.StatusForbidden},
	} {
		if got, _ := s.get(t, "/", c.change); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// What a workflow, an item or an error says is text on every page.
func TestPagesShowTexts(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{
		"/", "/jobs/" + s.job.ID, "/jobs/" + s.job.ID + "/items/" + url.PathEscape(evil),
		"/jobs/" + s.job.ID + "/items?item=" + url.QueryEscape(evil),
		"/jobs/" + url.PathEscape(evil), "/jobs/" + s.job.ID + "/report", "/jobs/" + s.job.ID + "/items", "/live/jobs/" + s.job.ID + "/items",
		"/jobs/" + s.job.ID + "/items?" + url.Values{"q": {evil}, "failure": {evil}, "state": {evil}, "page": {evil}}.Encode(), "/live/jobs/" + s.job.ID,
	} {
		_, body := s.get(t, path, nil)
		if strings.Contains(body, "<script>") || strings.Contains(body, "<img") {
			t.Errorf("%s: the text has become part of the page", path)
		}
	}
	if _, body := s.get(t, "/jobs/"+s.job.ID, nil); !strings.Contains(body, "&lt;script&gt;alert(1)") {
		t.Error("the name of the workflow is not shown")
	}
}

// What steps have printed is plain text, whatever it looks like, and a link on the page of the item leads to it.
func TestOutputsAreShownAsText(t *testing.T) {
	s := newSite(t)
	store, err := outputs.Open(s.job.OutputsDir(), outputs.Options{PerJob: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for attempt, text := range []string{evil + "\xff\n", "second\n"} {
		e := outputs.Entry{
			Source: outputs.Source{ItemID: evil, Attempt: attempt + 1, Step: evil, Try: 1}, Missing: 5,
			Printed: []outputs.Part{{Stream: outputs.Stderr, Text: []byte(text)}},
		}
		if _, err := store.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, page := s.get(t, itemURL(s.job.ID, "items", evil), nil)
	if !strings.Contains(html.UnescapeString(page), outputURL(s.job.ID, evil, 1, 0)) {
		t.Errorf("there is no link to the output in %s", page)
	}
	code, all := s.get(t, itemURL(s.job.ID, "output", evil), func(r *http.Request) { r.Header.Set("Accept", "*/*") })
	if code != http.StatusOK || !strings.Contains(all, evil+"\ufffd\n") || !strings.Contains(all, "second") || !strings.Contains(all, "[5 bytes omitted]") {
		t.Errorf("got %d %q, want both attempts", code, all)
	}
	_, one := s.get(t, itemURL(s.job.ID, "output", evil)+"&attempt=2", nil)
	if strings.Contains(one, evil+"\ufffd") || !strings.Contains(one, "second") {
		t.Errorf("got %q, want attempt 2", one)
	}
	for path, want := range map[string]int{
		itemURL(s.job.ID, "output", "none"): http.StatusNotFound, itemURL(s.job.ID, "output", evil) + "&attempt=x": http.StatusBadRequest,
		itemURL("none", "output", evil): http.StatusNotFound,
	} {
		if code, _ := s.get(t, path, nil); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

func TestItemsAreShownWithLabelsAndWithoutSecrets(t *testing.T) {
	s := newSite(t)
	_, body := s.get(t, itemURL(s.job.ID, "items", "item_1"), nil)
	if !strings.Contains(body, "label of item_1") || strings.Contains(body, "a secret of") || !strings.Contains(body, "a *** of") {
		t.Errorf("got %s", body)
	}
}

// Whatever an item is called, a link leads to it.
func TestLinksLeadToItemsOfAnyName(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"item_1", evil, "a/b", "../..", ".", "..", "100%", "%2F", "a?b=c&d#e", "two words", "+", "žluť", "日本"} {
		_, body := s.get(t, itemURL(s.job.ID, "items", id), nil)
		if want := "<h1>" + id + " <span"; !strings.Contains(html.UnescapeString(body), want) {
			t.Errorf("the page of %q has no %s", id, want)
		}
	}
	if _, body := s.get(t, "/jobs/"+s.job.ID+"/items/a%2Fb", nil); !strings.Contains(body, "<h1>a/b <span") {
		t.Error("a path does not lead to the item a/b")
	}
}

func TestWhatIsNotThereIsSaidSo(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/jobs/none", "/jobs/" + s.job.ID + "/items/none", "/none"} {
		if got, _ := s.get(t, path, nil); got != http.StatusNotFound {
			t.Errorf("%s: %d", path, got)
		}
	}
}

// The charts of the report stand on the page of the job; its stream has them on their own, since they come more seldom.
func TestThePageOfAJobHasTheChartsOfTheReport(t *testing.T) {
	s := newSite(t)
	_, page := s.get(t, "/jobs/"+s.job.ID, nil)
	_, stream := s.get(t, "/live/jobs/"+s.job.ID, nil)
	middle, charts, found := strings.Cut(stream, "event: charts\n")
	for _, heading := range []string{"Over time", "Slots", "Attempt durations"} {
		text := "<h2>" + heading + "</h2>"
		if !strings.Contains(page, text) || !found || !strings.Contains(charts, text) || strings.Contains(middle, text) {
			t.Errorf("%s: %v on the page, %v in the charts, %v before them", heading, strings.Contains(page, text), strings.Contains(charts, text), strings.Contains(middle, text))
		}
	}
	if !strings.Contains(middle, `<div id="charts"></div>`) {
		t.Error("the page of the stream has no place for the charts")
	}
}

// The page of a job on a fleet says where its agents run, and which of them wait for a worker.
func TestThePageOfAJobOnAFleetNamesTheWorkers(t *testing.T) {
	s := newSite(t)
	job := s.add(t, []events.Event{
		events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 2, Broker: "tls://broker:4222"},
		events.ItemsSelected{TotalItems: 2},
		events.ScaleRequested{MaxParallel: 1, By: "the fleet", Fleet: true, Workers: 1},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1}, Worker: 1, Fleet: true},
		events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, Attempt: 1},
			Worker:    2, Fleet: true,
		},
		events.AgentPlaced{
			AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1},
			Place:     events.Place{Node: "desk" + evil, Host: "vm-7" + evil, Slot: 2},
		},
	})
	lock, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	_, page := s.get(t, "/jobs/"+job.ID, nil)
	shown := template.HTMLEscapeString(evil)
	for _, want := range []string{
		"<dt>fleet</dt><dd>tls://broker:4222 <span class=\"soft\">1 slot on 1 worker</span></dd>", "<td class=\"n\">desk" + shown + " slot 2 on host vm-7" + shown + "</td>",
		"<td>waits for a worker</td>", "<dt>waiting for a worker</dt><dd>1</dd>", "<dt>running</dt><dd>1</dd>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q: %s", want, page)
		}
	}
}

func TestTheStreamOfAJobThatHasEndedEnds(t *testing.T) {
	s := newSite(t)
	_, body := s.get(t, "/live/jobs/"+s.job.ID, nil)
	if !strings.HasPrefix(body, "event: page\ndata: <h1>") && !strings.Contains(body, "data: <h1>") || !strings.HasSuffix(body, "event: end\ndata:\n\n") {
		t.Errorf("the stream is %q", body)
	}
}

// The first page of a stream has all that the log has had before: on a slow machine it must not go back to how the job began.
func TestAStreamBeginsWithAllOfTheLog(t *testing.T) {
	s := newSite(t)
	s.server.every = 1
	log := []events.Event{events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 1}, events.ItemsSelected{TotalItems: 3000}}
	for i := range 3000 {
		id := fmt.Sprintf("item_%d", i)
		log = append(log, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
			Worker:    1,
		}, events.AgentCompleted{AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1}, Worker: 1})
	}
	job := s.add(t, append(log, events.PauseRequested{By: "me"}))
	lock, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/live/jobs/"+job.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: token})
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var first strings.Builder
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && lines.Text() != "" {
		first.WriteString(lines.Text() + "\n")
	}
	if !strings.Contains(first.String(), "Paused by me") {
		t.Errorf("the first page is %.3000s", first.String())
	}
	if err := errors.Join(resp.Body.Close(), lock.Unlock()); err != nil {
		t.Fatal(err)
	}
}

// A stream of a job that goes on ends when its browser goes, and leaves nothing behind.
func TestAStreamEndsWithItsBrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lock, err := s.job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		for _, path := range []string{"/live/jobs", "/live/jobs/" + s.job.ID} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: token})
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "event: page\n" {
				t.Fatalf("%s begins with %q, %v", path, line, err)
			}
		}
		cancel()
	}
	s.Close() // waits for all requests
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}
