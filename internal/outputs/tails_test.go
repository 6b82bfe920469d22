package outputs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// storing is a Receiver that appends to a store.
type storing struct {
	t *testing.T
	*Store
}

func (s *storing) Receive(e Entry) {
	if _, err := s.Append(e); err != nil {
		s.t.Error(err)
	}
}

// shownOf returns what entries show of a command that prints "<number>\n" with increasing numbers: its text
// with … for what is missing. It fails when something comes twice, or when what is missing is not what is
// counted.
func shownOf(t *testing.T, entries []Entry, printed string) (text string) {
	t.Helper()
	at := 0
	for _, e := range entries {
		if at += int(e.Missing); e.Missing > 0 {
			text += "…"
		}
		for _, p := range e.Printed {
			end := min(at+len(p.Text), len(printed))
			if at > len(printed) || printed[at:end] != string(p.Text) {
				t.Fatalf("at %d of %d got %.60q, want %.60q", at, len(printed), p.Text, printed[min(at, len(printed)):end])
			}
			at = end
			text += string(p.Text)
		}
	}
	return text
}

// What a command prints beyond the head that is kept of it can be read a second later: while it runs, when the
// run was killed, and when the next one has opened the store. Nothing comes twice, and what is missing is
// counted.
func TestTheTailOfARunningCommandIsKept(t *testing.T) {
	const perStep = 4 << 10
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			s := open(t, dir, Options{PerStep: perStep, FileSize: int64(2<<10 + rnd.IntN(20<<10))})
			source := Source{ItemID: "item_0", Attempt: 1, Step: "shell_0", Try: 1, Command: 1}
			r := Recorder{Source: source, Policy: policy(All, perStep), To: &storing{t, s}}

			ctx, cancel := context.WithCancel(t.Context())
			var followed []Entry
			done := make(chan struct{})
			go func() {
				defer close(done)
				for e, err := range Follow(ctx, dir, Query{ItemID: "item_0"}, func() bool { return true }) {
					if err != nil {
						t.Error(err)
					}
					followed = append(followed, e)
				}
			}()

			var printed strings.Builder
			for n := 0; n < 30+rnd.IntN(3000); {
				for range rnd.IntN(1 + rnd.IntN(500)) {
					line := fmt.Sprintf("%d\n", n)
					n++
					printed.WriteString(line)
					r.Write(Stdout, []byte(line))
				}
				time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
			}
			time.Sleep(2 * flushNext)
			synctest.Wait()
			whole := printed.String()
			running := shownOf(t, readAll(t, dir, Query{}), whole)
			if running[:min(len(whole), perStep/2)] != whole[:min(len(whole), perStep/2)] || !strings.HasSuffix(running, whole[max(0, len(whole)-perStep/2+64):]) {
				t.Fatalf("seed %d: got %d of %d bytes", seed, len(running), len(whole))
			}
			if len(running) > 2*perStep {
				t.Errorf("seed %d: %d bytes are kept of %d", seed, len(running), perStep)
			}
			for l := range Examine(dir) {
				if l.Err != nil {
					t.Error(l.Err)
				}
			}

			if rnd.IntN(2) == 0 { // killed
				cancel()
				<-done
				twice := open(t, dir, Options{PerStep: perStep})
				if err := twice.Close(); err != nil {
					t.Fatal(err)
				}
				if adopted := shownOf(t, readAll(t, dir, Query{}), whole); adopted != running {
					t.Errorf("seed %d: got %d bytes after a kill, want %d", seed, len(adopted), len(running))
				}
				r.Policy.Keep = None
				r.To = new(received)
				r.Close(End{})
			} else {
				r.Close(End{})
				time.Sleep(2 * pollEvery)
				cancel()
				<-done
				kept := shownOf(t, readAll(t, dir, Query{}), whole)
				if len(kept) > perStep+len("…") || !strings.HasSuffix(whole, kept[min(len(kept), perStep/2+len("…")):]) {
					t.Errorf("seed %d: got %d of %d bytes after the end", seed, len(kept), len(whole))
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if !strings.HasSuffix(shownOf(t, followed, whole), whole[max(0, len(whole)-perStep/2+64):]) {
					t.Errorf("seed %d: the end was not followed", seed)
				}
				if followed[len(followed)-1].End == nil {
					t.Errorf("seed %d: the end of the command was not followed", seed)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(dir, tailPrefix+"*")); len(left) > 0 {
				t.Errorf("seed %d: %q are left", seed, left)
			}
		})
	}
}

