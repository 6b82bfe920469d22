package events

import (
	"strings"
	"testing"
)

// The cases are those of the W3C's recommendation and of its test suite.
func TestATraceparentIsReadAsTheStandardSays(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		text string
		want string // empty: it is none
	}{
		{good, good},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff", good}, // unknown flags are not handed on
		{"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", good},
		{"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-will-be-like", good},
		{"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what", ""},
		{"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ""},
		{good + "-x", ""},
		{good[:len(good)-1], ""},
		{strings.ToUpper(good), ""},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
		{"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", ""},
		{"00-0af7651916cd43dd8448eb211c8031.c-b7ad6b7169203331-01", ""},
		{".0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ""},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x", ""},
		{"", ""},
		{strings.Repeat("-", 55), ""},
	} {
		got, ok := ParseTrace(c.text)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%s: %v %v, want %q", c.text, got, ok, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := ParseTrace(text)
		if !ok {
			return
		}
		if again, ok := ParseTrace(c.String()); !ok || again != c {
			t.Errorf("%q: %v, then %v", text, c, again)
		}
	})
}

func TestSpansOfAJobAreAllDifferent(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	job, under := TraceOfJob("mapreduce-1", ""), TraceOfJob("mapreduce-1", parent)
	if job != TraceOfJob("mapreduce-1", "not one") || job == TraceOfJob("mapreduce-2", "") || job.Flags != TraceSampled {
		t.Errorf("%v", job)
	}
	if p, _ := ParseTrace(parent); under.Trace != p.Trace || under.Span == p.Span || under.Flags != 0 {
		t.Errorf("%v is not below %v", under, p)
	}
	seen := map[TraceContext]string{}
	note := func(name string, c TraceContext) {
		if other := seen[c]; other != "" || c.Trace != job.Trace {
			t.Errorf("%s is %s", name, other)
		}
		seen[c] = name
	}
	note("job", job.Run(1))
	note("run 5", job.Run(5))
	for _, n := range []int64{2, 5} {
		note("item", job.Of("item", n))
		note("attempt", job.Of("attempt", n))
		note("step", job.Of("attempt", n).Step(0))
		note("step", job.Of("attempt", n).Step(1))
	}
	note("setup", job.Phase("setup"))
	note("setup again", job.Run(5).Phase("setup"))
	note("step of setup", job.Phase("setup").Step(0))
	note("step of a standard workflow", job.Phase("").Step(0))
}
