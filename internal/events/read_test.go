package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func readAll(t testing.TB, dir string) []Record {
	t.Helper()
	var all []Record
	for r, err := range Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// logDir returns a directory with a log of these files, in the order of their names.
func logDir(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("events-%d.jsonl", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// numbered returns the lines of records with these events, numbered from first.
func numbered(t testing.TB, first int64, events ...Event) string {
	t.Helper()
	var records []Record
	for i, e := range events {
		records = append(records, Record{Seq: first + int64(i), Time: start0.Add(time.Duration(first+int64(i)) * time.Second), JobID: "j", CorrelationID: "j", Event: e})
	}
	return string(encodeAll(t, records))
}

func TestReadGoesThroughAllFilesInOrderOfTheirNames(t *testing.T) {
	dir := logDir(t, numbered(t, 1, JobPaused{}, JobPaused{}), numbered(t, 3, JobPaused{}), "")
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := seqs(readAll(t, dir)), []int64{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReadPassesOverTypes(t *testing.T) {
	dir := logDir(t, numbered(t, 1, JobPaused{Reason: "a"}, JobResumed{}, JobPaused{Reason: "b"}))
	var seqs []int64
	for r, err := range Read(dir, JobPaused{}) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, r.Seq)
	}
	if !slices.Equal(seqs, []int64{2}) {
		t.Errorf("records %v, want those of other types: [2]", seqs)
	}
}

func TestReadYieldsWhatIsBeforeATornLineAndThenErrTorn(t *testing.T) {
	for name, torn := range map[string]string{"incomplete": `{"seq":3,`, "whole but for its end": strings.TrimSpace(numbered(t, 3, JobPaused{}))} {
		for _, files := range [][]string{{numbered(t, 1, JobPaused{}, JobPaused{}) + torn}, {numbered(t, 1, JobPaused{}, JobPaused{}), torn}} {
			var got []int64
			var last error
			for r, err := range Read(logDir(t, files...)) {
				got, last = append(got, r.Seq), err
			}
			if want := []int64{1, 2, 0}; !slices.Equal(got, want) || !errors.Is(last, ErrTorn) {
				t.Errorf("%s: got %v and %v, want %v and ErrTorn", name, got, last, want)
			}
		}
	}
}

func TestDamageInTheMiddleNamesFileAndLine(t *testing.T) {
	tests := map[string]struct {
		files []string
		want  string
	}{
		"damaged":          {[]string{numbered(t, 1, JobPaused{}) + "{\n" + numbered(t, 2, JobPaused{})}, "events-0.jsonl:2: damaged line"},
		"torn inside":      {[]string{numbered(t, 1, JobPaused{}) + "{", numbered(t, 2, JobPaused{})}, "events-0.jsonl:2: damaged line"},
		"missing record":   {[]string{numbered(t, 1, JobPaused{}), numbered(t, 3, JobPaused{})}, "events-1.jsonl:1: found record 3, expected record 2"},
		"doubled record":   {[]string{numbered(t, 1, JobPaused{}) + numbered(t, 1, JobPaused{})}, "events-0.jsonl:2: found record 1, expected record 2"},
		"torn before none": {[]string{numbered(t, 1, JobPaused{}) + "{", ""}, "events-0.jsonl:2: damaged line"},
		"damaged at a cut": {[]string{"{\n", numbered(t, 1, JobPaused{})}, "events-0.jsonl:1: damaged line"},
	}
	for name, tt := range tests {
		var got error
		for _, err := range Read(logDir(t, tt.files...)) {
			got = err
		}
		if got == nil || !strings.Contains(got.Error(), tt.want) || errors.Is(got, ErrTorn) {
			t.Errorf("%s: got %v, want %s", name, got, tt.want)
		}
	}
}

func TestReadOfNoDirectoryIsAnError(t *testing.T) {
	for _, err := range Read(filepath.Join(t.TempDir(), "none")) {
		if errors.Is(err, os.ErrNotExist) {
			return
		}
	}
	t.Error("got no os.ErrNotExist")
}

func TestLinesOfAnyLengthAreRead(t *testing.T) {
	long := AgentCompleted{AttemptID: AttemptID{ItemID: "a"}, ItemOutput: ItemOutput{Output: strings.Repeat("x",
		300_000)}}
	dir := logDir(t, numbered(t, 1, JobPaused{}, long, JobPaused{}, long))
	records := readAll(t, dir)
	if len(records) != 4 || records[3].Event.(AgentCompleted).Output != long.Output {
		t.Errorf("got %d records, want 4 with a long one at the end", len(records))
	}
}

func collect(t testing.TB, dir string, q Query) ([]string, error) {
	t.Helper()
	var got []string
	for text, err := range ReadLines(dir, q) {
		if err != nil {
			return got, err
		}
		got = append(got, string(text))
	}
	return got, nil
}

func TestAQuerySelectsLinesAsTheyAreWritten(t *testing.T) {
	text := numbered(
		t, 1,
		AgentStarted{AttemptID: AttemptID{ItemID: "a", AgentID: "j/a/1"}},
		AgentCompleted{
			AttemptID:  AttemptID{ItemID: "a", AgentID: "j/a/1"},
			ItemOutput: ItemOutput{Captured: map[string]json.RawMessage{"x": json.RawMessage(`{"type":"CircuitOpen","item_id":"b","agent_id":"j/b/1"}`)}},
		},
		CircuitOpen{Scope: "workflow"},
		AgentStarted{AttemptID: AttemptID{ItemID: "b", AgentID: "j/b/1"}},
		ErrorBatch{Errors: nil},
		AgentSkipped{ItemID: "a\"<é>", Reason: `"type":"CircuitOpen" "item_id":"b"`},
		Unknown{Name: "New", Raw: []byte(`{"item_id":"b"}`)},
	)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	dir := logDir(t, strings.Join(lines[:3], "\n")+"\n", strings.Join(lines[3:], "\n")+"\n")
	tests := map[string]struct {
		q    Query
		want []int
	}{
		"all":              {Query{}, []int{1, 2, 3, 4, 5, 6, 7}},
		"type":             {Query{Type: "circuit_open"}, []int{3}},
		"item":             {Query{ItemID: "b"}, []int{4, 7}},
		"escaped item":     {Query{ItemID: "a\"<é>"}, []int{6}},
		"agent":            {Query{AgentID: "j/a/1"}, []int{1, 2}},
		"other agent":      {Query{AgentID: "j/b/1"}, []int{4}},
		"type and item":    {Query{Type: "AgentStarted", ItemID: "a"}, []int{1}},
		"since":            {Query{Since: start0.Add(5 * time.Second)}, []int{5, 6, 7}},
		"limit":            {Query{Limit: 2}, []int{6, 7}},
		"limit beyond":     {Query{Limit: 100, Type: "agent-started"}, []int{1, 4}},
		"limit of a match": {Query{Limit: 1, Type: "AGENTSTARTED"}, []int{4}},
		"none":             {Query{ItemID: "zzz"}, nil},
	}
	for name, tt := range tests {
		var want []string
		for _, n := range tt.want {
			want = append(want, lines[n-1])
		}
		got, err := collect(t, dir, tt.q)
		if diff := cmp.Diff(got, want); diff != "" || err != nil {
			t.Errorf("%s: %v (-got +want):\n%s", name, err, diff)
		}
	}
}

func TestTheEventsAboutAnItemAreThoseThatNameIt(t *testing.T) {
	names := []string{"a", "b", "a/b", "a\"b", "é", `\`, "j", "item_1", "item_10", `","type":"`}
	rapid.Check(t, func(rt *rapid.T) {
		job := rapid.SampledFrom([]string{"j", "a", "jö"}).Draw(rt, "job")
		asked := rapid.SampledFrom(names).Draw(rt, "asked")
		f, err := newFilter(Query{ItemID: asked})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(1, 8).Draw(rt, "lines") {
			item := rapid.SampledFrom(names).Draw(rt, "item")
			e := rapid.SampledFrom([]Event{
				AgentStarted{AttemptID: AttemptID{ItemID: item}},
				StepRetrying{ItemID: item},
				JobPaused{Reason: item},
				StepSkipped{ItemID: item},
				Unknown{Name: "New", Raw: objectWith(item)},
			}).Draw(rt, "event")
			r := Record{Seq: int64(i + 1), Time: start0, JobID: job, CorrelationID: job, Event: e}
			if id := Subject(e); id != "" {
				r.CorrelationID += "/" + id
			}
			text := bytes.TrimSpace(encodeAll(t, []Record{r}))
			if got, err := f.match(line{text: text}); got != (Subject(e) == asked) || err != nil {
				t.Fatalf("%s: got %v %v for %q", text, got, err, asked)
			}
		}
	})
}

func TestReadLinesEndsWithErrTornBehindAllOtherLines(t *testing.T) {
	dir := logDir(t, numbered(t, 1, JobPaused{}, JobPaused{}, JobPaused{})+"{")
	for limit, want := range map[int]int{0: 3, 2: 2} {
		got, err := collect(t, dir, Query{Limit: limit})
		if len(got) != want || !errors.Is(err, ErrTorn) {
			t.Errorf("limit %d: got %d lines and %v, want %d and ErrTorn", limit, len(got), err, want)
		}
	}
}

func TestReadLinesStopsWhenNoMoreAreWanted(t *testing.T) {
	dir := logDir(t, numbered(t, 1, JobPaused{}, JobPaused{}, JobPaused{}), numbered(t, 4, JobPaused{}))
	for _, limit := range []int{0, 3} {
		n := 0
		for _, err := range ReadLines(dir, Query{Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			break
		}
		if n != 1 {
			t.Errorf("limit %d: got %d lines, want 1", limit, n)
		}
	}
}

func TestTypesAreNamedInAnyCaseStyle(t *testing.T) {
	for _, word := range []string{"CircuitOpen", "circuit_open", "circuit-open", "CIRCUIT_OPEN", "circuitopen", "Circuit Open"} {
		if got, err := TypeNamed(word); got != "CircuitOpen" || err != nil {
			t.Errorf("%s: got %s %v, want CircuitOpen", word, got, err)
		}
	}
	for word, want := range map[string]string{"dlq_item_aded": "did you mean DLQItemAdded?", "AgentFail": "did you mean AgentFailed?", "xyzzy": `"xyzzy"`} {
		got, err := TypeNamed(word)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %s %v, want an error with %s", word, got, err, want)
		}
		if _, err := collect(t, t.TempDir(), Query{Type: word}); err == nil {
			t.Errorf("%s: ReadLines gave no error", word)
		}
	}
	if _, err := TypeNamed("xyzzy"); strings.Contains(err.Error(), "mean") {
		t.Errorf("got a suggestion for a word that is like nothing: %v", err)
	}
}

// follow collects what Follow yields; each is called with the number of lines seen so far.
func followAll(ctx context.Context, t *testing.T, dir string, q Query, each func(n int)) []string {
	t.Helper()
	var got []string
	for text, err := range Follow(ctx, dir, q, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(text))
		each(len(got))
	}
	return got
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFollowYieldsWhatComesUntilTheJobEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := numbered(t, 1, JobPaused{}, JobResumed{}, PhaseStarted{}, PhaseCompleted{}, JobCompleted{})
		lines := strings.SplitAfter(text, "\n")
		dir := logDir(t, lines[0]+lines[1]) // the pause is not the last record
		begin := time.Now()
		got := followAll(t.Context(), t, dir, Query{}, func(n int) {
			switch n {
			case 2:
				appendTo(t, filepath.Join(dir, "events-0.jsonl"), lines[2])
			case 3:
				appendTo(t, filepath.Join(dir, "events-0.jsonl"), lines[3][:20])
				time.AfterFunc(time.Second, func() { appendTo(t, filepath.Join(dir, "events-0.jsonl"), lines[3][20:]) })
			case 4:
				appendTo(t, filepath.Join(dir, "events-1.jsonl"), lines[4])
			}
		})
		if diff := cmp.Diff(strings.Join(got, "\n")+"\n", text); diff != "" {
			t.Errorf("(-got +want):\n%s", diff)
		}
		if waited := time.Since(begin); waited < time.Second || waited > 2*time.Second {
			t.Errorf("took %v, want a little more than a second", waited)
		}
	})
}

func TestFollowDoesNotEndAtAnEndThatAnIncompleteLineFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, rest := numbered(t, 1, JobPaused{}), numbered(t, 2, JobResumed{}, JobFailed{})
		dir := logDir(t, first+rest[:10])
		got := followAll(t.Context(), t, dir, Query{}, func(n int) {
			if n == 1 {
				time.AfterFunc(time.Second, func() { appendTo(t, filepath.Join(dir, "events-0.jsonl"), rest[10:]) })
			}
		})
		if len(got) != 3 {
			t.Errorf("got %d lines, want 3", len(got))
		}
	})
}

// A resume cuts a torn line off and goes on in its place.
func TestFollowSurvivesTheCuttingOfATornLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := numbered(t, 1, JobStarted{})
		dir := logDir(t, first+`{"seq":2,"torn":"`+strings.Repeat("x", 100))
		path := filepath.Join(dir, "events-0.jsonl")
		got := followAll(t.Context(), t, dir, Query{}, func(n int) {
			if n != 1 {
				return
			}
			time.AfterFunc(time.Second, func() {
				if err := os.Truncate(path, int64(len(first))); err != nil {
					t.Error(err)
				}
				appendTo(t, path, numbered(t, 2, JobResumed{}, JobCompleted{}))
			})
		})
		if want := first + numbered(t, 2, JobResumed{}, JobCompleted{}); strings.Join(got, "\n")+"\n" != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// The reader of a torn line may have read its beginning when a resume cuts it off, and then read the end of what comes in its place. Real
// damage is still there when it looks again.
func TestFollowLooksTwiceAtADamagedLine(t *testing.T) {
	sound := numbered(t, 1, JobStarted{}, JobResumed{}, JobCompleted{})
	first, _, _ := strings.Cut(sound, "\n")
	for name, later := range map[string]string{"cut off": sound, "damaged": ""} {
		synctest.Test(t, func(t *testing.T) {
			dir := logDir(t, first+"\n"+`{"seq":2,"torn":"xxxxxx`+"\n")
			var got strings.Builder
			var failed error
			for text, err := range Follow(t.Context(), dir, Query{}, nil) {
				if failed = err; err != nil {
					break
				}
				got.Write(append(text, '\n'))
				if later != "" {
					time.AfterFunc(pollEvery/2, func() { write(t, filepath.Join(dir, "events-0.jsonl"), []byte(later)) })
				}
			}
			if name == "cut off" && (failed != nil || got.String() != later) {
				t.Errorf("%s: got %q, %v, want all lines", name, got.String(), failed)
			}
			if name == "damaged" && (failed == nil || got.String() != first+"\n") {
				t.Errorf("%s: got %q, %v, want the first line and an error", name, got.String(), failed)
			}
		})
	}
}

func TestFollowBeginsWithTheLastLinesAndShowsOnlyWhatMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skip := func(id string) Event { return AgentSkipped{ItemID: id} }
		dir := logDir(t, numbered(t, 1, skip("a"), skip("b"), JobResumed{}, skip("c"), JobResumed{}))
		got := followAll(t.Context(), t, dir, Query{Type: "agent_skipped", Limit: 2}, func(n int) {
			if n == 2 {
				appendTo(t, filepath.Join(dir, "events-0.jsonl"), numbered(t, 6, skip("d"), skip("e"), JobResumed{}, skip("f"), JobCompleted{}))
			}
		})
		var items []string
		for _, text := range got {
			r, err := Decode([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, Subject(r.Event))
		}
		if want := []string{"b", "c", "d", "e", "f"}; !slices.Equal(items, want) {
			t.Errorf("got %v, want %v", items, want)
		}
	})
}

func TestFollowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if got := followAll(ctx, t, t.TempDir(), Query{}, func(int) {}); got != nil || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %v, want nothing after a minute", got, time.Since(begin))
		}
	})
}

