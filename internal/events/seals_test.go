package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/jobs"
)

// unsealed returns lines as the versions before checksums wrote them.
func unsealed(lines string) string {
	var old strings.Builder
	for line := range strings.Lines(lines) {
		old.Write(jobs.StripSeal([]byte(strings.TrimSuffix(line, "\n"))))
		old.WriteByte('\n')
	}
	return old.String()
}

func run0() []Event {
	return []Event{
		JobStarted{Mode: "mapreduce", MaxParallel: 1},
		PhaseStarted{Phase: "map"},
		AgentStarted{AttemptID: AttemptID{ItemID: "a", AgentID: "j/a/1", Attempt: 1}},
		AgentCompleted{AttemptID: AttemptID{ItemID: "a", AgentID: "j/a/1", Attempt: 1}},
		AgentStarted{AttemptID: AttemptID{ItemID: "b", ItemIndex: 1, AgentID: "j/b/1", Attempt: 1}},
		JobPaused{},
	}
}

// A log of a version without checksums is gone on with, in the same file or the next one, from the end backwards too.
func TestALogMayLackChecksumsUpToTheFirstRunThatWritesThem(t *testing.T) {
	old, again := unsealed(numbered(t, 1, run0()...)), numbered(t, 7, JobResumed{}, JobPaused{})
	evicted := numbered(t, 7, DLQItemRemoved{ItemID: "a"}, DLQItemsEvicted{Count: 1})
	inRun := numbered(t, 7, AgentStarted{AttemptID: AttemptID{ItemID: "c", ItemIndex: 2, AgentID: "j/c/1"}},
		JobPaused{})
	whole := numbered(t, 1, run0()...)
	lines := strings.SplitAfter(whole, "\n")
	for name, tt := range map[string]struct {
		files []string
		want  string
	}{
		"old":                        {[]string{old}, ""},
		"old, then resumed":          {[]string{old + again}, ""},
		"old, then in the next file": {[]string{old, again}, ""},
		"old, then evicted":          {[]string{old + evicted}, ""},
		"old, then within a run":     {[]string{old + inRun}, "events-0.jsonl:7: damaged line: the preceding records have no checksum"},
		"within a run, by files":     {[]string{old, inRun}, "events-1.jsonl:1: damaged line: the preceding records have no checksum"},
		"the first without":          {[]string{unsealed(lines[0]) + strings.Join(lines[1:], "")}, "events-0.jsonl:2: damaged line: the preceding records have no checksum"},
		"one without":                {[]string{strings.Join(lines[:3], "") + unsealed(lines[3]) + strings.Join(lines[4:], "")}, "events-0.jsonl:4: damaged line: no checksum"},
		"the last without":           {[]string{strings.Join(lines[:5], "") + unsealed(lines[5])}, "events-0.jsonl:6: damaged line: no checksum"},
		"resumed, and then without":  {[]string{old + again + unsealed(numbered(t, 9, JobResumed{}))}, "events-0.jsonl:9: damaged line: no checksum"},
		"without in the next file":   {[]string{whole, unsealed(again)}, "events-1.jsonl:1: damaged line: no checksum"},
	} {
		dir := logDir(t, tt.files...)
		var got error
		for _, err := range Read(dir) {
			got = err
		}
		if tt.want == "" && got != nil || tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", name, got, tt.want)
		}
		if len(tt.files) > 1 {
			continue
		}
		if _, err := collect(t, dir, Query{Limit: 100}); (err == nil) != (tt.want == "") {
			t.Errorf("%s: read from the end: got %v", name, err)
		}
	}
}

// Whatever bit of a log is flipped, a reader of all of it says so.
func TestEveryFlippedBitOfALogIsNoticed(t *testing.T) {
	whole := []byte(numbered(t, 1, run0()...))
	for at := range whole {
		for bit := range 8 {
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1 << bit
			in := newLineReader(bytes.NewReader(flipped), "log", true, new(seals))
			var got error
			last := int64(0)
			in.lines(func(l line, err error) bool {
				if err == nil && l.seq != last+1 {
					err = l.outOfTurn(last)
				}
				got, last = err, l.seq
				return err == nil
			})
			if got == nil {
				t.Fatalf("bit %d of byte %d, %q, is not noticed", bit, at, whole[max(0, at-10):min(len(whole), at+10)])
			}
		}
	}
}

