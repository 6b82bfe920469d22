package duration

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseReadsNumbersWithUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s":                    0,
		"1s":                    time.Second,
		"500ms":                 500 * time.Millisecond,
		"100ms":                 100 * time.Millisecond,
		"2m":                    2 * time.Minute,
		"2min":                  2 * time.Minute,
		"1h30m":                 90 * time.Minute,
		"2m30s":                 150 * time.Second,
		"300s":                  5 * time.Minute,
		"30d":                   30 * 24 * time.Hour,
		"7us":                   7 * time.Microsecond,
		"7ns":                   7,
		"1d2h3min4s5ms6us7ns":   24*time.Hour + 2*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond + 6*time.Microsecond + 7,
		"1s1s":                  2 * time.Second,
		"007s":                  7 * time.Second,
		"9223372036854775807ns": math.MaxInt64,
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q): got %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestParseRefusesTheRestAndShowsTheValidForm(t *testing.T) {
	for _, text := range []string{
		"", "1 second", "2 minutes", "500", "-1s", "+1s", "1.5s", "1s ", " 1s", "s", "1S", "1sec", "1w", "1h30", "0", "１s",
		"9223372036854775808ns", "99999999999999999999s", "106752d", "292y", "9223372036s1s",
	} {
		got, err := Parse(text)
		if err == nil {
			t.Errorf("Parse(%q): got %v, want an error", text, got)
			continue
		}
		if !strings.Contains(err.Error(), "500ms, 30s or 1h30m") {
			t.Errorf("Parse(%q): got %q, want an error that shows the valid form", text, err)
		}
	}
}

func TestParseSaysWhatItWants(t *testing.T) {
	_, err := Parse("500")
	if want := `invalid duration "500": use a number and a unit, such as 500ms, 30s or 1h30m`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestFormatReadsLikeSpeech(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s":       0,
		"1m12.3s":  72*time.Second + 345*time.Millisecond,
		"250ms":    250 * time.Millisecond,
		"2h3m":     2*time.Hour + 3*time.Minute,
		"2h":       2 * time.Hour,
		"10m":      10 * time.Minute,
		"1h10m":    70 * time.Minute,
		"1h0m0.1s": time.Hour + 100*time.Millisecond,
		"30s":      30 * time.Second,
		"1.5s":     1500 * time.Millisecond,
		"2ms":      1600 * time.Microsecond,
		"1s":       999*time.Millisecond + 700*time.Microsecond,
		"1m":       59*time.Second + 980*time.Millisecond,
		"500us":    500 * time.Microsecond,
		"12us":     12*time.Microsecond + 300,
		"7ns":      7,
		"-1m12.3s": -72*time.Second - 345*time.Millisecond,
	} {
		if got := Format(d); got != want {
			t.Errorf("Format(%d ns): got %q, want %q", d, got, want)
		}
	}
}

func TestExactKeepsMilliseconds(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s":       0,
		"500us":    500 * time.Microsecond,
		"2.25s":    2250 * time.Millisecond,
		"333ms":    time.Second / 3,
		"1h0m1.5s": time.Hour + 1500*time.Millisecond,
		"2m31s":    151 * time.Second,
		"1h":       time.Hour,
	} {
		if got := Exact(d); got != want {
			t.Errorf("Exact(%d ns): got %q, want %q", d, got, want)
		}
	}
}

func TestParseReadsWhatFormatPrintsOfWholeSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(0, 1<<32).Draw(t, "seconds")) * time.Second
		if got, err := Parse(Format(want)); err != nil || got != want {
			t.Fatalf("Parse(%q): got %v, %v, want %v", Format(want), got, err, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0s", "1h30m", "500", "1.5s", "-1s", "9223372036854775808ns", "1mins", "1min1ms"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Errorf("Parse(%q): got %v, want no negative duration", text, d)
		}
		double, err := Parse(text + text)
		if fits := d <= math.MaxInt64/2; fits != (err == nil) || fits && double != 2*d {
			t.Errorf("Parse(%q twice): got %v, %v, want twice %v", text, double, err, d)
		}
	})
}

func TestADurationInWordsIsSuggestedInUnits(t *testing.T) {
	for text, want := range map[string]string{
		"1 second": "1s", "2 minutes": "2m", "1 hour 30 min": "1h30min", "500 ms": "500ms", "3 Days": "3d", "90 Seconds": "90s",
		"10 milliseconds": "10ms", "500": "", "-1s": "", "1.5s": "1500ms", "0.25 minutes": "15s", "0.1us": "100ns", "": "", "soon": "", "5 parsecs": "",
	} {
		_, err := Parse(text)
		if err == nil {
			t.Fatalf("Parse(%q): got no error", text)
		}
		_, rest, _ := strings.Cut(err.Error(), "did you mean ")
		if got, _, _ := strings.Cut(rest, "?"); got != want {
			t.Errorf("Parse(%q): got suggestion %q, want %q", text, got, want)
		}
	}
}
