package web

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/view"
)

// post sends a form as the browser of the person does who has the cookie; change may make another request of it.
func (s *site) post(t *testing.T, path string, form url.Values, change func(*http.Request)) (int, string) {
	t.Helper()
	return s.get(t, path, func(r *http.Request) {
		r.Method = http.MethodPost
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader(form.Encode()))
		if change != nil {
			change(r)
		}
	})
}

func TestActionsAreStarted(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		path string
		form url.Values
		want Action
	}{
		{"/stop", nil, Action{Kind: Stop}},
		{"/resume", url.Values{"item": {"a"}, "reduce": {"yes"}}, Action{Kind: Resume}},
		{"/pause", nil, Action{Kind: Pause}},
		{"/continue", nil, Action{Kind: Continue}},
		{"/drain", nil, Action{Kind: Drain}},
		{"/cancel", nil, Action{Kind: Cancel}},
		{"/scale", url.Values{"slots": {" 16"}}, Action{Kind: Scale, Slots: 16}},
		{"/accept", nil, Action{Kind: Accept}},
		{"/retry-now", nil, Action{Kind: RetryNow}},
		{"/retry-now?item=a%2Fb", nil, Action{Kind: RetryNow, Items: []string{"a/b"}}},
		{"/skip?" + url.Values{"item": {evil}}.Encode(), nil, Action{Kind: Skip, Items: []string{evil}}},
		{"/retry", nil, Action{Kind: Retry}},
		{"/retry", url.Values{"item": {"a", evil}}, Action{Kind: Retry, Items: []string{"a", evil}}},
		{"/retry?item=a%E2%80%AEb", nil, Action{Kind: Retry, Items: []string{"a\u202eb"}}},
		{"/retry", url.Values{"reduce": {"yes"}}, Action{Kind: Retry, Reduce: true}},
	} {
		form := url.Values{"token": {s.form}}
		maps.Copy(form, c.form)
		s.started = nil
		if code, body := s.post(t, "/jobs/"+s.job.ID+c.path, form, nil); code != http.StatusSeeOther {
			t.Errorf("%s %v: %d %s", c.path, c.form, code, body)
		}
		if diff := cmp.Diff([]Action{c.want}, s.started); diff != "" {
			t.Errorf("%s %v: %s", c.path, c.form, diff)
		}
	}
	for _, slots := range []string{"", "0", "-1", "many", "99999999999999999999"} {
		s.started = nil
		if code, body := s.post(t, "/jobs/"+s.job.ID+"/scale", url.Values{"token": {s.form}, "slots": {slots}}, nil); code != http.StatusBadRequest || len(s.started) > 0 {
			t.Errorf("scale to %q: %d %s, started %v", slots, code, body, s.started)
		}
	}
	if code, body := s.post(t, "/jobs/"+s.job.ID+"/skip", url.Values{"token": {s.form}}, nil); code != http.StatusBadRequest || len(s.started) > 0 {
		t.Errorf("skip nothing: %d %s, started %v", code, body, s.started)
	}
	s.refuse = errors.New("another process is running this job")
	if code, body := s.post(t, "/jobs/"+s.job.ID+"/resume", url.Values{"token": {s.form}}, nil); code != http.StatusConflict || !strings.Contains(body, s.refuse.Error()) || !strings.Contains(body, `href="/jobs/`+s.job.ID+`"`) {
		t.Errorf("refused: %d %s", code, body)
	}
}

