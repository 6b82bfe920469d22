package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"prodigy/internal/check"
)

// TraceVar is the environment variable that names a span.
const TraceVar = "TRACEPARENT"

// TraceContext names a span of a trace, after the W3C's Trace Context. The names of a job's spans are derived from
// its id and the numbers of its records, so that whoever reads the log finds the same ones again: a resume, an export
// afterwards, and the commands that are told of them by TRACEPARENT. The zero TraceContext names none.
type TraceContext struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
}

// TraceSampled says that the trace is exported.
const TraceSampled = 1

// traceparent matches the form of version 00, 00-{trace}-{span}-{flags}, and what later versions may put after it.
var traceparent = check.Regexp(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})((?s:-.*)?)$`)

// ParseTrace reads the value of a traceparent. It reports false if the text is not valid.
func ParseTrace(text string) (TraceContext, bool) {
	m := traceparent().FindStringSubmatch(text)
	if m == nil || m[1] == "ff" || m[1] == "00" && m[5] != "" {
		return TraceContext{}, false
	}
	hexed := check.Must(hex.DecodeString(m[2] + m[3] + m[4]))
	c := TraceContext{[16]byte(hexed[:16]), [8]byte(hexed[16:24]), hexed[24] & TraceSampled}
	if c.Trace == [16]byte{} || c.Span == [8]byte{} {
		return TraceContext{}, false
	}
	return c, true
}

// String returns the value of a traceparent.
func (c TraceContext) String() string {
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" +
		hex.EncodeToString([]byte{c.Flags})
}

// TraceOfJob returns the span of a job. Parent is the traceparent that the job was started with. If it is empty or
// not valid, the job begins a trace of its own.
func TraceOfJob(jobID, parent string) TraceContext {
	c, ok := ParseTrace(parent)
	if !ok {
		sum := sha256.Sum256([]byte("prodigy trace " + jobID))
		c = TraceContext{Trace: [16]byte(sum[:16]), Flags: TraceSampled}
	}
	c.Span = [8]byte{}
	return c.child("job", jobID)
}

// Run returns the span of the run of the job c that begins with the record seq. That of the first is the job's own.
func (c TraceContext) Run(seq int64) TraceContext {
	if seq == 1 {
		return c
	}
	return c.Of("run", seq)
}

// Phase returns the span of a phase of the run c; that of a standard workflow, which has no name, is the run.
func (c TraceContext) Phase(name string) TraceContext {
	if name == "" {
		return c
	}
	return c.child("phase", name)
}

// Of returns the span of what is in the job c and begins with the record seq: an "item" with its first attempt, an
// "attempt", or "work" on what attempts leave.
func (c TraceContext) Of(kind string, seq int64) TraceContext {
	return c.child(kind, strconv.FormatInt(seq, 10))
}

// Step returns the span of the step at an index of the attempt or phase c.
func (c TraceContext) Step(index int) TraceContext { return c.child("step", strconv.Itoa(index)) }

// child returns a span below c, whose name is derived from c, its kind and a key that is unique within that kind.
func (c TraceContext) child(kind, key string) TraceContext {
	sum := sha256.Sum256([]byte(string(c.Trace[:]) + string(c.Span[:]) + kind + "\x00" + key))
	c.Span = [8]byte(sum[:8])
	return c
}