// All that reads a log in some quicker way finds the damage that reading all of it finds, or what is before the damage.
func TestDamageIsFoundByEveryReader(t *testing.T) {
	lines := strings.SplitAfter(numbered(t, 1, run0()...), "\n")
	for name, text := range map[string]string{
		"missing": lines[0] + lines[2] + lines[3], "doubled": lines[0] + lines[1] + lines[1] + lines[2],
		"cut off": lines[0] + lines[1][:30] + "\n" + lines[2], "emptied": lines[0] + "\n" + lines[1], "zeros": lines[0] + "\x00\x00\n" + lines[1],
		"changed": lines[0] + strings.Replace(lines[1], "map", "max", 1) + lines[2], "a last line that was changed": lines[0] + strings.Replace(lines[1], "map", "max", 1),
	} {
		dir := logDir(t, text)
		for _, q := range []Query{{}, {Type: "circuit_open"}, {ItemID: "x"}, {Limit: 10}} {
			var damaged *DamagedError
			if _, err := collect(t, dir, q); !errors.As(err, &damaged) {
				if q.Limit > 0 && (name == "missing" || name == "doubled") {
					continue // the numbers are not compared from the end
				}
				t.Errorf("%s, %+v: got %v", name, q, err)
			}
		}
		var got error
		for _, err := range About(dir, "x") {
			got = err
		}
		if damaged := new(DamagedError); !errors.As(got, &damaged) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Old lines have no checksum. What nobody ever wrote is not believed all the same, and nobody has to be prepared for it.
func TestWhatNoJobWritesIsNotBelieved(t *testing.T) {
	head := func(seq int, typ, fields string) string {
		return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j","type":"%s",%s}`+"\n", seq, typ, fields)
	}
	const agent = `"agent_id":"j/a/1","attempt":1,"worker":1`
	failed := `"item_id":"a","item_index":0,` + agent + `,"duration_ms":1,"step":"s","error":"e","error_type":"t","error_signature":"s"`
	for _, tt := range []struct{ line, want string }{
		{head(1, "AgentStarted", `"item_id":"a","item_index":-5,`+agent), "AgentStarted: invalid item_index: -5"},
		{head(1, "AgentStarted", `"item_id":"a","item_index":1000000000000000,`+agent), "AgentStarted: invalid item_index: 1000000000000000"},
		{head(1, "AgentStarted", `"item_id":"a","item_index":9,`+agent), `item "a" has index 9, beyond the items started so far`},
		{head(1, "AgentStarted", `"item_id":"a",`+agent), "AgentStarted: item_index is missing"},
		{head(1, "AgentStarted", `"item_id":"a","item_index":null,`+agent), "AgentStarted: item_index is missing"},
		{head(1, "AgentStarted", `"item_index":0,`+agent), `item "" has index 0`},
		{head(1, "AgentCompletex", `"item_id":"a"`), `unknown event type "AgentCompletex" (written by a newer version?)`},
		{head(1, "AgentFailed", failed+`,"action":"park"`), `unknown action "park"`},
		{head(1, "AgentFailed", failed+`,"action":"retry"`), "action retry requires retry_at"},
		{head(1, "ItemsSelected", `"total":3`), "ItemsSelected: total_items is missing"},
		{head(1, "ItemsSelected", `"total_items":-1`), "invalid total_items: -1"},
		{head(1, "PhaseStarted", `"phase":"mop"`), `unknown phase "mop"`},
	} {
		var got error
		for _, err := range Read(logDir(t, tt.line)) {
			got = err
		}
		if damaged := new(DamagedError); !errors.As(got, &damaged) || !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.line, got, tt.want)
		}
	}
}

