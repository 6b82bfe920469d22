package view

import (
	"strings"
	"time"

	"prodigy/internal/duration"
)

// Rough rounds a length of time as people would say it.
func Rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1s"
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	case d < 10*time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Round(time.Hour)
	}
	text := duration.Format(d)
	if d >= 10*time.Minute {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= 10*time.Hour {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
