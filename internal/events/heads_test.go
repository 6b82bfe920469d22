package events

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// headsAgree fails when what was learnt of the heads of the lines so far makes the type or the item of one of them another than it is.
func headsAgree(t testing.TB, lines ...[]byte) {
	var known heads
	for _, text := range lines {
		item, rest, ok := known.cut(lineOf(text))
		if !ok {
			continue
		}
		i := bytes.Index(text, typeKey)
		if i < 0 || !bytes.Equal(rest, text[i+len(typeKey):]) {
			t.Fatalf("%s: got %s for the type", text, rest)
		}
		var h struct {
			JobID         string `json:"job_id"`
			CorrelationID string `json:"correlation_id"`
		}
		low := bytes.ToLower(text) // encoding/json takes keys in any case
		if json.Unmarshal(text, &h) != nil || bytes.Count(low, []byte(`"job_id"`)) > 1 || bytes.Count(low, []byte(`"correlation_id"`)) > 1 {
			continue // of keys that are doubled the last counts
		}
		if bytes.IndexByte(low, '\\') < 0 && utf8.Valid(text) && h.JobID+string(item) != h.CorrelationID {
			t.Fatalf("%s: got %s for the item", text, item)
		}
	}
}

func lineOf(text []byte) line {
	l := line{text: text}
	if len(text) == 0 || l.readSeq() != nil {
		return line{text: text}
	}
	return l
}

func TestHeadsOfLinesAreCutAsTheyAre(t *testing.T) {
	line := func(job, correlation, rest string) []byte {
		return []byte(`{"seq":7,"time":"2026-11-20T16:15:30.123456Z","job_id":"` + job + `","correlation_id":"` + correlation + `","type":` + rest)
	}
	var known heads
	for _, c := range []struct {
		text []byte
		item string
		ok   bool
	}{
		{line("j", "j", `"JobStarted"}`), "", true},
		{line("j", "j/item_1", `"AgentStarted","item_id":"item_1"}`), "/item_1", true},
		{line("j", `j/a\"b`, `"AgentStarted"}`), "", false},
		{line("j", `j/a\\`, `"AgentStarted"}`), "", false},
		{line(`j\\`, `j\\/a`, `"AgentStarted"}`), "", false},
		{line("other", "other/item_1", `"AgentStarted"}`), "/item_1", true},
		{line("other", "j/item_1", `"AgentStarted"}`), "", false},
		{line("j", "j/item_2", `"AgentStarted"}`), "/item_2", true},
		{[]byte(`{"seq":7,"time":"1","type":"AgentFailed","a":"b","job_id":"j","correlation_id":"j","type":"JobStarted"}`), "", false},
		{[]byte(`{"seq":7,"type":"AgentFailed","time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j"}`), "", false},
		{[]byte(`{"seq":7,"time":"2026-11-20T16:15:30.123456Z`), "", false},
		{line("j", "j/x", "")[:70], "", false},
		{nil, "", false},
	} {
		item, _, ok := known.cut(lineOf(c.text))
		if string(item) != c.item && ok || ok != c.ok {
			t.Errorf("%s: got %q %v, want %q %v", c.text, item, ok, c.item, c.ok)
		}
		headsAgree(t, c.text, c.text)
	}
}

// A type that is asked for is found in the lines whose event has it, and in no others, whatever their texts hold.
func TestATypeIsFoundInTheHeadAndNowhereElse(t *testing.T) {
	names := []string{"AgentSkipped", "CircuitOpen", "New"}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`","type":"CircuitOpen`, `"type":"CircuitOpen"`, `\","type":"New`, "j", "j/a", `j\`}))
		f, err := newFilter(Query{Type: "circuit_open"})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 5).Draw(rt, "lines") {
			name := rapid.SampledFrom(names).Draw(rt, "name")
			r := Record{
				Seq: 1, Time: start0, JobID: text.Draw(rt, "job"), CorrelationID: text.Draw(rt, "correlation"),
				Event: Unknown{Name: name, Raw: objectWith(text.Draw(rt, "field"))},
			}
			line := encodeAll(t, []Record{r})
			if got, want := f.typeMatches(lineOf(line)), name == "CircuitOpen"; got != want {
				t.Fatalf("%s: got %v, want %v", line, got, want)
			}
		}
	})
}

func objectWith(text string) json.RawMessage {
	return append(appendQuoted([]byte(`{"item_id":`), text), '}')
}

// A record is known by the one before it as it is known by itself, whatever their numbers.
func TestTheNextRecordIsTheOneWithTheNextNumber(t *testing.T) {
	for _, first := range []int64{1, 8, 9, 10, 98, 99, 999, 1999, 999_998, 99_999_999_999_998} {
		var text []byte
		for seq := first; seq < first+4; seq++ {
			text = append(text, numbered(t, seq, JobPaused{})...)
		}
		s := newLineReader(bytes.NewReader(text), "events-0.jsonl", true)
		for seq := first; seq < first+4; seq++ {
			l, err := s.line()
			alone := lineOf(l.text)
			if err != nil || l.seq != seq || alone.seq != seq || l.body != alone.body || l.body == 0 {
				t.Fatalf("got record %d %d %v, alone %d %d, want %d", l.seq, l.body, err, alone.seq, alone.body, seq)
			}
		}
	}
}

// What is cut off, doubled or missing is no next record.
func TestALineThatOnlyBeginsAsTheNextRecordIsNone(t *testing.T) {
	whole := numbered(t, 1, JobPaused{}, JobPaused{})
	second := strings.Index(whole, `{"seq":2`)
	for _, next := range []string{`{"seq":2`, `{"seq":2,"time":"`, whole[second : second+40], `{"seq":02,"time":"}`} {
		s := newLineReader(strings.NewReader(whole[:second]+next+"\n"+whole), "events-0.jsonl", true)
		if _, err := s.line(); err != nil {
			t.Fatal(err)
		}
		if l, err := s.line(); err == nil {
			t.Errorf("%s: got record %d", next, l.seq)
		}
	}
}

func FuzzHeads(f *testing.F) {
	for _, r := range sampleRecords() {
		line := encodeAll(f, []Record{r})
		f.Add(line, line)
		f.Add(line, bytes.Replace(line, []byte(`"type":`), []byte(`"typo":`), 1))
	}
	f.Fuzz(func(t *testing.T, one, other []byte) {
		headsAgree(t, one, other, one)
	})
}
