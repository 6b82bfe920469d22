package web

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

// many makes the job one of n items: of every ten, item 3 fails in one of two ways, item 4 is skipped, item 5 fails first and then succeeds,
// and those from 6 on have not begun.
func (s *site) many(t *testing.T, n int) {
	t.Helper()
	now := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	job, err := s.home.Create("repo", "mapreduce", now)
	if err != nil {
		t.Fatal(err)
	}
	log, err := events.Create(job.EventsDir(), job.ID, now, events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	add := func(e events.Event) { log.Append(now, e) }
	add(events.JobStarted{Workflow: "many", Mode: "mapreduce", TotalItems: &n, MaxParallel: 1})
	s.items = nil
	for i := range n {
		id := fmt.Sprintf("item_%d", i)
		s.items = append(s.items, id)
		if i%10 > 5 {
			continue
		}
		add(events.AgentStarted{AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1}, Worker: 1})
		failed := events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: "a", Attempt: 1},
			ErrorType: "exit_code", Error: "exit code 1", Action: errorpolicy.DLQ,
		}
		switch i % 10 {
		case 3:
			if i%20 == 3 {
				failed.Error, failed.ErrorSignature = fmt.Sprintf("Refused after %d ms", i), "Refused after <n> ms"
			}
			add(failed)
		case 4:
			failed.Action = errorpolicy.Skip
			add(failed)
		case 5:
			later := now.Add(time.Second)
			failed.Action, failed.RetryAt, failed.DelayMS = errorpolicy.Retry, &later, new(events.Millis)
			add(failed)
			add(events.AgentStarted{AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 2}, Worker: 1})
			add(events.AgentCompleted{AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 2}})
		default:
			add(events.AgentCompleted{AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1}})
		}
	}
	add(events.JobPaused{Reason: "for a while"})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	s.job = job
}

// listed returns the ids of the rows of a page, and how many items it says there are.
func listed(page string) (ids []string, all string) {
	for _, m := range regexp.MustCompile(`<tr>(?:<td>(?:<input [^>]*>)?</td>)?<td class="text"><a href="[^"]*">([^<]*)</a>`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	if m := regexp.MustCompile(`to \S+ of ([0-9\x{202f}]+)`).FindStringSubmatch(page); m != nil {
		all = strings.ReplaceAll(m[1], "\u202f", "")
	}
	return ids, all
}

func TestItemsAreFoundByStateNameAndFailure(t *testing.T) {
	s := newSite(t)
	s.many(t, 1200)
	for query, want := range map[string]struct {
		first, all string
		rows       int
	}{
		"":                                   {"item_0", "1200", 50},
		"page=2":                             {"item_50", "1200", 50},
		"page=24":                            {"item_1150", "1200", 50},
		"page=25":                            {"", "", 0},
		"page=9223372036854775807":           {"", "", 0},
		"page=x":                             {"item_0", "1200", 50},
		"state=failed":                       {"item_3", "120", 50},
		"state=failed&page=3":                {"item_1003", "120", 20},
		"state=skipped":                      {"item_4", "120", 50},
		"state=success":                      {"item_0", "480", 50},
		"state=pending":                      {"item_6", "480", 50},
		"state=running":                      {"", "", 0},
		"state=nonsense":                     {"", "", 0},
		"failure=refused":                    {"item_3", "60", 50},
		"failure=after+23+MS":                {"item_23", "1", 1},
		"failure=after+<n>+ms":               {"item_3", "60", 50},
		"failure=exit_code%3A+exit":          {"item_4", "180", 50}, // no item that has succeeded since
		"failure=exit+code&state=failed":     {"item_13", "60", 50},
		"failure=exit+code&q=_13":            {"item_13", "3", 3}, // and item_133, and item_134, which is skipped
		"q=item_117":                         {"item_117", "11", 11},
		"q=LABEL+of+item_1199":               {"item_1199", "1", 1},
		"q=item_1&state=pending&page=2":      {"item_1018", "124", 50},
		"q=item_3&state=failed&failure=code": {"item_3", "12", 12},
	} {
		code, page := s.get(t, "/jobs/"+s.job.ID+"/items?"+query, nil)
		ids, all := listed(page)
		first := ""
		if len(ids) > 0 {
			first = ids[0]
		}
		if code != http.StatusOK || first != want.first || want.all != "" && all != want.all || len(ids) != want.rows {
			t.Errorf("%q: %d, %d rows of %s from %q on, want %d of %s from %q on", query, code, len(ids), all, first, want.rows, want.all, want.first)
		}
	}
}

// Following the links from page to page gives all items once, and the links to the states keep what is searched for.
func TestThePagesOfAListHaveAllItems(t *testing.T) {
	s := newSite(t)
	s.many(t, 230)
	var ids []string
	next := "/jobs/" + s.job.ID + "/items?q=label"
	for range 10 {
		_, page := s.get(t, next, nil)
		some, _ := listed(page)
		ids = append(ids, some...)
		m := regexp.MustCompile(`<a href="([^"]+)" rel="next">`).FindStringSubmatch(page)
		if m == nil {
			break
		}
		next = html.UnescapeString(m[1])
	}
	if !slices.Equal(ids, s.items) {
		t.Errorf("got %q, want %q", ids, s.items)
	}
	_, page := s.get(t, "/jobs/"+s.job.ID+"/items?q=item_1&page=2&failure=x+y", nil)
	if want := "/items?failure=x+y&q=item_1&state=failed\">failed <span class=\"soft\">23<"; !strings.Contains(html.UnescapeString(page), want) {
		t.Errorf("there is no %s in %s", want, page)
	}
}

// What is typed into the field of the job page leads to an item, or to those that might be meant.
func TestFindLeadsToAnItemOrToSeveral(t *testing.T) {
	s := newSite(t)
	for name, want := range map[string]string{
		"item_1": "/items?item=item_1", "none": "/items?q=none", " a b&c ": "/items?item=a+b%26c", "": "/items",
	} {
		r, err := http.NewRequest(http.MethodGet, s.URL+"/jobs/"+s.job.ID+"/find?"+url.Values{"item": {name}}.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: token})
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if to := resp.Header.Get("Location"); to != "/jobs/"+s.job.ID+want {
			t.Errorf("%q leads to %s, want %s", name, to, want)
		}
	}
}

// A job whose items did not all succeed is not shown as one that completed.
func TestAJobWithFailuresIsNotGreen(t *testing.T) {
	s := newSite(t)
	s.failed = 1
	for path, want := range map[string]string{
		"/": "completed with failures", "/jobs/" + s.job.ID: "completed with failures", "/jobs/" + s.job.ID + "/items": "completed with failures",
	} {
		_, page := s.get(t, path, nil)
		if !strings.Contains(page, `<span class="state left">`+want+"<") || strings.Contains(page, `class="state completed"`) {
			t.Errorf("%s: there is no %q, or it is green: %s", path, want, page)
		}
	}
}
