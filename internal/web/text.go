package web

import (
	"bytes"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/view"
)

// number prints n with its digits in groups of three.
func number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// roughly prints a duration with at most two units.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	}
	return duration.Format(d)
}

// plain removes from the texts of a page what is meant for a terminal, such as colours, and replaces the
// characters that turn the direction of text, with which the name of an item could look like another. The
// pages themselves have none of that.
func plain(page []byte) []byte {
	return bytes.Map(func(r rune) rune {
		switch {
		case r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069':
			return utf8.RuneError
		case r != '\n' && r != '\t' && unicode.IsControl(r):
			return -1
		}
		return r
	}, colours().ReplaceAll(page, nil))
}

// colours are control sequences: ECMA-48, 5.4. Their parameters are digits here, so that no tag after a sequence that
// is cut off is taken for a part of it.
var colours = check.Regexp(`\x1b\[[0-9;:?]*[@-~]?`)

// cut shortens s to n bytes, without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return events.Clip(s, n) + "…"
}

const (
	lettersInReport = 200
	groupsListed    = 50
	itemShown       = 300 // characters of the data of an item
	tailShown       = 1 << 10
	textShown       = 64 << 10
)

// namesOf names a few items.
func namesOf(ids []string) string { return check.Few(ids, 8) }

// roughSize prints a number of bytes for people.
func roughSize(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// statusWord returns the word for the status of an item.
func statusWord(s view.Status) string {
	switch s {
	case "":
		return "all"
	case view.Succeeded:
		return "succeeded"
	case view.Pending, view.Unseen:
		return "to go"
	}
	return string(s)
}
