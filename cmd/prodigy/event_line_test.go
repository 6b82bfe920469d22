package main

import (
	"strings"
	"testing"

	"prodigy/internal/events"
)

const circuitLine = `{"seq":7,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j/item_0","type":"Later",` +
	`"item_id":"item_0","agent_id":"j/item_0/1","note":"two words","n":1.50,"deep":{"b":1,"a":[2]}}` + "\n"

func TestEventLineShowsFieldsOfEventsItDoesNotKnow(t *testing.T) {
	var b strings.Builder
	if err := printEvent(&b, []byte(circuitLine)); err != nil {
		t.Fatal(err)
	}
	want := `Later               item_id=item_0 agent_id=j/item_0/1 note="two words" n=1.50 deep={"b":1,"a":[2]}` + "\n"
	if got := b.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got  %q\nwant ...%q", got, want)
	}
}

func TestEventsArePrintedInEveryForm(t *testing.T) {
	lines := func(yield func([]byte, error) bool) {
		for range 2 {
			if !yield([]byte(circuitLine), nil) {
				return
			}
		}
		yield(nil, events.ErrTorn)
	}
	line := strings.TrimSpace(circuitLine)
	for _, c := range []struct {
		format format
		want   string
	}{
		{asJSON, "[\n" + line + "\n,\n" + line + "\n]\n"},
		{asJSONL, line + "\n" + line + "\n"},
		{asCSV, "seq,time,job_id,correlation_id,type,item_id,agent_id,fields\n" +
			strings.Repeat(`7,2026-11-20T16:15:30.123456Z,j,j/item_0,Later,item_0,j/item_0/1,`+
				`"{""note"":""two words"",""n"":1.50,""deep"":{""b"":1,""a"":[2]}}"`+"\n", 2)},
	} {
		var out, diag strings.Builder
		if err := printEvents(&out, &diag, c.format, lines); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.format, &out, c.want)
		}
		if !strings.Contains(diag.String(), "incomplete") {
			t.Errorf("%s: the torn line is not told: %q", c.format, &diag)
		}
	}
}
