package events

import (
	"strings"

	"prodigy/internal/check"
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
	return s[:check.WholeEnd(s[:n])]
}

// tail returns the last n bytes of s, less those of a character that does not fit.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	return s[check.WholeStart(s):]
}

// valid returns s with what is not UTF-8 replaced, as encoding/json does it.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// Millis is a length of time as the log has it.
type Millis = duration.Millis
