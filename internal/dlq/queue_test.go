package dlq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"prodigy/internal/jobs"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
)

var t0 = time.Date(2026, 11, 20, 16, 15, 30, 123456000, time.UTC)

func open(t testing.TB, path string) *Queue {
	t.Helper()
	q, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func closeQueue(t testing.TB, q *Queue) {
	t.Helper()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) []Entry {
	t.Helper()
	entries, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func put(t testing.TB, q *Queue, e Entry) {
	t.Helper()
	if err := q.Put(e); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, q *Queue, id string) {
	t.Helper()
	if err := q.Remove(id); err != nil {
		t.Fatal(err)
	}
}

func simple(id string, count int) Entry {
	return Entry{ItemID: id, Item: json.RawMessage(`{"n":1}`), FailureCount: count}
}

func full() Entry {
	code := 7
	return Entry{
		ItemID: "a\"é\n", ItemIndex: 3, Item: json.RawMessage(`{"html":"<b>&","n":1.10}`), CorrelationID: "j/a", JobID: "j",
		Workflow: "w", FirstAttempt: t0, LastAttempt: t0.Add(time.Second), FailureCount: 1,
		FailureHistory: []Failure{{
			Attempt: 1, Time: t0, ErrorType: retry.TypeTimeout, ExitCode: &code, Message: "slow", Step: "s", AgentID: "j/a/1",
			DurationMS: 1500000, StdoutTail: "o", StderrTail: "e", Retries: []StepRetry{{DelayMS: 1000000, Error: "x"}},
		}},
		ErrorSignature: "slow", ReprocessEligible: true, ManualReviewRequired: true, RetryCount: 2,
	}
}

func TestAnEntryIsReadAsItWasPut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "repo", "j", "dlq.jsonl")
	q := open(t, path)
	put(t, q, full())
	got, ok := q.Get(full().ItemID)
	if diff := cmp.Diff(got, full()); diff != "" || !ok {
		t.Errorf("from the open queue: %v (-got +want):\n%s", ok, diff)
	}
	if _, ok := q.Get("other"); ok {
		t.Error("got an entry that was never put")
	}
	closeQueue(t, q)
	if diff := cmp.Diff(read(t, path), []Entry{full()}); diff != "" {
		t.Errorf("from the file (-got +want):\n%s", diff)
	}
}

func TestTheJournalHasOneLineForEveryChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	put(t, q, simple("a", 1))
	put(t, q, simple("a", 2))
	remove(t, q, "a")
	remove(t, q, "a") // not there: no line
	closeQueue(t, q)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		head, _, _ := strings.Cut(string(jobs.StripSeal([]byte(strings.TrimSpace(line)))), `,"entry":{"item_id":"a",`)
		got = append(got, strings.TrimSpace(head))
	}
	want := []string{`{"op":"add","line":1,"item_id":"a"`, `{"op":"update","line":2,"item_id":"a"`, `{"op":"remove","line":3,"item_id":"a"}`}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestNoFileIsAnEmptyQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "dlq.jsonl")
	if got := read(t, path); got != nil {
		t.Errorf("Read: got %v", got)
	}
	q := open(t, path)
	if q.Len() != 0 {
		t.Errorf("Open: got %d entries", q.Len())
	}
	closeQueue(t, q)
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

