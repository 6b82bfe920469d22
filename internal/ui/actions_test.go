package ui

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	s.refuse = errors.New("another process is running this job")
	if code, body := s.post(t, "/jobs/"+s.job.ID+"/resume", url.Values{"token": {s.form}}, nil); code != http.StatusConflict || !strings.Contains(body, s.refuse.Error()) {
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
	for i := range startedKept + 5 {
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
	names, err := startedNames(s.job)
	if err != nil || len(names) != startedKept {
		t.Errorf("%d files are kept (%v), want %d", len(names), err, startedKept)
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
