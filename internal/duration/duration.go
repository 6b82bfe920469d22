// Package duration parses and prints durations as people write them in workflow files, waits for one ([Sleep]), and
// keeps how many were of which length ([Histogram]).
package duration

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units are the units of Parse. A unit comes before its own prefixes.
var units = []struct {
	name string
	size time.Duration
}{
	{"ns", time.Nanosecond},
	{"us", time.Microsecond},
	{"ms", time.Millisecond},
	{"min", time.Minute},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", 24 * time.Hour},
}

// Parse reads one or more "<integer><unit>" pairs, as in "500ms" or "1h30m"; units are ns us ms s m min h d.
// Anything else, a negative number, a fraction or an overflow is an error that shows the valid form.
func Parse(s string) (time.Duration, error) {
	if s == "" {
		return 0, invalid(s, "")
	}
	var total time.Duration
	for rest := s; rest != ""; {
		n, unit, tail, ok := pair(rest)
		if !ok {
			return 0, invalid(s, "")
		}
		if n > uint64(math.MaxInt64-total)/uint64(unit) {
			return 0, invalid(s, "the maximum is 292 years; ")
		}
		total += time.Duration(n) * unit
		rest = tail
	}
	return total, nil
}

// pair cuts one number and its unit off s. A number too large for uint64 becomes the largest one.
func pair(s string) (n uint64, unit time.Duration, rest string, ok bool) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, _ = strconv.ParseUint(s[:digits], 10, 64)
	for _, u := range units {
		if rest, ok := strings.CutPrefix(s[digits:], u.name); ok {
			return n, u.size, rest, digits > 0
		}
	}
	return 0, 0, "", false
}

func invalid(s, why string) error {
	if guess := meant(s); guess != "" {
		return fmt.Errorf("invalid duration %.40q (did you mean %s?): use a number and a unit, such as 500ms, 30s or 1h30m", s, guess)
	}
	return fmt.Errorf("invalid duration %.40q: %suse a number and a unit, such as 500ms, 30s or 1h30m", s, why)
}

// spelled are written-out units, each with its short form. A word comes before its own prefixes.
const spelled = `milliseconds ms millisecond ms seconds s second s secs s sec s
	minutes m minute m mins m hours h hour h hrs h hr h days d day d`

// meant returns the valid form of a duration with written-out units, blanks or a fraction, or "".
func meant(s string) string {
	guess := strings.ToLower(strings.Join(strings.Fields(s), ""))
	guess = strings.NewReplacer(strings.Fields(spelled)...).Replace(guess)
	if d, err := time.ParseDuration(guess); err == nil && strings.Contains(guess, ".") {
		guess = Literal(d)
	}
	if guess == "" || guess == s {
		return ""
	}
	if _, err := Parse(guess); err != nil {
		return ""
	}
	return guess
}

// Format prints d like "1m12.3s": at most one decimal in seconds, and milliseconds below one second.
// What is shorter than a millisecond is printed in us or ns, so that nothing but zero looks like zero.
func Format(d time.Duration) string {
	for _, p := range precisions {
		if d.Abs() >= p.from {
			d = d.Round(p.to)
			break
		}
	}
	return written(d)
}

// precisions holds what Format rounds to, by the length of the duration.
var precisions = []struct{ from, to time.Duration }{
	{time.Second, 100 * time.Millisecond},
	{time.Millisecond, time.Millisecond},
	{time.Microsecond, time.Microsecond},
}

// Seconds prints d as Format does, rounded to whole seconds.
func Seconds[D ~int64](d D) string { return Format(time.Duration(d).Round(time.Second)) }

// Milliseconds prints d as Format does, rounded to whole milliseconds.
func Milliseconds[D ~int64](d D) string { return Format(time.Duration(d).Round(time.Millisecond)) }

// Plus returns a + b, or the longest duration if that is longer.
func Plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Times returns n times d, or the longest duration if that is longer.
func Times(d time.Duration, n int) time.Duration {
	if d > 0 && time.Duration(n) > math.MaxInt64/d {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}

// Exact formats d to the millisecond, and exactly below one millisecond.
func Exact(d time.Duration) string {
	if d.Abs() >= time.Millisecond {
		d = d.Round(time.Millisecond)
	}
	return written(d)
}

// Literal formats d as Parse reads it, in whole numbers.
func Literal(d time.Duration) string {
	text := written(d)
	if !strings.Contains(text, ".") {
		return text
	}
	for _, u := range units[:3] {
		if d%u.size == 0 {
			text = fmt.Sprintf("%d%s", d/u.size, u.name)
		}
	}
	return text
}

// written formats d as in a workflow file, without trailing units that are zero.
func written(d time.Duration) string {
	text := strings.Replace(d.String(), "µ", "u", 1)
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}
