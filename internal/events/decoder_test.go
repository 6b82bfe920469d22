package events

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decodersAgree fails when a line is another record to who has seen the lines before it than it is alone.
func decodersAgree(t testing.TB, text []byte) (quick int) {
	s := newLineReader(bytes.NewReader(text), "events-0.jsonl", false)
	var d decoder
	for {
		l, err := s.line()
		if err != nil {
			return quick
		}
		want, wantErr := Decode(l.text)
		if got, ok := d.quick(l); ok {
			quick++
			if diff := cmp.Diff(got, want); diff != "" || wantErr != nil {
				t.Fatalf("%s: %v (-quick +plain):\n%s", l.text, wantErr, diff)
			}
		}
		if got, err := d.decode(l); !cmp.Equal(got, want) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: got %v %v, want %v %v", l.text, got, err, want, wantErr)
		}
	}
}

func TestAnAgentIsReadTheQuickWay(t *testing.T) {
	var text []byte
	for i, e := range []Event{
		AgentStarted{ItemID: "item_0", ItemIndex: 0, AgentID: "j/item_0/1", Attempt: 1, Worker: 2},
		AgentCompleted{ItemID: "item_0", ItemIndex: 0, AgentID: "j/item_0/1", Attempt: 1, Worker: 2, DurationMS: Millis(12340 * time.Microsecond)},
		AgentCompleted{ItemID: "a b", ItemIndex: 7, AgentID: "j/a b/12", Attempt: 12, Output: "done", OutputFile: "f", OutputCRC: "1a2b3c4d"},
	} {
		r := Record{Seq: int64(i + 1), Time: start0.Add(time.Duration(i) * 700 * time.Millisecond), JobID: "j", CorrelationID: "j/" + e.About(), Event: e}
		text = append(text, encodeAll(t, []Record{r})...)
	}
	if got := decodersAgree(t, text); got != 3 {
		t.Errorf("got %d lines the quick way, want 3", got)
	}
}

func TestARecordIsTheSameWhateverCameBeforeIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/_0-9]{0,9}`), rapid.SampledFrom([]string{"j", "a", `","type":"`, `a","item_index":1`}))
		number := rapid.OneOf(rapid.IntRange(0, 100), rapid.Int())
		job, now := text.Draw(rt, "job"), start0
		var records []Record
		for range rapid.IntRange(1, 6).Draw(rt, "lines") {
			now = now.Add(time.Duration(rapid.IntRange(-1e7, 1e9).Draw(rt, "pause")) * time.Microsecond)
			item := text.Draw(rt, "item")
			s := AgentStarted{ItemID: item, ItemIndex: number.Draw(rt, "index"), AgentID: job + "/" + item + "/1", Attempt: number.Draw(rt, "attempt")}
			e := AgentCompleted{ItemID: item, AgentID: job + "/" + text.Draw(rt, "agent"), ExitCode: number.Draw(rt, "code"), Output: text.Draw(rt, "output")}
			about := rapid.SampledFrom([]string{job + "/" + item, job, item}).Draw(rt, "correlation")
			event := rapid.SampledFrom([]Event{s, e, PhaseStarted{Phase: item}}).Draw(rt, "event")
			records = append(records, Record{Seq: int64(len(records) + 1), Time: now, JobID: job, CorrelationID: about, Event: event})
		}
		decodersAgree(t, encodeAll(t, records))
	})
}

func FuzzReadingLinesInTurn(f *testing.F) {
	records := sampleRecords()
	f.Add(encodeAll(f, records))
	f.Add([]byte(strings.Repeat(numbered(f, 1, AgentStarted{ItemID: "a", AgentID: "j/a/1"}), 2)))
	f.Fuzz(func(t *testing.T, text []byte) { decodersAgree(t, text) })
}

// All that reads a log in some quicker way finds the damage that reading all of it finds, or what is before the damage.
func TestDamageIsFoundByEveryReader(t *testing.T) {
	whole := numbered(t, 1, JobStarted{}, AgentStarted{ItemID: "a", AgentID: "j/a/1"}, AgentCompleted{ItemID: "a", AgentID: "j/a/1"}, CircuitOpen{}, JobPaused{})
	lines := strings.SplitAfter(whole, "\n")
	for name, text := range map[string]string{
		"missing": lines[0] + lines[2] + lines[3], "doubled": lines[0] + lines[1] + lines[1] + lines[2],
		"cut off": lines[0] + lines[1][:30] + "\n" + lines[2], "emptied": lines[0] + "\n" + lines[1], "zeros": lines[0] + "\x00\x00\n" + lines[1],
	} {
		dir := logDir(t, text)
		for _, q := range []Query{{}, {Type: "circuit_open"}, {ItemID: "b"}} {
			var damaged *DamagedError
			if _, err := collect(t, dir, q); !errors.As(err, &damaged) {
				t.Errorf("%s, %+v: got %v", name, q, err)
			}
		}
		var got error
		for _, err := range About(dir, "b") {
			got = err
		}
		var damaged *DamagedError
		if !errors.As(got, &damaged) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
