package retry

import (
	"math/rand/v2"
	"testing"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

func TestRetryAfterIsReadInAllItsForms(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		after After
		texts []string
		want  time.Duration
		none  bool
	}{
		"seconds":                      {texts: []string{"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 120\r\n\r\n"}, want: 2 * time.Minute},
		"in small letters, of curl -v": {texts: []string{"", "< HTTP/2 429\n< retry-after: 7\n"}, want: 7 * time.Second},
		"zero":                         {texts: []string{"Retry-After: 0"}, want: 0},
		"a fraction":                   {texts: []string{"Retry-After: 0.5"}, want: 500 * time.Millisecond},
		"the last of several":          {texts: []string{"Retry-After: 9\n\nRetry-After: 3"}, want: 3 * time.Second},
		"a date":                       {texts: []string{"Retry-After: Fri, 20 Nov 2026 12:00:30 GMT"}, want: 30 * time.Second},
		"an old date":                  {texts: []string{"Retry-After: Friday, 20-Nov-26 12:01:00 GMT"}, want: time.Minute},
		"a date of asctime":            {texts: []string{"Retry-After: Fri Nov 20 12:00:05 2026"}, want: 5 * time.Second},
		"a date with a zone":           {texts: []string{"Retry-After: 2026-11-20T13:00:05+01:00"}, want: 5 * time.Second},
		"a date that is over":          {texts: []string{"Retry-After: Fri, 20 Nov 2026 11:00:00 GMT"}, want: 0},
		"a server an hour ahead":       {texts: []string{"Date: Fri, 20 Nov 2026 13:00:00 GMT\nRetry-After: Fri, 20 Nov 2026 13:00:10 GMT"}, want: 10 * time.Second},
		"a server an hour behind":      {texts: []string{"Date: Fri, 20 Nov 2026 11:00:00 GMT\nRetry-After: Fri, 20 Nov 2026 11:00:10 GMT"}, want: 10 * time.Second},
		"beyond the longest":           {texts: []string{"Retry-After: 999999999"}, want: time.Hour},
		"beyond every number":          {texts: []string{"Retry-After: 1e300"}, want: time.Hour},
		"beyond a longest of its own":  {after: After{Max: time.Minute}, texts: []string{"Retry-After: 61"}, want: time.Minute},
		"a Unix time by a pattern":     {after: After{Pattern: `(?i)x-ratelimit-reset: *(\d+)`}, texts: []string{"X-RateLimit-Reset: 1795176010"}, want: 10 * time.Second},
		"in milliseconds":              {after: After{Pattern: `reset_ms=(\d+)`}, texts: []string{"reset_ms=1795176010000"}, want: 10 * time.Second},
		"words by a pattern":           {after: After{Pattern: `try again in (\S+)`}, texts: []string{"try again in 1m30s"}, want: 90 * time.Second},
		"a pattern without a group":    {after: After{Pattern: `\d+s`}, texts: []string{"wait 20s please"}, want: 20 * time.Second},
		"the file after the output":    {texts: []string{"Retry-After: 5", "", "Retry-After: 6"}, want: 6 * time.Second},
		"nothing":                      {texts: []string{"HTTP/1.1 200 OK"}, none: true},
		"negative":                     {texts: []string{"Retry-After: -5"}, none: true},
		"no number":                    {texts: []string{"Retry-After: NaN"}, none: true},
		"words":                        {texts: []string{"Retry-After: soon"}, none: true},
		"in a sentence":                {texts: []string{"please mind Retry-After: 5"}, none: true},
	} {
		got, ok := c.after.Asked(at, c.texts...)
		if got != c.want || ok == c.none {
			t.Errorf("%s: got %s, %v, want %s", name, got, ok, c.want)
		}
	}
}

func TestWhatIsAskedForDelaysTheNextTry(t *testing.T) {
	halfMinute := duration.Millis(30 * time.Second)
	asks := Failure{ExitCode: 22, Stdout: "Retry-After: 30", Message: "HTTP 429"}
	p := Default()
	if d := p.Next(State{}, asks, noon, nil); d.Delay != time.Second || d.State.Asked != 0 {
		t.Errorf("without the key: got %s, want the backoff alone", d.Delay)
	}
	p.RetryAfter = &After{}
	if d := p.Next(State{}, asks, noon, nil); d.Delay != 30*time.Second || d.State.Asked != halfMinute || d.State.Waited != halfMinute {
		t.Errorf("got %s, asked for %s, want 30s", d.Delay, d.State.Asked)
	}
	p.InitialDelay, p.MaxDelay = time.Minute, time.Minute
	if d := p.Next(State{}, asks, noon, nil); d.Delay != time.Minute {
		t.Errorf("with a longer backoff: got %s, want that", d.Delay)
	}
	p.Jitter = FullJitter
	seen := map[time.Duration]bool{}
	for seed := range uint64(20) {
		d := p.Next(State{}, asks, noon, rand.New(rand.NewPCG(seed, 1)))
		if d.Delay < 30*time.Second || d.Delay > 90*time.Second {
			t.Errorf("with a jitter: got %s, want what is asked for and the backoff", d.Delay)
		}
		seen[d.Delay] = true
	}
	if len(seen) < 10 {
		t.Errorf("with a jitter: got %d different delays of 20", len(seen))
	}
	p.Budget = time.Second
	if d := p.Next(State{}, asks, noon, rand.New(rand.NewPCG(1, 1))); d.Retry || d.Reason != Budget {
		t.Errorf("with a budget that is shorter: got %+v", d)
	}
}

func FuzzAsked(f *testing.F) {
	f.Add("Retry-After: 120", "")
	f.Add("Date: x\nRetry-After: Fri, 20 Nov 2026 12:00:30 GMT", "")
	f.Add("reset 1795176010", `(\d+)`)
	f.Fuzz(func(t *testing.T, text, pattern string) {
		a := After{Pattern: pattern, Max: time.Minute}
		var found check.Findings
		if a.Check(&found); len(found) > 0 {
			return
		}
		if d, ok := a.Asked(noon, text); d < 0 || d > time.Minute || !ok && d != 0 {
			t.Errorf("%q by %q: got %s, %v", text, pattern, d, ok)
		}
	})
}