// The queue behaves as a map that remembers the order in which keys came, over any number of openings.
func TestAQueueIsAnOrderedMapThatOutlivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		q, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var want []Entry
		at := func(id string) int {
			for i, e := range want {
				if e.ItemID == id {
					return i
				}
			}
			return -1
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "ops") {
			id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
			old := at(id)
			switch rapid.SampledFrom([]string{"put", "put", "remove", "reopen"}).Draw(t, "op") {
			case "put":
				e := simple(id, i)
				err = q.Put(e)
				if old < 0 {
					want = append(want, e)
				} else {
					want[old] = e
				}
			case "remove":
				err = q.Remove(id)
				if old >= 0 {
					want = append(want[:old:old], want[old+1:]...)
				}
			case "reopen":
				if err = q.Close(); err == nil {
					q, err = Open(path)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			got, readErr := Read(path)
			if diff := cmp.Diff(append([]Entry{}, got...), append([]Entry{}, want...)); diff != "" || readErr != nil || q.Len() != len(want) {
				t.Fatalf("%d entries, %v (-got +want):\n%s", q.Len(), readErr, diff)
			}
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAJournalWithManyLinesIsCompactedAtOpenAndClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	lines := func() int {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(data, []byte("\n"))
	}
	q := open(t, path)
	put(t, q, simple("b", 0))
	for i := range 2*2 + slack - 1 {
		put(t, q, simple("a", i))
	}
	want := read(t, path)
	closeQueue(t, q)
	if got := lines(); got != 2*2+slack {
		t.Fatalf("at the limit: got %d lines, want %d", got, 2*2+slack)
	}
	crashed := open(t, path)
	put(t, crashed, want[1])
	if err := crashed.file.Close(); err != nil {
		t.Fatal(err)
	}
	q = open(t, path)
	if got := lines(); got != 2 {
		t.Errorf("after Open: got %d lines, want 2", got)
	}
	for i := range 2*3 + slack {
		put(t, q, simple("c", i))
	}
	want = append(want, simple("c", 2*3+slack-1))
	closeQueue(t, q)
	if got := lines(); got != 3 {
		t.Errorf("after Close: got %d lines, want 3", got)
	}
	if diff := cmp.Diff(read(t, path), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v %v, want one file", entries, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), `{"op":"add"`) != 3 {
		t.Errorf("got %s %v, want adds only", data, err)
	}
}

func TestACompactedQueueGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	for i := range slack + 10 {
		put(t, q, simple("a", i))
	}
	closeQueue(t, q)
	q = open(t, path)
	put(t, q, simple("b", 1))
	got, ok := q.Get("a")
	if !ok || got.FailureCount != slack+9 {
		t.Errorf("got %v %v, want the last one", got, ok)
	}
	closeQueue(t, q)
	if got := len(read(t, path)); got != 2 {
		t.Errorf("got %d entries, want 2", got)
	}
}

// Cut at any byte, a journal has what its whole lines say.
func TestAJournalThatWasCutAnywhereGoesOnBehindItsLastWholeLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whole")
	q := open(t, path)
	put(t, q, simple("a", 1))
	put(t, q, simple("b", 1))
	put(t, q, simple("a", 2))
	remove(t, q, "b")
	closeQueue(t, q)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	states := [][]Entry{nil, {simple("a", 1)}, {simple("a", 1), simple("b", 1)}, {simple("a", 2), simple("b", 1)}, {simple("a", 2)}}
	for _, cut := range append(testenv.Offsets(whole, 16, 4), len(whole)) {
		path := filepath.Join(dir, "cut")
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		want := states[bytes.Count(whole[:cut], []byte("\n"))]
		if diff := cmp.Diff(read(t, path), want); diff != "" {
			t.Fatalf("cut at %d (-got +want):\n%s", cut, diff)
		}
		q := open(t, path)
		put(t, q, simple("z", 1))
		closeQueue(t, q)
		want = append(want[:len(want):len(want)], simple("z", 1))
		if diff := cmp.Diff(read(t, path), want); diff != "" {
			t.Fatalf("cut at %d and put (-got +want):\n%s", cut, diff)
		}
	}
}

func TestDamageInAJournalNamesFileAndLine(t *testing.T) {
	good := `{"op":"remove","item_id":"a"}` + "\n"
	for _, bad := range []string{"x", "{}", `{"op":"add","item_id":"a"}`, `{"op":"add","item_id":"a","entry":5}`, `{"op":"drop","item_id":"a"}`, `{"op":"remove"}`} {
		path := filepath.Join(t.TempDir(), "dlq.jsonl")
		if err := os.WriteFile(path, []byte(good+bad+"\n"+good), 0o600); err != nil {
			t.Fatal(err)
		}
		for what, open := range map[string]func() error{
			"Read": func() error { _, err := Read(path); return err },
			"Open": func() error { _, err := Open(path); return err },
		} {
			if err := open(); err == nil || !strings.Contains(err.Error(), "dlq.jsonl:2: damaged line") {
				t.Errorf("%s of %s: got %v, want dlq.jsonl:2: damaged line", what, bad, err)
			}
		}
	}
}

func TestAnEntryWithoutAnItemIsRefused(t *testing.T) {
	q := open(t, filepath.Join(t.TempDir(), "dlq.jsonl"))
	if err := q.Put(Entry{}); err == nil {
		t.Error("got no error")
	}
	if err := q.Put(Entry{ItemID: "a", Item: json.RawMessage("{")}); err == nil {
		t.Error("with broken data: got no error")
	}
	if q.Len() != 0 {
		t.Errorf("got %d entries, want 0", q.Len())
	}
	closeQueue(t, q)
}

func TestAPutThatCannotBeWrittenChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	put(t, q, simple("a", 1))
	writable := q.file
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	q.file = readOnly
	for what, err := range map[string]error{"put": q.Put(simple("b", 1)), "update": q.Put(simple("a", 2)), "remove": q.Remove("a")} {
		if err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
	if got, ok := q.Get("a"); q.Len() != 1 || !ok || got.FailureCount != 1 {
		t.Errorf("got %d entries and %v, want the first one as it was", q.Len(), got)
	}
	q.file = writable
	if err := readOnly.Close(); err != nil {
		t.Error(err)
	}
	closeQueue(t, q)
}

