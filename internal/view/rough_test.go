package view

import (
	"testing"
	"time"
)

func TestRoughLengthsOfTime(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "1s"},
		{1400 * time.Millisecond, "1s"},
		{90 * time.Second, "1m30s"},
		{11*time.Minute + 20*time.Second, "11m"},
		{3*time.Hour + 4*time.Minute + 31*time.Second, "3h5m"},
		{30*time.Hour + 12*time.Minute, "30h"},
		{73 * time.Hour, "3d"},
		{60*24*time.Hour + 13*time.Hour, "61d"},
	} {
		if got := Rough(c.d); got != c.want {
			t.Errorf("Rough(%v) = %q, want %q", c.d, got, c.want)
		}
	}
}
