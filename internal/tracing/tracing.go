// Package tracing names the spans of a job, after the W3C's Trace Context. The names are derived from the log
// of the job, so that whoever reads it finds the same ones again: a resume, an export afterwards, and the
// commands that are told of them by TRACEPARENT.
package tracing

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Var is the environment variable that names a span.
const Var = "TRACEPARENT"

// Context names a span of a trace. The zero Context names none.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
}

// Sampled says that the trace is exported.
const Sampled = 1

// lengths of the form of version 00, 00-{trace}-{span}-{flags}, in bytes.
const (
	traceAt = 3
	spanAt  = traceAt + 32 + 1
	flagsAt = spanAt + 16 + 1
	length  = flagsAt + 2
)

// Parse reads the value of a traceparent. It reports false if the text is not valid.
func Parse(text string) (Context, bool) {
	if len(text) < length || text[2] != '-' || text[spanAt-1] != '-' || text[flagsAt-1] != '-' {
		return Context{}, false
	}
	version, rest := text[:2], text[length:]
	if version == "ff" || rest != "" && (version == "00" || rest[0] != '-') {
		return Context{}, false
	}
	var c Context
	var flags, other [1]byte
	ok := decode(other[:], version) && decode(c.Trace[:], text[traceAt:spanAt-1]) &&
		decode(c.Span[:], text[spanAt:flagsAt-1]) && decode(flags[:], text[flagsAt:length])
	if !ok || c.Trace == [16]byte{} || c.Span == [8]byte{} {
		return Context{}, false
	}
	c.Flags = flags[0] & Sampled
	return c, true
}

// decode reads hexadecimal digits, which are lower-case in a traceparent.
func decode(to []byte, digits string) bool {
	for _, c := range []byte(digits) {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(to, []byte(digits))
	return err == nil
}

// String returns the value of a traceparent.
func (c Context) String() string {
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" +
		hex.EncodeToString([]byte{c.Flags})
}

// OfJob returns the span of a job. Parent is the traceparent that the job was started with. If it is empty or
// not valid, the job begins a trace of its own.
func OfJob(jobID, parent string) Context {
	c, ok := Parse(parent)
	if !ok {
		sum := sha256.Sum256([]byte("prodigy trace " + jobID))
		c = Context{Trace: [16]byte(sum[:16]), Flags: Sampled}
	}
	c.Span = [8]byte{}
	return c.child("job", jobID)
}

// Run returns the span of the run of the job c that begins with the record seq. That of the first is the job's own.
func (c Context) Run(seq int64) Context {
	if seq == 1 {
		return c
	}
	return c.child("run", strconv.FormatInt(seq, 10))
}

// Phase returns the span of a phase of the run c; that of a standard workflow, which has no name, is the run.
func (c Context) Phase(name string) Context {
	if name == "" {
		return c
	}
	return c.child("phase", name)
}

// Item returns the span of an item of the job c whose first attempt begins with the record seq.
func (c Context) Item(seq int64) Context { return c.child("item", strconv.FormatInt(seq, 10)) }

// Attempt returns the span of the attempt of the job c that begins with the record seq.
func (c Context) Attempt(seq int64) Context { return c.child("attempt", strconv.FormatInt(seq, 10)) }

// Work returns the span of work on what attempts leave, of the job c, that the record seq tells of.
func (c Context) Work(seq int64) Context { return c.child("work", strconv.FormatInt(seq, 10)) }

// Step returns the span of the step at an index of the attempt or phase c.
func (c Context) Step(index int) Context { return c.child("step", strconv.Itoa(index)) }

func (c Context) child(kind, key string) Context {
	sum := sha256.Sum256([]byte(string(c.Trace[:]) + string(c.Span[:]) + kind + "\x00" + key))
	c.Span = [8]byte(sum[:8])
	return c
}
