package cli

import (
	"strings"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/term"
)

const laterLine = `{"seq":7,"time":"2026-11-20T16:15:30.123456Z","job_id":"j","correlation_id":"j/item_0","type":"Later",` +
	`"item_id":"item_0","agent_id":"j/item_0/1","note":"two words","n":1.50,"deep":{"b":1,"a":[2]}}` + "\n"

func TestEventsArePrintedInEveryForm(t *testing.T) {
	lines := func(yield func([]byte, error) bool) {
		for range 2 {
			if !yield([]byte(laterLine), nil) {
				return
			}
		}
		yield(nil, events.ErrTorn)
	}
	line := strings.TrimSpace(laterLine)
	for _, c := range []struct {
		format term.Format
		want   string
	}{
		{term.JSON, "[\n" + line + ",\n" + line + "\n]\n"},
		{term.JSONL, line + "\n" + line + "\n"},
		{term.CSV, "seq,time,job_id,correlation_id,type,item_id,agent_id,fields\n" +
			strings.Repeat(`7,2026-11-20T16:15:30.123456Z,j,j/item_0,Later,item_0,j/item_0/1,`+
				`"{""note"":""two words"",""n"":1.50,""deep"":{""b"":1,""a"":[2]}}"`+"\n", 2)},
	} {
		var out, diag strings.Builder
		if err := (&console{format: c.format, err: &diag}).printEvents(&out, nil, lines); err != nil {
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
