package mapreduce

import (
	"errors"
	"strconv"

	"prodigy/internal/errorpolicy"
)

// statuses are how items are counted, by item index. As text each run of equal ones is a letter, a for the first status, and how many
// there are when that is more than one, as in c1200bc7: most items end the same way, so a million of them take some bytes.
type statuses []errorpolicy.Status

// statusesKept bounds what a text can make of itself in memory.
const statusesKept = 1 << 26

// MarshalText follows encoding.TextMarshaler.
func (l statuses) MarshalText() ([]byte, error) {
	var text []byte
	for from := 0; from < len(l); {
		to := from + 1
		for to < len(l) && l[to] == l[from] {
			to++
		}
		if text = append(text, 'a'+byte(l[from])); to-from > 1 {
			text = strconv.AppendInt(text, int64(to-from), 10)
		}
		from = to
	}
	return text, nil
}

// UnmarshalText follows encoding.TextUnmarshaler.
func (l *statuses) UnmarshalText(text []byte) error {
	list := statuses{}
	for i := 0; i < len(text); {
		status := text[i] - 'a'
		i++
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		n := 1
		if i > from {
			n, _ = strconv.Atoi(string(text[from:i])) // digits only; too many of them are too large
		}
		if status > 'z'-'a' || n < 1 || n > statusesKept-len(list) {
			return errors.New("no list of statuses")
		}
		for range n {
			list = append(list, errorpolicy.Status(status))
		}
	}
	*l = list
	return nil
}