// Whatever is about an item is found by its index, so that each such event must have one that there can be.
func TestNoEventIsAboutAnItemThatCannotBe(t *testing.T) {
	tried := 0
	for _, e := range samples() {
		if index := reflect.ValueOf(e).FieldByName("ItemIndex"); !index.IsValid() {
			continue
		}
		for _, index := range []int64{-5, 1e15} {
			v := reflect.New(reflect.TypeOf(e)).Elem()
			v.Set(reflect.ValueOf(e))
			v.FieldByName("ItemIndex").SetInt(index)
			fields, err := json.Marshal(v.Interface())
			if err != nil {
				t.Fatal(err)
			}
			line := fmt.Sprintf(`{"seq":1,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j","type":"%s",%s`+"\n", TypeOf(e), fields[1:])
			var got error
			for _, err := range Read(logDir(t, line)) {
				got = err
			}
			if want := fmt.Sprintf("%s: invalid item_index: %d", TypeOf(e), index); got == nil || !strings.Contains(got.Error(), want) {
				t.Errorf("%s: got %v, want %q", line, got, want)
			}
			tried++
		}
	}
	if tried < 20 {
		t.Errorf("tried %d events only", tried)
	}
}

// People may ask for an item that has not begun to be skipped. All other events about it come behind its start.
func TestOnlyASkipIsAboutAnItemThatHasNotBegun(t *testing.T) {
	for _, e := range []Event{
		SkipRequested{ItemID: "item_9", ItemIndex: 9, By: "alice"},
		AgentStraggling{AttemptID: AttemptID{ItemID: "item_9", ItemIndex: 9}},
	} {
		err := believable(Record{Seq: 2, Event: e})
		if _, early := e.(SkipRequested); early != (err == nil) {
			t.Errorf("%s as the second record: got %v", TypeOf(e), err)
		}
	}
}

func TestALogWithoutAFileIsAnError(t *testing.T) {
	for _, err := range Read(t.TempDir()) {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
		return
	}
	t.Error("got an empty log")
}

// A file that was deleted takes what is written with it, and nobody else notices.
func TestALogWhoseFileIsDeletedOrReplacedMeanwhileFails(t *testing.T) {
	for name, replace := range map[string]bool{"deleted": false, "replaced": true} {
		dir := filepath.Join(t.TempDir(), "log")
		l, err := Create(dir, "j", start0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Wait(l.Append(start0, JobStarted{MaxParallel: 1}).Seq); err != nil {
			t.Fatal(err)
		}
		files, _ := logFiles(dir)
		text, err := os.ReadFile(files[0])
		if err = errors.Join(err, os.Remove(files[0])); err != nil {
			t.Fatal(err)
		}
		if replace {
			write(t, files[0], text)
		}
		if err := l.Wait(l.Append(start0, JobPaused{}).Seq); err == nil || !strings.Contains(err.Error(), "was deleted or replaced during the run") {
			t.Errorf("%s: got %v", name, err)
		}
		_ = l.Close()
	}
}

// Repair cuts off what did not happen, and no more.
func TestRepairCutsOffTheLastLineOnly(t *testing.T) {
	lines := strings.SplitAfter(numbered(t, 1, run0()...), "\n")
	good := strings.Join(lines[:5], "")
	for name, last := range map[string]string{
		"incomplete": lines[5][:20], "without its end": strings.TrimSuffix(lines[5], "\n"), "changed": strings.Replace(lines[5], "Paused", "Peused", 1), "zeros": "\x00\x00\x00",
	} {
		dir := logDir(t, good+last)
		cut, err := Repair(dir)
		if err != nil || cut != int64(len(last)) {
			t.Errorf("%s: got %d %v, want %d", name, cut, err, len(last))
		}
		if got := seqs(readAll(t, dir)); !slices.Equal(got, upTo(5)) {
			t.Errorf("%s: got %v, want 1 to 5", name, got)
		}
		if cut, err := Repair(dir); err != nil || cut != 0 {
			t.Errorf("%s: again: got %d %v, want 0", name, cut, err)
		}
	}
	dir := logDir(t, lines[0]+lines[1][:20]+"\n"+lines[2][:10])
	if _, err := Repair(dir); err == nil {
		t.Error("two bad lines: got no error")
	}
}