// journalEntries returns the entries of a journal as text.
func journalEntries(t *testing.T, journal []byte) (string, error) {
	t.Helper()
	x, err := replay(bytes.NewReader(journal), "dlq.jsonl")
	var all strings.Builder
	for _, id := range x.ids() {
		e, err := entryOf(bytes.NewReader(journal), x, id)
		if err != nil {
			t.Fatal(err)
		}
		data, err := rawjson.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String(), err
}

// Whatever bit of a journal is flipped, it is told with its line. Only the end of the journal may be left out instead: the log gives it again.
func TestAFlippedBitInTheJournalIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	put(t, q, full())
	q.Follow(7)
	put(t, q, simple("b", 1))
	put(t, q, simple("c", 1))
	remove(t, q, "b")
	closeQueue(t, q)
	whole := contents(t, path)
	want, err := journalEntries(t, whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range testenv.Offsets(whole, 32, 8) {
		begin := bytes.LastIndexByte(whole[:at], '\n') + 1
		before, err := journalEntries(t, whole[:begin])
		if err != nil {
			t.Fatal(err)
		}
		line := 1 + bytes.Count(whole[:begin], []byte("\n"))
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[at] ^= 1 << bit
			got, err := journalEntries(t, damaged)
			var told *DamagedError
			switch {
			case errors.As(err, &told):
				if told.Path != "dlq.jsonl" || told.Line != line {
					t.Errorf("bit %d of byte %d: told as %v, want line %d", bit, at, err, line)
				}
			case err != nil:
				t.Errorf("bit %d of byte %d: %v", bit, at, err)
			case got != want && (got != before || bytes.Count(damaged[begin:], []byte("\n")) > 1):
				t.Errorf("bit %d of byte %d: got\n%s\nwant\n%s", bit, at, got, want)
			}
		}
	}
}

func TestARestartedQueueIsEmptyAndKeepsTheJournalBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	q.Follow(7)
	put(t, q, simple("a", 1))
	before := contents(t, path)
	p := NewProjection(q, "j", "w", 3, nil)
	for _, same := range []int64{7, 0} { // as long as the log, or a log that is gone
		p.applied = 7
		if err := p.Behind(same); err != nil || q.Len() != 1 {
			t.Fatalf("log to %d: got %d entries, %v, want the one", same, q.Len(), err)
		}
	}
	if err := p.Behind(3); err != nil || q.Len() != 0 || q.Applied() != 0 {
		t.Errorf("log to 3: got %d entries, followed to %d, %v, want none", q.Len(), q.Applied(), err)
	}
	put(t, q, simple("b", 1))
	closeQueue(t, q)
	if got := read(t, path); len(got) != 1 || got[0].ItemID != "b" {
		t.Errorf("got %v, want only what came later", got)
	}
	if kept := contents(t, path+".ahead"); !bytes.Equal(kept, before) {
		t.Errorf("kept %s, want %s", kept, before)
	}
}

