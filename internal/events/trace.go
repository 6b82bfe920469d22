package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
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

// lengths of the form of version 00, 00-{trace}-{span}-{flags}, in bytes.
const (
	traceAt  = 3
	spanAt   = traceAt + 32 + 1
	flagsAt  = spanAt + 16 + 1
	traceLen = flagsAt + 2
)

// ParseTrace reads the value of a traceparent. It reports false if the text is not valid.
func ParseTrace(text string) (TraceContext, bool) {
	if len(text) < traceLen || text[2] != '-' || text[spanAt-1] != '-' || text[flagsAt-1] != '-' {
		return TraceContext{}, false
	}
	version, rest := text[:2], text[traceLen:]
	if version == "ff" || rest != "" && (version == "00" || rest[0] != '-') {
		return TraceContext{}, false
	}
	var c TraceContext
	var flags, other [1]byte
	ok := decodeHex(other[:], version) && decodeHex(c.Trace[:], text[traceAt:spanAt-1]) &&
		decodeHex(c.Span[:], text[spanAt:flagsAt-1]) && decodeHex(flags[:], text[flagsAt:traceLen])
	if !ok || c.Trace == [16]byte{} || c.Span == [8]byte{} {
		return TraceContext{}, false
	}
	c.Flags = flags[0] & TraceSampled
	return c, true
}

// decodeHex reads hexadecimal digits, which are lower-case in a traceparent.
func decodeHex(to []byte, digits string) bool {
	for _, c := range []byte(digits) {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(to, []byte(digits))
	return err == nil
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
	return c.child("run", strconv.FormatInt(seq, 10))
}

// Phase returns the span of a phase of the run c; that of a standard workflow, which has no name, is the run.
func (c TraceContext) Phase(name string) TraceContext {
	if name == "" {
		return c
	}
	return c.child("phase", name)
}

// Item returns the span of an item of the job c whose first attempt begins with the record seq.
func (c TraceContext) Item(seq int64) TraceContext {
	return c.child("item", strconv.FormatInt(seq, 10))
}

// Attempt returns the span of the attempt of the job c that begins with the record seq.
func (c TraceContext) Attempt(seq int64) TraceContext {
	return c.child("attempt", strconv.FormatInt(seq, 10))
}

// Work returns the span of work on what attempts leave, of the job c, that the record seq tells of.
func (c TraceContext) Work(seq int64) TraceContext {
	return c.child("work", strconv.FormatInt(seq, 10))
}

// Step returns the span of the step at an index of the attempt or phase c.
func (c TraceContext) Step(index int) TraceContext { return c.child("step", strconv.Itoa(index)) }

// child returns a span below c, whose name is derived from c, its kind and a key that is unique within that kind.
func (c TraceContext) child(kind, key string) TraceContext {
	sum := sha256.Sum256([]byte(string(c.Trace[:]) + string(c.Span[:]) + kind + "\x00" + key))
	c.Span = [8]byte(sum[:8])
	return c
}
