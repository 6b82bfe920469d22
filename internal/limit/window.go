package limit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata"

	"prodigy/internal/check"
)

// Window is a time of each day, by the clock of a zone. It may go over midnight. Where a clock is set, it is
// as long as the clock says: from 01:30 to 03:30 is an hour in one night of a year, and three in another.
type Window struct {
	From, To time.Duration // since midnight; To is at most 24h, and before From when the window goes over midnight
	Zone     *time.Location
	Text     string // as it is written
}

// ReadText reads a window such as "22:00-06:00 Europe/Berlin". Without a zone it is that of this machine.
func (w *Window) ReadText(text string) error {
	span, zone, _ := strings.Cut(strings.TrimSpace(text), " ")
	from, to, ok := strings.Cut(span, "-")
	begin, okFrom := clock(from)
	end, okTo := clock(to)
	switch {
	case !ok || !okFrom || !okTo || begin == 24*time.Hour:
		return fmt.Errorf("invalid window %q: use START-END and an optional time zone, as in 22:00-06:00 Europe/Berlin", text)
	case begin == end:
		return fmt.Errorf("window %q is empty: for the whole day use 00:00-24:00", text)
	}
	at := time.Local
	if zone = strings.TrimSpace(zone); zone != "" {
		var err error
		at, err = time.LoadLocation(zone)
		if err != nil || zone == "Local" {
			return fmt.Errorf("unknown time zone %q: use a name such as Europe/Berlin or UTC", zone)
		}
	}
	*w = Window{begin, end, at, strings.TrimSpace(text)}
	return nil
}

// clock reads hours and minutes, as in 06:00.
func clock(text string) (time.Duration, bool) {
	hours, minutes, ok := strings.Cut(text, ":")
	h, err := strconv.ParseUint(hours, 10, 8)
	m, err2 := strconv.ParseUint(minutes, 10, 8)
	if !ok || err != nil || err2 != nil || len(hours) != 2 || len(minutes) != 2 || h > 24 || m > 59 || h == 24 &&
		m > 0 {
		return 0, false
	}
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute, true
}

// on returns when the window begins and ends that begins on the day of t.
func (w Window) on(t time.Time) (from, to time.Time) {
	y, m, d := t.Date()
	at := func(d int, since time.Duration) time.Time {
		return time.Date(y, m, d, int(since/time.Hour), int(since%time.Hour/time.Minute), 0, 0, w.Zone)
	}
	end := d
	if w.To <= w.From {
		end++
	}
	return other(at(d, w.From), -1), other(at(end, w.To), 1)
}

// other returns the other time at which the clock shows the same as at t, if it is before or after it, as
// sign says: where a clock is set back, a time comes twice, and a window has both.
func other(t time.Time, sign time.Duration) time.Time {
	const layout = "2006-01-02 15:04"
	for _, d := range []time.Duration{30 * time.Minute, time.Hour} {
		if same := t.Add(sign * d); same.Format(layout) == t.Format(layout) {
			return same
		}
	}
	return t
}

// Windows are the times in which something may start. Without any it always may.
type Windows []Window

// At returns whether now is in one of the windows, and when that changes; never within a week is a week from now.
func (ws Windows) At(now time.Time) (open bool, until time.Time) {
	latest := now.AddDate(0, 0, 7)
	if len(ws) == 0 {
		return true, latest
	}
	type span struct{ from, to time.Time }
	var spans []span
	for _, w := range ws {
		today := now.In(w.Zone)
		for day := -2; day <= 8; day++ {
			from, to := w.on(today.AddDate(0, 0, day))
			if to.After(from) && to.After(now) { // a window in an hour that is left out has no length
				spans = append(spans, span{from, to})
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	until = now
	for _, s := range spans {
		switch {
		case !s.from.After(until):
			open = true
			if s.to.After(until) {
				until = s.to
			}
		case open:
			return true, until
		default:
			return false, s.from
		}
		if until.After(latest) {
			return true, latest
		}
	}
	return open, until
}

// String returns the windows as they are written.
func (ws Windows) String() string {
	return strings.Join(check.Each(ws, func(w Window) string { return w.Text }), ", ")
}
