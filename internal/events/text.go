package events

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"prodigy/internal/duration"
)

// The bounds of texts in the log, in bytes. The log itself keeps the first two; whoever makes an AgentCompleted or
// AgentFailed keeps the third by naming an OutputFile instead.
const (
	MaxError  = 1 << 10
	MaxTail   = 4 << 10
	MaxOutput = 64 << 10
)

// Clip returns the head of s: at most n bytes, cut between characters, with what is not UTF-8 replaced as the log does.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(head(s, n), "\ufffd")
	return head(s, n) // longer again when single bytes were replaced
}

// ClipTail returns the end of s under the same terms as Clip.
func ClipTail(s string, n int) string {
	s = strings.ToValidUTF8(tail(s, n), "\ufffd")
	return tail(s, n)
}

// head returns the first n bytes of s, less those of a character that does not fit.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && end > n-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// tail returns the last n bytes of s, less those of a character that does not fit.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	i := 0
	for i < len(s) && i < utf8.UTFMax-1 && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// valid returns s with what is not UTF-8 replaced, as encoding/json does it.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// Millis is a length of time that is written as a number of milliseconds with up to three decimals.
type Millis time.Duration

// String returns the length of time as people write it.
func (m Millis) String() string { return duration.Format(time.Duration(m)) }

// MarshalJSON writes the number, rounded to the microsecond.
func (m Millis) MarshalJSON() ([]byte, error) {
	us := time.Duration(m.rounded()).Microseconds()
	b := make([]byte, 0, 24)
	if us < 0 {
		b, us = append(b, '-'), -us
	}
	b = strconv.AppendInt(b, us/1000, 10)
	rest := us % 1000
	if rest == 0 {
		return b, nil
	}
	b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b, nil
}

// UnmarshalJSON reads any number of milliseconds, rounded to the microsecond.
func (m *Millis) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	ms, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		return fmt.Errorf("%s is not a number of milliseconds", data)
	}
	us := math.Round(ms * 1000)
	if math.Abs(us) >= math.MaxInt64/1000 {
		return fmt.Errorf("%s milliseconds are too long", data)
	}
	*m = Millis(time.Duration(us) * time.Microsecond)
	return nil
}

// rounded returns what is left of m once it was written and read.
func (m Millis) rounded() Millis {
	return Millis(time.Duration(m).Round(time.Microsecond).Truncate(time.Microsecond))
}