func TestFollowOfAnUnknownTypeOrNoDirectoryIsAnError(t *testing.T) {
	for dir, q := range map[string]Query{t.TempDir(): {Type: "nonsense"}, filepath.Join(t.TempDir(), "none"): {}} {
		var got error
		for _, err := range Follow(t.Context(), dir, q, nil) {
			got = err
		}
		if got == nil {
			t.Errorf("%v: got no error", q)
		}
	}
}

// bigLog is the log of a job with 50,000 items, of which a few fail.
func bigLog(b *testing.B) string {
	var text bytes.Buffer
	for i := range 100_000 {
		id := fmt.Sprintf("item_%d", i/2)
		var e Event = AgentStarted{
			AttemptID: AttemptID{ItemID: id, ItemIndex: i / 2, AgentID: "j/" + id + "/1", Attempt: 1},
			Worker:    i % 8,
		}
		switch {
		case i%1000 == 1:
			e = AgentFailed{
				AttemptID: AttemptID{ItemID: id, ItemIndex: i / 2, AgentID: "j/" + id + "/1", Attempt: 1},
				Worker:    i % 8, Error: "boom", Action: "dlq",
			}
		case i%2 == 1:
			e = AgentCompleted{
				AttemptID: AttemptID{ItemID: id, ItemIndex: i / 2, AgentID: "j/" + id + "/1", Attempt: 1},
				Worker:    i % 8, DurationMS: 1234567,
			}
		}
		r := Record{Seq: int64(i + 1), Time: start0, JobID: "mapreduce-20261120-161530-k3f9", CorrelationID: "mapreduce-20261120-161530-k3f9/" + id, Event: e}
		text.Write(encodeAll(b, []Record{r}))
	}
	b.SetBytes(int64(text.Len()))
	return logDir(b, text.String())
}

func BenchmarkReadLinesOfOneType(b *testing.B) {
	dir := bigLog(b)
	for b.Loop() {
		if got, err := collect(b, dir, Query{Type: "agent_failed"}); len(got) != 100 || err != nil {
			b.Fatal(len(got), err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	dir := bigLog(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range Read(dir) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func objectWith(text string) json.RawMessage {
	return append(appendQuoted([]byte(`{"item_id":`), text), '}')
}