// Nothing starts but by a form of a page of this server, in a browser on this machine, that has the cookie.
func TestNothingElseIsStarted(t *testing.T) {
	s := newSite(t)
	good := url.Values{"token": {s.form}}
	for name, c := range map[string]struct {
		path   string
		form   url.Values
		change func(*http.Request)
		want   int
	}{
		"a pause without the token":     {"/pause", url.Values{}, nil, http.StatusForbidden},
		"without the token of the form": {"/stop", url.Values{}, nil, http.StatusForbidden},
		"with that of the address":      {"/resume", url.Values{"token": {token}}, nil, http.StatusForbidden},
		"with it in the query":          {"/resume?token=" + s.form, url.Values{}, nil, http.StatusForbidden},
		"without the cookie":            {"/resume", good, func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		"by GET":                        {"/stop", good, func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
		"for another host":              {"/stop", good, func(r *http.Request) { r.Host = "evil.example:80" }, http.StatusMisdirectedRequest},
		"from another site":             {"/stop", good, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"from a sandboxed page":         {"/stop", good, func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"by a form of another site": {"/retry", good, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, http.StatusForbidden},
		"of another port":                {"/retry", good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"of an action that there is not": {"/clean", good, nil, http.StatusNotFound},
	} {
		if code, body := s.post(t, "/jobs/"+s.job.ID+c.path, c.form, c.change); code != c.want || len(s.started) > 0 {
			t.Errorf("%s: %d (started %v), want %d: %s", name, code, s.started, c.want, body)
			s.started = nil
		}
	}
	if code, _ := s.post(t, "/jobs/none/stop", good, nil); code != http.StatusNotFound {
		t.Errorf("of a job that there is not: %d", code)
	}
}

// A server that only shows jobs has no forms that start anything, and refuses what is sent all the same; so does any to other machines.
func TestAServerThatOnlyShowsStartsNothing(t *testing.T) {
	s := newSite(t)
	pages := []string{"/jobs/" + s.job.ID, itemURL(s.job.ID, "items", evil), "/live/jobs/" + s.job.ID}
	for _, path := range pages[:1] {
		if _, page := s.get(t, path, nil); !strings.Contains(page, `id="retry-failed"`) {
			t.Errorf("%s has no forms: %s", path, page)
		}
	}
	s.server.ReadOnly = true
	for _, path := range pages {
		if _, page := s.get(t, path, nil); strings.Contains(page, `method="post"`) {
			t.Errorf("%s has forms", path)
		}
	}
	good := url.Values{"token": {s.form}}
	if code, body := s.post(t, "/jobs/"+s.job.ID+"/retry", good, nil); code != http.StatusForbidden || !strings.Contains(body, "--read-only") || len(s.started) > 0 {
		t.Errorf("read-only: %d %s, started %v", code, body, s.started)
	}
	s.server.ReadOnly = false
	for address, want := range map[string]int{"192.0.2.7:4711": http.StatusForbidden, "[::1]:4711": http.StatusSeeOther, "[2001:db8::1]:80": http.StatusForbidden} {
		r := httptest.NewRequest(http.MethodPost, s.URL+"/jobs/"+s.job.ID+"/retry", strings.NewReader(good.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: token})
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		s.Config.Handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %s: %d %s, want %d", address, w.Code, w.Body, want)
		}
	}
}

// Whatever user the server runs as, it starts nothing for jobs of others.
func TestJobsOfOthersAreOnlyShown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a job to somebody else")
	}
	s := newSite(t)
	if err := os.Chown(s.job.StateDir(), 4711, -1); err != nil {
		t.Fatal(err)
	}
	if code, body := s.post(t, "/jobs/"+s.job.ID+"/resume", url.Values{"token": {s.form}}, nil); code != http.StatusForbidden || len(s.started) > 0 {
		t.Errorf("got %d %s, started %v", code, body, s.started)
	}
	if _, page := s.get(t, "/jobs/"+s.job.ID, nil); strings.Contains(page, `method="post"`) {
		t.Error("the page has forms")
	}
}

func TestThePageShowsWhatWasStarted(t *testing.T) {
	s := newSite(t)
	for i := range 25 {
		f, err := CreateStarted(s.job, "prodigy resume "+evil, began.Add(time.Duration(i)*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(strings.Repeat("x", i*2000) + "\nthe end of " + evil + "\n"); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			err = EndStarted(f, "exit code 3")
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	list := startedIn(s.job)
	if len(list) != startedShown || list[0].Outcome != "exit code 3" || list[1].Outcome != "" || !list[0].Time.After(list[1].Time) {
		t.Errorf("got %+v", list)
	}
	if text := string(list[0].Text); !strings.HasSuffix(text, "the end of "+evil+"\n") || len(text) > commandShown {
		t.Errorf("%d bytes that end with %.80q", len(text), text[max(len(text)-80, 0):])
	}
	_, page := s.get(t, "/jobs/"+s.job.ID, nil)
	if strings.Contains(page, "<script>alert") || strings.Count(page, "started here at") != startedShown || !strings.Contains(page, "the end of &lt;") {
		t.Errorf("the page is %s", page)
	}
}

// add makes another job with a log.
func (s *site) add(t *testing.T, log []events.Event) jobs.Job {
	t.Helper()
	job, err := s.home.Create("repo", "mapreduce", began)
	if err != nil {
		t.Fatal(err)
	}
	l, err := events.Create(job.EventsDir(), job.ID, began, events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log {
		l.Append(began, e)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return job
}

// A page has the buttons for what can be done now.
func TestButtonsFitTheState(t *testing.T) {
	s := newSite(t)
	starts := []events.Event{events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 2}, events.ItemsSelected{TotalItems: 3}}
	waits := events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, Attempt: 1},
		Action:    errorpolicy.Retry, RetryAt: new(time.Now().Add(time.Hour)),
	}
	for name, c := range map[string]struct {
		log     []events.Event
		running bool
		want    []string
	}{
		"running": {nil, true, []string{"pause", "scale", "drain", "stop", "cancel"}},
		"waiting": {[]events.Event{events.AgentStarted{AttemptID: events.AttemptID{
			ItemID:    "item_1",
			ItemIndex: 1, Attempt: 1,
		}}, waits}, true, []string{
			"pause", "scale", "retry-now", "drain", "stop",
			"cancel",
		}},
		"paused by person": {[]events.Event{events.PauseRequested{By: "p"}}, true, []string{"continue", "scale", "drain", "stop", "cancel"}},
		"drained":          {[]events.Event{events.JobPaused{Reason: "drained"}}, false, []string{"resume"}},
		"killed":           {nil, false, []string{"resume"}},
		"held":             {[]events.Event{events.JobPaused{Reason: "canary", Unproven: true}}, false, []string{"accept"}},
		"cancelled":        {[]events.Event{events.JobCancelled{Reason: "by p"}}, false, nil},
		"completed":        {[]events.Event{events.JobCompleted{}}, false, nil},
	} {
		job := s.add(t, append(starts[:2:2], c.log...))
		if c.running {
			lock, err := job.Lock()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lock.Unlock() })
		}
		_, page := s.get(t, "/jobs/"+job.ID, nil)
		var got []string
		for _, kind := range regexp.MustCompile(`method="post" action="/jobs/[^/]+/([a-z-]+)"`).FindAllStringSubmatch(page, -1) {
			got = append(got, kind[1])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if instead := strings.Contains(page, "resume "+job.ID+" --force"); instead != (name == "cancelled") {
			t.Errorf("%s: says how to resume a cancelled job: %v", name, instead)
		}
	}
}

// Breakers of keys are named, and thousands of them do not fill the page.
func TestBreakersOfKeysAreNamed(t *testing.T) {
	s := newSite(t)
	log := []events.Event{events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 2}}
	for i := range 2000 {
		log = append(log, events.CircuitOpen{Scope: "workflow", Key: fmt.Sprintf("host-%04d \x1b[31m%s", i, evil), Until: began})
	}
	job := s.add(t, log)
	lock, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	_, page := s.get(t, "/jobs/"+job.ID, nil)
	before, _, _ := strings.Cut(page, `<div id="charts">`)
	if n := strings.Count(before, "Host-"); n != 5 || !strings.Contains(page, "1995 more circuit breakers open.") || strings.Contains(page, "\x1b") {
		t.Errorf("%d are named in %.3000s", n, page)
	}
}

// An item that has no outcome yet can be left out, and one that has not begun is to go, as in the list.
func TestItemsWithoutAnOutcomeCanBeSkipped(t *testing.T) {
	for status, want := range map[view.Status]bool{
		view.Unseen: true, view.Pending: true, view.Waiting: true, view.InFlight: true,
		view.Succeeded: false, view.DeadLetter: false, view.Rejected: false, view.Skipped: false, view.Merging: false,
	} {
		for _, running := range []bool{true, false} {
			d := itemPage{Running: running, Item: view.Explanation{Status: status}}
			if got := d.Skippable(); got != (want && running) {
				t.Errorf("%s, running %v: %v", status, running, got)
			}
		}
	}
	if unseen, pending := statusWord(view.Unseen), statusWord(view.Pending); unseen != pending {
		t.Errorf("one that has not begun is %q, and one that begins again %q", unseen, pending)
	}
}

// The page of a job says in words what its report says: why it ended, and what to do.
func TestThePageSaysWhatTheReportSays(t *testing.T) {
	s := newSite(t)
	failed := events.AgentFailed{AttemptID: events.AttemptID{ItemID: "item_0", AgentID: "a", Attempt: 1}, ErrorType: "timeout", Error: "slow", Action: errorpolicy.DLQ}
	for _, c := range []struct {
		end   events.Event
		state jobs.State
		want  []string
	}{
		{events.JobPaused{Reason: "SIGTERM <x>"}, jobs.Stopped, []string{"SIGTERM &lt;x&gt;", "resume ID</code> resumes it", "dlq retry ID</code> retries what failed"}},
		{events.JobPaused{Reason: "canary", Unproven: true}, jobs.Stopped, []string{"canary", "resume ID --accept</code> continues", "resume ID --workflow FILE"}},
		{events.JobCancelled{Reason: "by ada"}, jobs.Cancelled, []string{"by ada", "resume ID --force"}},
		{events.JobCompleted{}, jobs.Completed, []string{"advice: &lt;/main&gt;", "why ID &lt;item&gt;"}},
	} {
		place := s.add(t, []events.Event{events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 1}, events.ItemsSelected{TotalItems: 1}, failed, c.end})
		_, page := s.get(t, "/jobs/"+place.ID, nil)
		end, _ := events.RunEndOf(c.end)
		src := Source{Records: events.Read(place.EventsDir()), Advice: s.server.Data.Advice(job.Summary{}), Letters: func(func(dlq.Entry, error) bool) {}}
		src.Job, src.State, src.Reason, src.Named = place, c.state, end.Reason, func(int) string { return "" }
		report := pageOf(t, src)
		for _, want := range c.want {
			want = strings.ReplaceAll(want, "ID", place.ID)
			if !strings.Contains(page, want) || !strings.Contains(report, want) {
				t.Errorf("%s: %q is on the page: %v, in the report: %v", c.state, want, strings.Contains(page, want), strings.Contains(report, want))
			}
		}
	}
}

// Several items are retried or skipped at once: those that were selected, or all that match, of which nobody has looked at each.
func TestSeveralItemsAreSelected(t *testing.T) {
	s := newSite(t)
	s.many(t, 1200)
	post := func(path string, more url.Values) (int, string) {
		t.Helper()
		s.started = nil
		form := url.Values{"token": {s.form}, "some": {"yes"}}
		maps.Copy(form, more)
		return s.post(t, "/jobs/"+s.job.ID+path, form, nil)
	}
	if code, _ := post("/retry", url.Values{"item": {"item_3", "item_13"}}); code != http.StatusSeeOther {
		t.Errorf("several: %d", code)
	}
	if diff := cmp.Diff([]Action{{Kind: Retry, Items: []string{"item_3", "item_13"}}}, s.started); diff != "" {
		t.Errorf("several: %s", diff)
	}
	for _, kind := range []string{"/retry", "/skip", "/retry-now"} { // and not all, as a form without a list would mean
		if code, body := post(kind, nil); code != http.StatusBadRequest || len(s.started) > 0 {
			t.Errorf("%s without a selection: %d %s, started %v", kind, code, body, s.started)
		}
	}
	_, page := s.get(t, "/jobs/"+s.job.ID+"/items?state=failed", nil)
	for want, n := range map[string]int{`form="some" name="item"`: itemsListed, `name="all" value="120"`: 1, `formaction="/jobs/` + s.job.ID + `/retry"`: 1, "/skip": 0} {
		if strings.Count(page, want) != n {
			t.Errorf("the page does not have %s %d times", want, n)
		}
	}
	_, page = s.get(t, "/jobs/"+s.job.ID+"/items?state=success", nil)
	if strings.Contains(page, `name="item"`) || strings.Contains(page, `name="all"`) {
		t.Error("items that have succeeded can be selected")
	}
	if code, _ := post("/retry", url.Values{"all": {"12"}, "state": {"failed"}, "q": {"item_3"}, "failure": {"code"}}); code != http.StatusSeeOther {
		t.Errorf("all of a few: %d", code)
	}
	if a := s.started[0]; !a.All || len(a.Items) != 12 || a.Items[0] != "item_3" || a.File != "" || slices.Contains(a.Command("j"), "--force") {
		t.Errorf("all of a few: %+v", a)
	}
	if code, _ := post("/retry", url.Values{"all": {"120"}}); code != http.StatusSeeOther {
		t.Errorf("all: %d", code)
	}
	a := s.started[0]
	text, err := os.ReadFile(a.File)
	if err != nil || string(text) != strings.Join(a.Items, "\n") || len(a.Items) != 120 || a.Items[1] != "item_13" {
		t.Errorf("all: %q, %v", text, err)
	}
	if diff := cmp.Diff([]string{"dlq", "retry", "j", "--arg-file", a.File}, a.Command("j")); diff != "" {
		t.Error(diff)
	}
	if code, body := post("/retry", url.Values{"all": {"119"}}); code != http.StatusConflict || len(s.started) > 0 || !strings.Contains(body, "120 items match now, not 119") {
		t.Errorf("more than were seen: %d %s, started %v", code, body, s.started)
	}
	lock, err := s.job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	if _, page := s.get(t, "/jobs/"+s.job.ID+"/items?state=pending", nil); !strings.Contains(page, `id="skip-some"`) || strings.Contains(page, `id="retry-some"`) {
		t.Error("items of a job that runs cannot be skipped, or can be retried")
	}
	if code, body := post("/skip", url.Values{"all": {"480"}, "state": {"pending"}}); code != http.StatusSeeOther || len(s.started[0].Items) != 480 || s.started[0].Items[0] != "item_6" {
		t.Errorf("skip all: %d %s", code, body)
	}
	if diff := cmp.Diff([]string{"skip", "j", "--arg-file", s.started[0].File, "--"}, s.started[0].Command("j")); diff != "" {
		t.Error(diff)
	}
}