func TestAJournalWithoutChecksumsIsReadAndGetsThemFromThenOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	put(t, q, full())
	put(t, q, simple("b", 1))
	closeQueue(t, q)
	var old []byte
	for line := range bytes.Lines(contents(t, path)) {
		old = append(append(old, jobs.StripSeal(bytes.TrimSpace(line))...), '\n')
	}
	if bytes.Contains(old, []byte(`"crc"`)) {
		t.Fatalf("got %s, want no checksum", old)
	}
	want := read(t, path)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); !cmp.Equal(got, want) {
		t.Errorf("without checksums: got %v, want %v", got, want)
	}
	q = open(t, path)
	put(t, q, simple("c", 1))
	closeQueue(t, q)
	if got := read(t, path); len(got) != 3 {
		t.Errorf("got %d entries, want 3", len(got))
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(contents(t, path), []byte("\n")), []byte("\n"))
	withoutNumber := append(jobs.Seal(bytes.Replace(jobs.StripSeal(lines[2]), []byte(`"line":3,`), nil, 1), 0), '\n')
	if err := os.WriteFile(path, bytes.Join([][]byte{withoutNumber, lines[0], lines[1]}, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	var told *DamagedError
	if _, err := Read(path); !errors.As(err, &told) || !errors.Is(err, jobs.ErrNoSeal) {
		t.Errorf("lines without checksums behind one with: got %v, want the second told", err)
	}
}

// A sound line that is missing, doubled or in another place changes what the queue holds.
func TestALineOfTheJournalThatIsNotWhereItWasIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	q := open(t, path)
	for _, id := range []string{"a", "b", "c"} {
		put(t, q, simple(id, 1))
	}
	closeQueue(t, q)
	lines := bytes.SplitAfter(contents(t, path), []byte("\n"))
	for name, order := range map[string][]int{"missing": {0, 2}, "the first missing": {1, 2}, "doubled": {0, 0, 1, 2}, "swapped": {0, 2, 1}, "doubled at the end": {0, 1, 2, 2}} {
		var text []byte
		for _, i := range order {
			text = append(text, lines[i]...)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var told *DamagedError
		if _, err := Read(path); !errors.As(err, &told) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheLeadOfAQueueSaysWhetherThereAreSeveralAndWhetherAnyCanBeSentAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dlq.jsonl")
	check := func(want Summary) {
		t.Helper()
		if got, err := Lead(path); got != want || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	check(Summary{})
	q := open(t, path)
	spent, also := simple("spent", 1), simple("also spent", 1)
	spent.ManualReviewRequired, also.ManualReviewRequired = true, true
	spent.Item = json.RawMessage(`{"reprocess_eligible":true}`)
	put(t, q, spent)
	check(Summary{First: "spent"})
	put(t, q, also)
	check(Summary{First: "spent", Several: true})
	fresh := simple("fresh", 1)
	fresh.ReprocessEligible, fresh.Item = true, json.RawMessage(`{"reprocess_eligible":false}`)
	put(t, q, fresh)
	check(Summary{First: "spent", Several: true, Eligible: true})
	remove(t, q, "spent")
	check(Summary{First: "also spent", Several: true, Eligible: true})
	remove(t, q, "also spent")
	check(Summary{First: "fresh", Eligible: true})
	closeQueue(t, q)
}

// How far the log has been followed is read from the end of the journal, which says the same as all of it.
func TestHowFarAQueueHasFollowedIsToldByItsEnd(t *testing.T) {
	whole := `{"op":"add","seq":7,"item_id":"a","entry":{"item_id":"a"}}` + "\n"
	for text, want := range map[string]int64{
		"": 0, whole: 7, whole + `{"op":"mark","seq":9}` + "\n": 9, whole + `{"op":"mark","seq":9}`: 7, whole + "{\n": 7,
		whole + `{"op":"add","seq":8,"item_id":"b","entry":{"x":"` + strings.Repeat("x", 100_000) + `"}}` + "\n": 8,
	} {
		path := filepath.Join(t.TempDir(), "dlq.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Applied(path); got != want || err != nil {
			t.Errorf("%.80q: got %d %v, want %d", text, got, err, want)
		}
	}
	if got, err := Applied(filepath.Join(t.TempDir(), "none")); got != 0 || err != nil {
		t.Errorf("no queue: got %d %v", got, err)
	}
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"op":"add","item_id":"a","entry":{"item_id":"a"}}` + "\n" + `{"op":"remove","item_id":"a"}` + "\n"))
	f.Add([]byte(`{"op":"update","item_id":"a","entry":{}}` + "\n" + `{"op":"upd`))
	f.Add([]byte("\x00\n\n"))
	f.Add([]byte(`{"op":"add","seq":7,"item_id":"a","entry":{"item_id":"a","item":{"reprocess_eligible":true},"reprocess_eligible":false}}` + "\n" + `{"op":"mark","seq":9}` + "\n"))
	f.Add([]byte(`{"op":"add","seq":07,"item_id":"a\"","entry":{}}` + "\n" + `{"op":"add","item_id":"é","entry":{},"seq":3}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := replay(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		again, err := replay(bytes.NewReader(data[:x.size]), "fuzz")
		if diff := cmp.Diff(again, x, cmp.AllowUnexported(index{}, place{})); diff != "" || err != nil {
			t.Fatalf("without its torn line: %v (-got +want):\n%s", err, diff)
		}
		for id, p := range x.live {
			if o, err := opAt(bytes.NewReader(data), p); err != nil || o.ItemID != id {
				t.Fatalf("at %v: got %v %v, want the entry of %q", p, o, err, id)
			}
		}
	})
}

func BenchmarkPut(b *testing.B) {
	q := open(b, filepath.Join(b.TempDir(), "dlq.jsonl"))
	e := full()
	b.ReportAllocs()
	for b.Loop() {
		put(b, q, e)
	}
	closeQueue(b, q)
}

func BenchmarkReplay(b *testing.B) {
	var journal bytes.Buffer
	for i := range 1000 {
		e := full()
		e.ItemID = fmt.Sprintf("item_%d", i)
		data, err := rawjson.Encode(e)
		if err != nil {
			b.Fatal(err)
		}
		line, err := op{Op: opAdd, ItemID: e.ItemID, Entry: data}.encode()
		if err != nil {
			b.Fatal(err)
		}
		journal.Write(line)
	}
	b.SetBytes(int64(journal.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := replay(bytes.NewReader(journal.Bytes()), "bench"); err != nil {
			b.Fatal(err)
		}
	}
}
