package view

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/term"
)

const circuitLine = `{"seq":7,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j/item_0","type":"Later",` +
	`"item_id":"item_0","agent_id":"j/item_0/1","note":"two words","n":1.50,"deep":{"b":1,"a":[2]}}` + "\n"

func TestEventLineShowsFieldsOfEventsItDoesNotKnow(t *testing.T) {
	var b strings.Builder
	if err := PrintEvent(&b, []byte(circuitLine), term.Look{}, nil); err != nil {
		t.Fatal(err)
	}
	want := `Later               item_id=item_0 note="two words" n=1.50 deep={"b":1,"a":[2]}` + "\n"
	if got := b.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got  %q\nwant ...%q", got, want)
	}
}

func TestEventLineSaysWhatAPersonWantsToKnow(t *testing.T) {
	for event, want := range map[string]string{
		`"type":"AgentFailed","item_id":"item_3","item_index":3,"agent_id":"j/item_3/1","attempt":1,"worker":0,"duration_ms":1234.5,` +
			`"exit_code":7,"step":"shell 1","error":"exit status 7","error_type":"exit_code","error_signature":"exit status N",` +
			`"stdout_tail":"working\\n\\n","stderr_tail":"one\\ncannot do \\"three\\"\\n","action":"retry","delay_ms":2000,` +
			`"retry":{"attempts":1,"waited_ms":2000,"previous_ms":0}`: `AgentFailed         item_id=item_3 attempt=1 worker=0 duration=1.2s exit_code=7 ` +
			`step="shell 1" error="exit status 7" error_type=exit_code stderr="cannot do "three"" action=retry delay=2s`,
		`"type":"StepRetrying","item_id":"item_3","step":"shell","attempt":1,"error_type":"timeout","error":"a\\r\\nb",` +
			`"computed_delay_ms":10,"delay_ms":12.5,"waited_ms":12.5`: `StepRetrying        item_id=item_3 step=shell attempt=1 error_type=timeout error="a | b" delay=13ms`,
		`"type":"JobCompleted","duration_ms":61000,"metrics":{"total_items":6,"successful":5,"failed":1,"skipped":0,"rejected":0,` +
			`"failure_rate":0.1666,"error_types":{"timeout":1},"failure_patterns":[]},"reason":""`: `JobCompleted        duration=1m1s items=6 failed=1 successful=5 timeout=1`,
		`"type":"ErrorBatch","size":2,"errors":[{"item_id":"a","error_type":"timeout","error":"x"},{"item_id":"b","error_type":"network","error":"y"}]`: `ErrorBatch          size=2 errors=[{"item_id":"a","error_type":"timeout","error":"x"},{"item_id":"b","error_type":"network","error":"y"}]`,
		`"type":"StepFailed","item_id":"i","error":"\\u001b[31mred"`:                                                                                    `StepFailed          item_id=i error="` + "\ufffd" + `[31mred"`,
	} {
		line := `{"seq":7,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j",` + strings.ReplaceAll(event, `\\`, `\`) + `}`
		var b strings.Builder
		if err := PrintEvent(&b, []byte(line), term.Look{}, nil); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.HasSuffix(got, "  "+want+"\n") {
			t.Errorf("got  %s\nwant ... %s", got, want)
		}
	}
}

func TestAnEventLineNamesItsItem(t *testing.T) {
	line := `{"seq":7,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j/item_3","type":"AgentStarted","item_id":"item_3","item_index":3,` +
		`"agent_id":"j/item_3/1","attempt":1,"worker":2}`
	var b strings.Builder
	label := func(index int) string { return map[int]string{3: "src/a b\x1b.go"}[index] }
	if err := PrintEvent(&b, []byte(line), term.Look{}, label); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "  AgentStarted        item_id=item_3 label=\"src/a b\ufffd.go\" attempt=1 worker=2\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got  %q\nwant ... %q", got, want)
	}
}

func TestOnATerminalAnEventTakesOneLine(t *testing.T) {
	var b strings.Builder
	line := `{"seq":7,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j","type":"CircuitOpen","scope":"workflow",` +
		`"consecutive_failures":5,"until":"2026-11-20T16:16:30Z"}` + "\n"
	if err := PrintEvent(&b, []byte(line), term.Look{Colours: true, Width: 60}, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if term.Width(text) != 60 || !strings.Contains(text, "…") || !strings.HasPrefix(text, "\xff[33m") {
		t.Errorf("got %q", b.String())
	}
}

// fieldsByDecoder is fieldsOf as encoding/json would have it.
func fieldsByDecoder(t *testing.T, object []byte) []eventField {
	fields := []eventField{}
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		f := eventField{name: key.(string)}
		if err := d.Decode(&f.value); err != nil {
			t.Fatal(err)
		}
		fields = append(fields, f)
	}
	return fields
}

func FuzzFieldsAreThoseOfTheStandardLibrary(f *testing.F) {
	for _, text := range []string{
		circuitLine, "{}", " { } \n", `{"a":"\"","b\n":[1,{"c":"]}"}, -1.5e3 ],"":null,"é":"\u00e9","t":true}`, `{"a" : [ ] , "b" : { } , "c" : " , " }`,
		"[1]", "3", "", "{", `{"a":1`, `{"a"`, `{"a":1}}`, `{"a":1} 2`, `{} {}`, `{"a":{"a":"\\"}}`, "null",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		fields, err := fieldsOf(object)
		want := json.Valid(object) && strings.HasPrefix(strings.TrimLeft(string(object), " \t\r\n"), "{")
		if (err == nil) != want {
			t.Fatalf("%q: got %v", object, err)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(fields, fieldsByDecoder(t, object), cmp.AllowUnexported(eventField{})); diff != "" {
			t.Fatalf("%q (-got +want):\n%s", object, diff)
		}
		for _, f := range fields {
			var s string
			if json.Unmarshal(f.value, &s) != nil {
				s = string(f.value) // no text, and not null
			}
			if f.text() != s {
				t.Fatalf("%s: got %q, want %q", f.value, f.text(), s)
			}
		}
	})
}

func BenchmarkPrintEvent(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := PrintEvent(io.Discard, []byte(circuitLine), term.Look{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
