package events

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/retry"
)

func TestTheHeadHasItsKeysInOrderAndSixDigitsOfTime(t *testing.T) {
	at := time.Date(2026, 11, 20, 17, 15, 30, 0, time.FixedZone("CET", 3600))
	tests := []struct {
		event Event
		want  string
	}{
		{ItemsSelected{TotalItems: 3}, `{"seq":42,"time":"2026-11-20T16:15:30.000000Z","job_id":"j","correlation_id":"j/a\"b","type":"ItemsSelected","total_items":3,"crc":"e0b22cc3"}`},
		{Unknown{Name: "New", Raw: []byte(`{}`)}, `{"seq":42,"time":"2026-11-20T16:15:30.000000Z","job_id":"j","correlation_id":"j/a\"b","type":"New","crc":"31e66713"}`},
	}
	for _, tt := range tests {
		got, err := Encode(Record{Seq: 42, Time: at, JobID: "j", CorrelationID: `j/a"b`, Event: tt.event})
		if err != nil || string(got) != tt.want+"\n" {
			t.Errorf("got %s %v, want %s", got, err, tt.want)
		}
	}
}

func TestAnUnknownEventEncodesBackToItsLine(t *testing.T) {
	const head = `{"seq":1,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j/x","type":"`
	for _, line := range []string{
		head + `Invented","item_id":"x","path":"a<b","n":1.10,"deep":{"type":"JobFailed","b":[1,2]},"crc":"dea02ae7"}` + "\n",
		head + `Nothing","crc":"aeefc0bf"}` + "\n",
		strings.Replace(head, "j/x", `j/\u0001\"é`, 1) + `Escaped","z":1,"a":2,"crc":"1442e819"}` + "\n",
	} {
		r, err := Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := r.Event.(Unknown); !ok {
			t.Fatalf("got a %T, want an Unknown", r.Event)
		}
		if got := encodeAll(t, []Record{r}); string(got) != line {
			t.Errorf("got %s, want %s", got, line)
		}
	}
}

func TestAnUnknownEventIsAboutItsItem(t *testing.T) {
	if got := Subject(Unknown{Name: "New", Raw: []byte(`{"item_id":"x"}`)}); got != "x" {
		t.Errorf("got %q, want x", got)
	}
	if got := Subject(Unknown{Name: "New", Raw: []byte(`{"item_id":5}`)}); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestLinesOfAnotherWriterAreRead(t *testing.T) {
	want := Record{Seq: 5, Time: start0, JobID: "j", CorrelationID: "j/x", Event: AgentSkipped{ItemID: "x", Reason: "é"}}
	for _, line := range []string{
		`{"seq":5,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j/x","type":"AgentSkipped","item_id":"x","item_index":0,"reason":"\u00e9"}`,
		` { "type" : "AgentSkipped", "reason":"é", "item_id":"x", "item_index":0, "correlation_id":"j\/x", "job_id":"j", "time":"2026-11-20T17:15:30.1234569+01:00", "seq":5, "more":true } `,
	} {
		got, err := Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", line, diff)
		}
	}
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	const good = `{"seq":1,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j","type":"JobPaused","reason":"x"}`
	if _, err := Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for i := range len(good) {
		if r, err := Decode([]byte(good[:i])); err == nil {
			t.Errorf("%s: got %v, want an error", good[:i], r)
		}
	}
	for _, line := range []string{
		"null", "[]", "{}", "\x00\x00\x00", good + "x",
		strings.Replace(good, `"seq":1`, `"seq":0`, 1), strings.Replace(good, `"seq":1`, `"seq":-1`, 1),
		strings.Replace(good, `JobPaused","reason":"x"`, `PhaseCompleted","phase":"map","duration_ms":999999999999999`, 1),
		strings.Replace(good, `JobPaused","reason":"x"`, `AgentCompleted","item_id":"","item_index":0,"agent_id":"","attempt":1,"worker":1,"duration_ms":999999999999999,"exit_code":0`, 1),
		strings.Replace(good, `"x"`, `7`, 1), strings.Replace(good, "16:15", "36:15", 1),
	} {
		if r, err := Decode([]byte(line)); err == nil {
			t.Errorf("%s: got %v, want an error", line, r)
		}
	}
}

func TestWhatCannotBeEncodedIsAnErrorAndLeavesNoPartOfALine(t *testing.T) {
	e := newEncoder()
	bad := []Event{
		AgentCompleted{ItemOutput: ItemOutput{Captured: map[string]json.RawMessage{"x": json.RawMessage(`{`)}}},
		JobFailed{Metrics: errorpolicy.Metrics{FailureRate: math.NaN()}},
		Unknown{Name: "New"},
	}
	for _, ev := range bad {
		if err := e.add(Record{Seq: 1, Event: ev}); err == nil {
			t.Errorf("%v: got no error", ev)
		}
		if e.lines.Len() != 0 {
			t.Errorf("%v: got %q, want nothing", ev, e.lines.String())
		}
	}
}