// A run may be killed anywhere in what it does about tails: when it has appended the tail of a command that has
// ended, and not yet removed its files, or while it appends what the run before has left.
func TestATailIsAdoptedOnce(t *testing.T) {
	source := Source{ItemID: "item_0", Step: "shell_0", Command: 1}
	entry := func(offset int64, text string) Entry {
		return Entry{Time: time.Unix(1, 0).UTC(), Source: source, Offset: offset, Printed: []Part{{Stdout, []byte(text)}}}
	}
	provisional := func(offset int64, text string) Entry {
		e := entry(offset, text)
		e.Provisional = true
		return e
	}
	head := Entry{Time: time.Unix(1, 0).UTC(), Source: source, First: true, Printed: []Part{{Stdout, []byte("head\n")}}}
	ended := entry(5, "one\ntwo\n")
	ended.End = &End{}
	for name, c := range map[string]struct {
		store []Entry
		want  string
	}{
		"killed while it ran":                {[]Entry{head, provisional(5, "one\n"), provisional(9, "two\n")}, "head\none\ntwo\n"},
		"killed when it had ended":           {[]Entry{head, provisional(5, "one\n"), provisional(9, "two\n"), ended}, "head\none\ntwo\n"},
		"killed while this was adopted":      {[]Entry{head, provisional(5, "one\n"), provisional(9, "two\n"), entry(5, "one\n")}, "head\none\ntwo\n"},
		"another command of the same source": {[]Entry{head, ended, head, provisional(5, "one\n")}, "head\none\ntwo\nhead\none\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			for _, e := range c.store {
				if e.End != nil { // its files stay
					s.tails = nil
				}
				appendAll(t, s, []Entry{e})
			}
			for range 2 {
				if got := printedTo(Stdout, readAll(t, dir, Query{})); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
				s = open(t, dir, Options{})
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, tailPrefix+"*")); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// What was written after a time is found without reading what is far before it.
func TestSinceFindsWhatWasWrittenAfterATime(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{FileSize: 500})
	start := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	var spans []Span
	for i := range 200 {
		spans = append(spans, appendAll(t, s, []Entry{{
			Time: start.Add(time.Duration(i) * time.Minute), Source: Source{Step: "shell_0", Command: i}, Printed: []Part{{Stdout, []byte("text\n")}},
		}})...)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range spans {
		at := Since(dir, start.Add(time.Duration(i)*time.Minute))
		if at > spans[i].Offset {
			t.Fatalf("%d: the entry at %d is before %d", i, spans[i].Offset, at)
		}
		if far := spans[max(0, i-12)].Offset; at < far {
			t.Errorf("%d: got %d, want %d or more", i, at, far)
		}
	}
	back := open(t, dir, Options{FileSize: 500})
	for range 10 {
		appendAll(t, back, []Entry{{Time: start, Source: Source{Step: "shell_0"}, Printed: []Part{{Stdout, []byte("text\n")}}}})
	}
	if err := back.Close(); err != nil {
		t.Fatal(err)
	}
	if at := Since(dir, start.Add(time.Hour)); at != 0 {
		t.Errorf("got %d after the clock went back, want 0", at)
	}
	if at := Since(t.TempDir(), start); at != 0 {
		t.Errorf("got %d where there is no store, want 0", at)
	}
}

// Damage to a tail costs what is damaged.
func TestADamagedTailIsAdoptedWithoutItsDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	source := Source{Step: "shell_0", Command: 1}
	for i, text := range []string{"one\n", "two\n", "three\n"} {
		appendAll(t, s, []Entry{{Source: source, Provisional: true, Offset: int64(10 + 4*i), Printed: []Part{{Stdout, []byte(text)}}}})
	}
	files, err := listTails(dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data = []byte(strings.Replace(string(data), "two", "tow", 1))
	if err := os.WriteFile(files[0], data[:len(data)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for l := range Examine(dir) {
		if l.Err != nil {
			damaged++
		}
	}
	if damaged != 2 {
		t.Errorf("%d lines are damaged or torn, want 2", damaged)
	}
	for _, err := range Read(dir, Query{}) {
		if err != nil {
			damaged++
		}
	}
	if damaged != 3 {
		t.Error("a reader is not told of the damage")
	}
	if err := open(t, dir, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if got := printedTo(Stdout, readAll(t, dir, Query{})); got != "one\n" {
		t.Errorf("got %q", got)
	}
}
