package jobs

import (
	"strings"
	"time"
)

const (
	idTime     = "20060102-150405"
	digits     = "0123456789abcdefghijklmnopqrstuvwxyz"
	suffixes   = len(digits) * len(digits) // random endings of the ids of one millisecond
	suffixSize = 4
)

// newID returns the id of a job: mode, time in UTC, and four digits to base 36, of which two are the
// millisecond and two are random. Ids of one mode therefore sort by time.
func newID(mode string, now time.Time, random int) string {
	now = now.UTC()
	return mode + "-" + now.Format(idTime) + "-" + base36(now.Nanosecond()/int(time.Millisecond)) + base36(random)
}

// base36 writes n, which is less than 1296, with two digits.
func base36(n int) string {
	return string([]byte{digits[n/len(digits)%len(digits)], digits[n%len(digits)]})
}

// sortKey returns the part of an id after the mode: time and suffix. It returns "" if id is not a job id.
func sortKey(id string) string {
	mode, key, ok := strings.Cut(id, "-")
	if !ok || mode == "" || len(key) != len(idTime)+1+suffixSize || key[len(idTime)] != '-' || !safe(id) {
		return ""
	}
	if _, err := time.Parse(idTime, key[:len(idTime)]); err != nil {
		return ""
	}
	return key
}

// safe reports whether s can be the name of a directory on any system and cannot lead out of its parent.
func safe(s string) bool {
	return s != "" && s[0] != '.' && s == clean(s)
}

// safeName turns any text into a safe name.
func safeName(s string) string {
	s = strings.TrimLeft(clean(s), ".")
	if s == "" {
		return "unnamed"
	}
	return s
}

// clean replaces what is not a letter, digit, dot, dash or underscore of ASCII.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
}