// A replay sees what the live run saw: what Append returns and what Decode gives for its line are equal.
func TestAReplayedRecordEqualsTheLiveOne(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(1000, 5000), func(n int) string { return strings.Repeat("é", n) }))
	millis := rapid.Map(rapid.Int64Range(-1<<60, 1<<60), func(n int64) Millis { return Millis(n) })
	moment := rapid.Map(rapid.Int64Range(0, 1<<61), func(n int64) time.Time { return time.Unix(0, n) })
	rapid.Check(t, func(t *rapid.T) {
		delay, at := millis.Draw(t, "delay"), moment.Draw(t, "at")
		live := []Event{
			AgentFailed{
				AttemptID:  AttemptID{ItemID: "i"},
				DurationMS: millis.Draw(t, "duration"), ItemOutput: ItemOutput{Output: text.Draw(t, "output")},
				Error:          text.Draw(t, "error"),
				ErrorSignature: text.Draw(t, "signature"), StdoutTail: text.Draw(t, "out"), StderrTail: text.Draw(t, "err"),
				Reason: text.Draw(t, "reason"), DelayMS: &delay, RetryAt: &at,
				Retry: &retry.State{Waited: delay, Previous: delay, ExpiresAt: at},
			},
			AgentCompleted{
				AttemptID: AttemptID{ItemID: "i"}, DurationMS: delay,
				ItemOutput: ItemOutput{Output: text.Draw(t, "output")},
			},
			AgentSkipped{ItemID: "i", Reason: text.Draw(t, "reason")},
			StepRetrying{Error: text.Draw(t, "error"), ComputedDelayMS: delay, DelayMS: delay, WaitedMS: delay, BudgetLeftMS: &delay, BudgetExpiresAt: &at},
			StepFailed{Error: text.Draw(t, "error"), ErrorType: retry.TypeTimeout},
			StepPrinted{Output: text.Draw(t, "output")},
			StepCompleted{Output: text.Draw(t, "output"), Stderr: text.Draw(t, "stderr"), DurationMS: delay},
			CircuitOpen{Until: at},
			JobCompleted{DurationMS: delay},
			JobFailed{DurationMS: delay, Reason: text.Draw(t, "reason")},
			PhaseCompleted{DurationMS: delay},
		}
		l := start(output{file: &memory{}}, "j", 0, Options{Durability: None})
		for _, e := range live {
			want := l.Append(at, e)
			line, err := Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Fatalf("(-read +appended):\n%s", diff)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMillisAreNumbersWithUpToThreeDecimals(t *testing.T) {
	tests := []struct {
		in   time.Duration
		want string
	}{
		{0, "0"},
		{time.Second, "1000"},
		{1500 * time.Microsecond, "1.5"},
		{123456 * time.Microsecond, "123.456"},
		{time.Microsecond, "0.001"},
		{10 * time.Microsecond, "0.01"},
		{499 * time.Nanosecond, "0"},
		{1500 * time.Nanosecond, "0.002"},
		{-1500 * time.Microsecond, "-1.5"},
		{-500 * time.Microsecond, "-0.5"},
		{math.MaxInt64, "9223372036854.775"},
	}
	for _, tt := range tests {
		got, err := json.Marshal(Millis(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%v: got %s %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestMillisReadAnyNumberThatIsNotTooLong(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1.5": 1500 * time.Microsecond, "1e3": time.Second, "0.0004": 0, "-2": -2 * time.Millisecond, "null": 0,
	} {
		var got Millis
		if err := json.Unmarshal([]byte(in), &got); err != nil || time.Duration(got) != want {
			t.Errorf("%s: got %v %v, want %v", in, time.Duration(got), err, want)
		}
	}
	for _, in := range []string{`"5"`, "1e300", "-1e300", "true"} {
		var m Millis
		if err := json.Unmarshal([]byte(in), &m); err == nil {
			t.Errorf("%s: got %v, want an error", in, time.Duration(m))
		}
	}
}

func TestClipCutsBetweenCharacters(t *testing.T) {
	tests := []struct {
		in         string
		n          int
		head, tail string
	}{
		{"abc", 3, "abc", "abc"},
		{"abcd", 3, "abc", "bcd"},
		{"éé", 3, "é", "é"},
		{"aé€", 4, "aé", "€"},
		{"€", 2, "", ""},
		{"\xff\xfe", 5, "\ufffd", "\ufffd"},
		{"", 0, "", ""},
	}
	for _, tt := range tests {
		if got := Clip(tt.in, tt.n); got != tt.head {
			t.Errorf("Clip(%q, %d): got %q, want %q", tt.in, tt.n, got, tt.head)
		}
		if got := ClipTail(tt.in, tt.n); got != tt.tail {
			t.Errorf("ClipTail(%q, %d): got %q, want %q", tt.in, tt.n, got, tt.tail)
		}
	}
}

func TestClippedTextsFitAreValidAndStayAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.SampledFrom([]byte("a\xc3\xa9\xe2\x82\xac\xff\xf0\x9f\x98\x80"))).Draw(t, "s"))
		n := rapid.IntRange(0, 20).Draw(t, "n")
		for _, clip := range []func(string, int) string{Clip, ClipTail} {
			got := clip(s, n)
			if len(got) > n || !utf8.ValidString(got) || clip(got, n) != got {
				t.Fatalf("%q to %d: got %q", s, n, got)
			}
			if utf8.ValidString(s) && len(got) < min(len(s), n)-3 {
				t.Fatalf("%q to %d: got only %q", s, n, got)
			}
		}
	})
}

// hotEqualsCold fails when the fast way of reading the line gives another event than encoding/json.
func hotEqualsCold(t testing.TB, line []byte) (hot bool) {
	h, err := decodeHead(line)
	if err != nil {
		t.Fatal(err)
	}
	got, hot := h.decodeHot()
	if !hot {
		return false
	}
	body := append(append([]byte("{"), bytes.TrimPrefix(h.rest, []byte(","))...), '}')
	want, err := decodeEvent(h.name, body)
	if diff := cmp.Diff(got, want); diff != "" || err != nil {
		t.Fatalf("%s: %v (-hot +cold):\n%s", line, err, diff)
	}
	return true
}

func TestTheEventsOfALargeLogAreReadTheFastWay(t *testing.T) {
	for _, e := range []Event{
		AgentStarted{AttemptID: AttemptID{ItemID: "item_0", AgentID: "j/item_0/1", Attempt: 1}, Worker: 2},
		AgentCompleted{
			AttemptID: AttemptID{ItemID: "item_10", ItemIndex: 10, AgentID: "j/item_10/1", Attempt: 1},
			Worker:    2, DurationMS: Millis(time.Second),
		},
		AgentCompleted{
			AttemptID:  AttemptID{ItemID: "a"},
			DurationMS: Millis(12340 * time.Microsecond), ExitCode: 3, ItemOutput: ItemOutput{
				Output:     "done",
				OutputFile: "f", OutputCRC: "1a2b3c4d",
			},
		},
	} {
		if line := encodeAll(t, []Record{{Seq: 1, Time: start0, Event: e}}); !hotEqualsCold(t, line) {
			t.Errorf("%s was read the slow way", line)
		}
	}
}

func TestTheFastWayOfReadingEqualsTheSlowOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/_0-9]{0,20}`))
		number := rapid.OneOf(rapid.IntRange(0, 100), rapid.Int())
		e := AgentCompleted{
			AttemptID: AttemptID{
				ItemID: text.Draw(rt, "item"), ItemIndex: number.Draw(rt, "index"),
				AgentID: text.Draw(rt, "agent"), Attempt: number.Draw(rt, "attempt"),
			},
			Worker:     number.Draw(rt, "worker"),
			DurationMS: Millis(rapid.Int64().Draw(rt, "duration")), ExitCode: number.Draw(rt, "code"),
			ItemOutput: ItemOutput{
				Output: text.Draw(rt, "output"), OutputFile: text.Draw(rt, "file"),
				OutputCRC: text.Draw(rt, "sum"),
			},
		}
		s := AgentStarted{
			AttemptID: AttemptID{ItemID: e.ItemID, ItemIndex: e.ItemIndex, AgentID: e.AgentID, Attempt: e.Attempt},
			Worker:    e.Worker,
		}
		for _, e := range []Event{e, s} {
			r := Record{Seq: 1, Time: start0, JobID: "j", CorrelationID: "j/" + text.Draw(rt, "correlation"), Event: e}
			hotEqualsCold(t, encodeAll(t, []Record{r}))
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, r := range sampleRecords() {
		line, err := Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"type":"New","seq":3,"a":[{}],"time":"2026-11-20T16:15:30Z"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		first, err := Decode(line)
		if err != nil {
			return
		}
		hotEqualsCold(t, line)
		encoded, err := Encode(first)
		if err != nil {
			t.Fatalf("does not encode again: %v", err)
		}
		if bytes.Count(encoded, []byte("\n")) != 1 {
			t.Fatalf("not one line: %q", encoded)
		}
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("%q does not decode again: %v", encoded, err)
		}
		twice, err := Encode(again)
		if err != nil || !bytes.Equal(encoded, twice) {
			t.Fatalf("got %q %v, want %q", twice, err, encoded)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, e := range []Event{
		AgentCompleted{
			AttemptID: AttemptID{ItemID: "item_123456", AgentID: "j/item_123456/1", Attempt: 1},
			Worker:    3, DurationMS: 1234567,
		},
		AgentFailed{
			AttemptID: AttemptID{ItemID: "item_123456", AgentID: "j/item_123456/1", Attempt: 1},
			Worker:    3, DurationMS: 1234567, Error: "boom",
		},
	} {
		b.Run(TypeOf(e), func(b *testing.B) {
			line := encodeAll(b, []Record{{Seq: 1, Time: start0, JobID: "j", CorrelationID: "j/item_123456", Event: e}})
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
