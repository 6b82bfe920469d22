package web

import (
	"bufio"
	"errors"
	"fmt"
	"html/template"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

// printed are entries of an item in the order of a store.
func printed(list ...outputs.Entry) iter.Seq2[outputs.Entry, error] {
	return func(yield func(outputs.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
		yield(outputs.Entry{}, &outputs.DamagedError{Path: "f"})
	}
}

func said(attempt, number int, first bool, text string, end *outputs.End) outputs.Entry {
	e := outputs.Entry{Source: outputs.Source{ItemID: "i", Attempt: attempt, Step: "s", Try: 1, Command: number}, First: first, End: end}
	if text != "" {
		e.Printed = []outputs.Part{{Text: []byte(text)}}
	}
	return e
}

// Each attempt has its own commands, also where a stop has given one its number back, and the newest attempt comes first.
func TestCommandsStandWithTheirAttempt(t *testing.T) {
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	story := view.Explanation{ItemID: "i", Status: view.InFlight, Entries: []view.Entry{
		{Time: at(0), Event: "AgentStarted", Attempt: 1},
		{Time: at(2), Event: "AgentInterrupted", How: events.Stopped, Attempt: 1},
		{Time: at(9), Event: "JobResumed", Attempt: 1},
		{Time: at(10), Event: "AgentStarted", Attempt: 1},
		{Time: at(12), Event: "AgentFailed", How: events.Failed, Attempt: 1},
		{Time: at(20), Event: "AgentStarted", Attempt: 2},
	}}
	failed := &outputs.End{Failed: true, ExitCode: 3}
	first, again, second := said(1, 1, true, "one", nil), said(1, 1, true, "again", failed), said(2, 1, true, "two", &outputs.End{})
	first.Time, again.Time, second.Time = at(1), at(11), at(21)
	last := said(2, 2, true, "three", nil)
	last.Time = at(22)
	commands, left, err := commandsOf(printed(first, again, second, last))
	if err != nil || left != 0 {
		t.Fatal(left, err)
	}
	var got []string
	for _, a := range attemptsOf(story, commands, true) {
		words := []string{fmt.Sprintf("%d %s, %d entries:", a.Number, a.State, len(a.Entries))}
		for _, c := range a.Commands {
			words = append(words, fmt.Sprintf("%s (%s, open %v)", c.Parts[0].Text, c.Outcome(), c.Open))
		}
		got = append(got, strings.Join(words, " "))
	}
	want := []string{
		"2 running, 1 entries: two (done, open false) three (not finished, open true)",
		"1 failed, 2 entries: again (exit code 3, open false)",
		"1 stopped, 3 entries: one (not finished, open false)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The page has the end of what a command printed, and counts what it leaves out.
func TestOfALongOutputTheEndIsShown(t *testing.T) {
	var list []outputs.Entry
	for i := range 3000 {
		e := said(1, 1, i == 0, fmt.Sprintf("line %d\n", i), nil)
		if i%2 == 1 {
			e.Printed[0].Stream = outputs.Stderr
		}
		if i == 7 {
			e.Missing = 1000
		}
		list = append(list, e)
	}
	commands, _, err := commandsOf(printed(list...))
	if err != nil || len(commands) != 1 {
		t.Fatal(len(commands), err)
	}
	c := commands[0]
	shown := 0
	for _, p := range c.Parts {
		shown += len(p.Text)
	}
	if c.Missing != 1000 || c.Before+int64(shown)+1000 != c.Size || shown > commandShown || shown < commandShown-100 {
		t.Errorf("%d bytes are shown, %d are before, %d are missing, of %d", shown, c.Before, c.Missing, c.Size)
	}
	if first := string(c.Parts[0].Text); !strings.HasPrefix(first, "line ") || !strings.HasSuffix(string(c.Parts[len(c.Parts)-1].Text), "line 2999\n") {
		t.Errorf("it begins with %q", first)
	}
	long, _, err := commandsOf(printed(said(1, 1, true, strings.Repeat("x", 3*commandShown), nil)))
	if err != nil || len(long[0].Parts[0].Text) != commandShown {
		t.Errorf("of one long line %d bytes are shown", len(long[0].Parts[0].Text))
	}
}

func TestOfVeryManyCommandsTheNewestAreShown(t *testing.T) {
	var list []outputs.Entry
	for i := range commandsKept + 50 {
		list = append(list, said(1, i+1, true, "x", &outputs.End{}))
	}
	commands, left, err := commandsOf(printed(list...))
	if err != nil || left != 50 || len(commands) != commandsKept || commands[0].Command != 51 || commands[0].Number != 51 {
		t.Errorf("%d commands from %d on, %d left out, %v", len(commands), commands[0].Command, left, err)
	}
}

func TestOutputIsShownWithoutWhatSteersATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\ttext":             "plain\n\ttext",
		"\x1b[31mred\x1b[0m\n":      `<span class="text1">red</span>` + "\n",
		"10 %\r20 %\rdone\r\n":      "done\n",
		"\x1b[2K\x1b[1Gat":          "at",
		"a\x1b[":                    "a",
		"a\x1b[31":                  "a",
		"\x07bell\x1b]0;title\x07x": "bellx",
		"\xff":                      "\ufffd",
	} {
		if got := string(plain([]byte(shownText(text)))); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// The page of an item that runs has what its steps have printed by now, and comes again while the job runs.
func TestThePageOfAnItemIsLive(t *testing.T) {
	s := newSite(t)
	store, err := outputs.Open(s.job.OutputsDir(), outputs.Options{PerJob: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	write := func(command int, text string) {
		t.Helper()
		e := said(1, command, true, text, nil)
		e.ItemID, e.Step = evil, evil
		if _, err := store.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	write(1, "<b>first</b>\n")
	address := itemURL(s.job.ID, "items", evil)
	_, page := s.get(t, address, nil)
	if !strings.Contains(page, `" data-ended>`) || !strings.Contains(page, "&lt;b&gt;first&lt;/b&gt;") {
		t.Errorf("of a job that is not run: %s", page)
	}
	lock, err := s.job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	_, page = s.get(t, address, nil)
	if strings.Contains(page, "data-ended") {
		t.Error("the page of a job that is run asks for nothing")
	}
	live := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(page)
	if live == nil {
		t.Fatalf("the page is not live: %s", page)
	}
	write(2, "second\n")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	_, stream := s.get(t, "/live"+itemURL(s.job.ID, "items", evil), nil)
	if !strings.Contains(stream, "second") || !strings.HasSuffix(stream, "event: end\ndata:\n\n") {
		t.Errorf("the stream is %s", stream)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a step of setup printed has an address of its own, without what items printed at a step of that name.
func TestTheOutputOfASetupStepIsShown(t *testing.T) {
	s := newSite(t)
	store, err := outputs.Open(s.job.OutputsDir(), outputs.Options{PerJob: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []outputs.Entry{
		{Source: outputs.Source{Phase: "setup", Step: "shell_0", Try: 1, Command: 1}, Printed: []outputs.Part{{Text: []byte("of setup\n")}}},
		{Source: outputs.Source{Phase: "reduce", Step: "shell_0", Try: 1, Command: 1}, Printed: []outputs.Part{{Text: []byte("of reduce\n")}}},
		{Source: outputs.Source{ItemID: "i", Attempt: 1, Step: "shell_0", Try: 1, Command: 1}, Printed: []outputs.Part{{Text: []byte("of an item\n")}}},
	} {
		if _, err := store.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(stepURL(s.job.ID, view.Step{Phase: "setup", Name: "shell_0"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, got := s.get(t, to.String(), nil); got != "\n== shell_0, try 1\nof setup\n" {
		t.Errorf("got %q", got)
	}
}

// The page of a job that runs has the step and the last line of each running item, in its colours.
func TestThePageOfAJobHasTheLastLines(t *testing.T) {
	s := newSite(t)
	job := s.add(t, []events.Event{
		events.JobStarted{Workflow: "w", Mode: "mapreduce", MaxParallel: 2},
		events.ItemsSelected{TotalItems: 2},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1}, Worker: 1},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, Attempt: 1}, Worker: 2},
	})
	store, err := outputs.Open(job.OutputsDir(), outputs.Options{PerJob: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	e := said(1, 1, true, "first\n\x1b[32m"+evil+"\x1b[0m\n", nil)
	e.ItemID, e.Step = "item_0", "build"
	_, err = store.Append(e)
	lock, lockErr := job.Lock()
	if err := errors.Join(err, lockErr, store.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	for _, path := range []string{"/jobs/", "/live/jobs/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path+job.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: token})
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		want := `<td>build</td><td class="text"><code><span class="text2">` + template.HTMLEscapeString(evil) + `</span></code></td><td class="n">1</td>`
		found := false
		for lines := bufio.NewScanner(resp.Body); !found && lines.Scan(); {
			found = strings.Contains(lines.Text(), want)
		}
		if err := resp.Body.Close(); err != nil || !found {
			t.Errorf("%s does not have %s", path, want)
		}
	}
}
