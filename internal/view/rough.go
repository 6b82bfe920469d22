package view

import (
	"fmt"
	"time"

	"prodigy/internal/duration"
)

const day = 24 * time.Hour

// Rough prints a duration rounded, as people would say it.
func Rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1s"
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	case d < 10*time.Hour:
		d = d.Round(time.Minute)
	case d < 3*day:
		d = d.Round(time.Hour)
	default:
		return fmt.Sprintf("%dd", (d+day/2)/day)
	}
	return duration.Format(d)
}
