package ai

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // CLIs name zones, and not every machine has the list of them
)

// ResetSource says what the time of a reset is known by.
type ResetSource string

const (
	ResetField ResetSource = "field" // a field with the time
	ResetText  ResetSource = "text"  // words
)

// reset returns when the limit ends that a rule is about.
func (r *Reading) reset(rule *Rule, now time.Time) (time.Time, ResetSource) {
	if rule.Outcome != Quota {
		return time.Time{}, ""
	}
	if at, err := strconv.ParseFloat(r.named(rule.ResetAt), 64); err == nil {
		if t, ok := epoch(at, now); ok {
			return t, ResetField
		}
	}
	if d := seconds(r.named(rule.ResetAfter), time.Second); d > 0 {
		return now.Add(d), ResetField
	}
	if t, ok := ParseReset(r.named(rule.ResetText), now); ok {
		return t, ResetText
	}
	return time.Time{}, ""
}

// epoch reads seconds, or milliseconds, since 1970. A time that is far from now is none.
func epoch(at float64, now time.Time) (time.Time, bool) {
	if at > 1e11 {
		at /= 1000
	}
	if math.IsNaN(at) || at < 1e9 || at > 1e11 {
		return time.Time{}, false
	}
	t := time.Unix(int64(at), 0)
	return t, t.Sub(now).Abs() <= maxWait
}

// past is how long ago a time of day may be to be taken for one that has just been, and not for that of tomorrow.
const past = 30 * time.Minute

// ParseReset returns the time that a CLI names in words: "resets 3pm (Europe/Lisbon)", "try again at Nov 25th,
// 2026 8:42 AM", "retry in 10800s", "in 2h 5m", "limit reached|1795336487". A time of day is the next one in
// the zone that is named, else in that of now.
func ParseReset(text string, now time.Time) (at time.Time, ok bool) {
	text = strings.NewReplacer("\u202f", " ", "\u00a0", " ").Replace(text)
	if _, after, ok := strings.Cut(text, "|"); ok {
		if at, err := strconv.ParseFloat(strings.TrimSpace(after), 64); err == nil {
			return epoch(at, now)
		}
	}
	if m := regexp.MustCompile(
		`(?i)\b(?:resets?|retry|again|available)(?: \w+){0,2}? in ((?:\d+(?:\.\d+)? ?[a-z]+[, ]*(?:and )?)+)`,
	).FindStringSubmatch(text); m != nil {
		if d, ok := span(m[1]); ok {
			return now.Add(d), true
		}
	}
	const months = `jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec`
	clock := regexp.MustCompile(`(?i)\b(?:resets?|again|until|available)(?: (?:at|on|after))? ` +
		`(?:(?:on )?(` + months + `)[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?,?(?: (\d{4}),?)?(?: at)? )?` +
		`(\d{1,2})(?::(\d{2}))? ?([ap]\.?m\.?)?(?:\W*\(?\s*([A-Z][A-Za-z]*(?:/[A-Za-z_+-]+\d*)*)\)?)?`)
	m := clock.FindStringSubmatch(text)
	if m == nil || m[5] == "" && m[6] == "" {
		return at, false
	}
	hour, _ := strconv.Atoi(m[4])
	minute, _ := strconv.Atoi("0" + m[5])
	if half := strings.ToLower(m[6]); half != "" {
		if hour < 1 || hour > 12 {
			return at, false
		}
		hour %= 12
		if half[0] == 'p' {
			hour += 12
		}
	}
	if hour > 23 || minute > 59 {
		return at, false
	}
	local := now
	if m[7] != "" {
		if zone, err := time.LoadLocation(m[7]); err == nil {
			local = now.In(zone)
		}
	}
	on := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, hour, minute, 0, 0, local.Location())
	}
	year, month, day := local.Date()
	if m[1] == "" {
		t := on(year, month, day)
		switch since := local.Sub(t); {
		case since > past:
			t = on(year, month, day+1)
		case since < past-24*time.Hour: // just before midnight
			t = on(year, month, day-1)
		}
		return t, true
	}
	month = time.Month(strings.Index(months, strings.ToLower(m[1]))/4 + 1)
	day, _ = strconv.Atoi(m[2])
	if day < 1 || day > 31 {
		return at, false
	}
	if m[3] != "" {
		year, _ = strconv.Atoi(m[3])
	}
	t := on(year, month, day)
	if m[3] == "" && local.Sub(t) > 180*24*time.Hour { // of next year
		t = on(year+1, month, day)
	}
	return t, t.Sub(now).Abs() <= maxWait
}

// span reads "2h 5m", "3 days 2 hours", "10800s".
func span(text string) (time.Duration, bool) {
	var total time.Duration
	for _, m := range regexp.MustCompile(`(\d+(?:\.\d+)?) ?([a-zA-Z]+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, false
		}
		unit := time.Duration(0)
		switch u := strings.ToLower(m[2]); {
		case u == "and":
			continue
		case u == "ms" || strings.HasPrefix(u, "milli"):
			unit = time.Millisecond
		case u[0] == 's':
			unit = time.Second
		case u == "m" || strings.HasPrefix(u, "min"):
			unit = time.Minute
		case u[0] == 'h':
			unit = time.Hour
		case u[0] == 'd':
			unit = 24 * time.Hour
		case u[0] == 'w':
			unit = 7 * 24 * time.Hour
		default:
			return total, total > 0
		}
		if n > float64(maxWait/unit) {
			return 0, false
		}
		total += time.Duration(n * float64(unit))
		if total > maxWait {
			return 0, false
		}
	}
	return total, total > 0
}
