package retry

import (
	"cmp"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

// After is how a failed try says how long the service wants its next call to wait: as the header Retry-After
// of HTTP in what the command printed, as by curl -i, or as the text that a pattern finds.
type After struct {
	// regular expression (RE2) that matches the wait, in its first group if it has one: seconds, a duration, a
	// date or a Unix time; default the header `Retry-After`
	Pattern string `yaml:"pattern" text:"filled"`

	// file to search in addition to the output, such as that of `curl -D`; only for steps. A relative path
	// starts at the step's working directory
	File string `yaml:"file" text:"filled"`

	// maximum wait; default 1h
	Max time.Duration `yaml:"max" unit:"seconds"`
}

const defaultMaxAfter = time.Hour

// Most returns the longest wait.
func (a After) Most() time.Duration { return cmp.Or(a.Max, defaultMaxAfter) }

// Check finds what is wrong with a as a block of a workflow file.
func (a After) Check(found *check.Findings) {
	err := CheckPattern(a.Pattern)
	found.Require(err == nil, "pattern", "retry_after: %v", err)
}

// Asked returns how long a failed try asks to wait, at most Most. It reports false if none of the texts says
// so. Of several times the last counts, in the last text that has one. A date counts from the header Date of
// the same text, if there is one, so that it does not matter whether the clocks of both sides agree; else
// from now.
func (a After) Asked(now time.Time, texts ...string) (wait time.Duration, ok bool) {
	pattern := cmp.Or(a.Pattern, header("Retry-After"))
	for _, text := range texts {
		for _, value := range findAll(pattern, text) {
			if d, is := waitOf(value, text, now); is {
				wait, ok = min(max(d, 0), a.Most()), true
			}
		}
	}
	return wait, ok
}

// header returns the pattern of a header of HTTP, in any case of letters, also behind the < of curl -v.
func header(name string) string { return `(?im)^[ \t]*<?[ \t]*` + name + `[ \t]*:[ \t]*(.*?)[ \t\r]*$` }

// findAll returns what a pattern finds in a text, in order: its first group, or all of the match if it has none.
func findAll(pattern, text string) []string {
	re, err := regexp.Compile(pattern)
	if err != nil { // which Check has refused
		return nil
	}
	return check.Each(re.FindAllStringSubmatch(text, -1), func(m []string) string { return m[min(1, len(m)-1)] })
}

// firstUnixTime is the smallest number that is a time and no number of seconds to wait, which would be 31 years.
const firstUnixTime = 1_000_000_000

// waitOf reads seconds, a duration such as 1m30s, a date, or a Unix time, and returns how long that is from now on. It
// is negative for a time that has passed. GitHub, among others, sends a Unix time (X-RateLimit-Reset).
func waitOf(value, text string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		switch {
		case !(seconds >= 0): // negative, or NaN
			return 0, false
		case seconds >= 1000*firstUnixTime: // in milliseconds, or nonsense, which is bounded
			return sinceServer(time.UnixMilli(int64(min(seconds, 1e15))), text, now), true
		case seconds >= firstUnixTime:
			return sinceServer(time.Unix(int64(seconds), 0), text, now), true
		}
		return time.Duration(seconds * float64(time.Second)), true
	}
	if d, err := duration.Parse(value); err == nil {
		return d, true
	}
	at, ok := date(value)
	if !ok {
		return 0, false
	}
	return sinceServer(at, text, now), true
}

// sinceServer returns the time until at by the clock of who has written text, if that says what it is, else by ours.
func sinceServer(at time.Time, text string, now time.Time) time.Duration {
	dates := findAll(header("Date"), text)
	if len(dates) > 0 {
		if its, ok := date(dates[len(dates)-1]); ok {
			return at.Sub(its)
		}
	}
	return at.Sub(now)
}

// date reads a date in one of the forms of HTTP, or as in RFC 3339.
func date(text string) (time.Time, bool) {
	at, err := http.ParseTime(text)
	if err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	return at, err == nil
}
