package outputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/jobs"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/mask"
)

// received is a Receiver that keeps what it is given for good.
type received []Entry

func (r *received) Receive(e Entry) {
	if !e.Provisional {
		*r = append(*r, e)
	}
}

func policy(keep Keep, perStep Size) Policy {
	return Policy{Keep: keep, PerStep: perStep}.WithDefaults()
}

// printedTo returns what the entries have of one stream.
func printedTo(s Stream, entries []Entry) string {
	var b bytes.Buffer
	for _, e := range entries {
		for _, p := range e.Printed {
			if p.Stream == s {
				b.Write(p.Text)
			}
		}
	}
	return b.String()
}

func readAll(t *testing.T, dir string, q Query) []Entry {
	t.Helper()
	var all []Entry
	for e, err := range Read(dir, q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func open(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	if o.PerJob == 0 {
		o.PerJob = defaultPerJob
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func appendAll(t *testing.T, s *Store, entries []Entry) []Span {
	t.Helper()
	spans := make([]Span, len(entries))
	for i, e := range entries {
		var err error
		if spans[i], err = s.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return spans
}

func closed(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 123456789, time.UTC)

// numbered returns n entries of one line each, of ten items.
func numbered(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{
			Time: noon, Source: Source{ItemID: fmt.Sprintf("item_%d", i%10), Attempt: 1, Step: "shell_0", Command: 1},
			First: true, Printed: []Part{{Stdout, fmt.Appendf(nil, "line %d\n", i)}}, End: &End{},
		}
	}
	return entries
}

func TestACommandThatPrintsALittleGivesOneEntry(t *testing.T) {
	var got received
	r := Recorder{Source: Source{ItemID: "item_7", Attempt: 2, Step: "shell_0", Try: 3, Command: 4}, Policy: policy(All, 0), To: &got}
	r.Write(Stdout, []byte("a"))
	r.Write(Stdout, []byte("b\n"))
	r.Write(Stderr, []byte("c\n"))
	r.Write(Stdout, []byte("d\n"))
	r.Close(End{Failed: true, ExitCode: 3})
	if len(got) != 1 || got[0].Time.IsZero() {
		t.Fatalf("got %+v, want one entry with its time", got)
	}
	got[0].Time = time.Time{}
	want := Entry{
		Source: r.Source, First: true, Printed: []Part{{Stdout, []byte("ab\n")}, {Stderr, []byte("c\n")}, {Stdout, []byte("d\n")}},
		End: &End{Failed: true, ExitCode: 3},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Lines of the two streams stand in the order in which they are complete, none within another.
func TestNoLineIsDividedByTheOtherStream(t *testing.T) {
	var got received
	r := Recorder{Policy: policy(All, 0), To: &got}
	r.Write(Stdout, []byte("beg"))
	r.Write(Stderr, []byte("oth"))
	r.Write(Stdout, []byte("in\nno"))
	r.Write(Stderr, []byte("er\n"))
	r.Write(Stdout, []byte(" end"))
	r.Close(End{})
	want := []Part{{Stdout, []byte("begin\n")}, {Stderr, []byte("other\n")}, {Stdout, []byte("no end")}}
	if len(got) != 1 || !cmp.Equal(want, got[0].Printed) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestASilentCommandGivesNothingAndCostsNoMemory(t *testing.T) {
	var got received
	p := policy(All, 0)
	r := new(Recorder)
	n := testing.AllocsPerRun(100, func() {
		*r = Recorder{Source: Source{ItemID: "item_7", Step: "shell_0"}, Policy: p, To: &got}
		r.Write(Stdout, nil)
		r.Close(End{})
	})
	if n > 0 || len(got) > 0 {
		t.Errorf("got %v allocations and %v, want none", n, got)
	}
}

func TestOfSuccessNothingIsKeptWithFailed(t *testing.T) {
	for _, tt := range []struct {
		keep Keep
		end  End
		want int
	}{{All, End{}, 1}, {Failed, End{}, 0}, {Failed, End{Failed: true}, 1}, {Failed, End{Stopped: true}, 1}, {None, End{Failed: true}, 0}, {"", End{Failed: true}, 0}} {
		var got received
		p := policy(All, 0)
		p.Keep = tt.keep
		r := Recorder{Policy: p, To: &got}
		r.Write(Stdout, []byte("x"))
		r.Close(tt.end)
		if len(got) != tt.want {
			t.Errorf("%q %+v: got %v, want %d", tt.keep, tt.end, got, tt.want)
		}
	}
}

// guarded is a received of which a test reads what is there while more may come.
type guarded struct {
	mu sync.Mutex
	received
}

func (g *guarded) Receive(e Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.received.Receive(e)
}

func (g *guarded) all() received {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.received)
}

func TestWhatARunningCommandPrintsIsPassedOnSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to guarded
		r := Recorder{Policy: policy(All, 0), To: &to}
		steps := []struct {
			print string
			wait  time.Duration
			want  string
		}{{"a", flushFirst / 2, ""}, {"b", flushFirst, "ab"}, {"c", flushNext / 2, "ab"}, {"", flushNext, "abc"}, {"d\xc3", flushNext, "abcd"}, {"\xa4", flushNext, "abcdä"}}
		for _, s := range steps {
			r.Write(Stdout, []byte(s.print))
			time.Sleep(s.wait)
			synctest.Wait()
			if text := printedTo(Stdout, to.all()); text != s.want {
				t.Errorf("after %q: got %q, want %q", s.print, text, s.want)
			}
		}
		r.Close(End{})
		got := to.all()
		if last := got[len(got)-1]; last.End == nil || len(last.Printed) > 0 {
			t.Errorf("got %+v, want an end and nothing more", last)
		}
		if n := len(slices.DeleteFunc(slices.Clone(got), func(e Entry) bool { return !e.First })); n != 1 || !got[0].First {
			t.Errorf("%d entries are the first", n)
		}
	})
}

// What is over the bound loses its middle, and nothing else: head, missing bytes and tail come to what was printed.
func TestHeadAndTailAreKeptOfALongOutput(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, keep := range []Keep{All, Failed} {
		for range 60 {
			perStep := 1024 << rnd.IntN(8)
			var got received
			r := Recorder{Policy: policy(keep, Size(perStep)), To: &got}
			var printed bytes.Buffer
			for range rnd.IntN(40) {
				piece := []byte(strings.Repeat("äx€\U0001f600", rnd.IntN(2000)))
				piece = piece[min(len(piece), rnd.IntN(3)):]
				printed.Write(piece)
				r.Write(Stdout, piece)
			}
			r.Close(End{Failed: true})
			text, missing, at := printedTo(Stdout, got), int64(0), 0
			for _, e := range got {
				if e.Missing > 0 {
					missing, at = e.Missing, len(printedTo(Stdout, got[:slices.IndexFunc(got, func(e Entry) bool { return e.Missing > 0 })]))
				}
				if e.Size() > 2*maxEntry {
					t.Fatalf("an entry of %d bytes", e.Size())
				}
			}
			whole := printed.String()
			if int64(len(text))+missing != int64(len(whole)) {
				t.Fatalf("got %d bytes and %d missing of %d", len(text), missing, len(whole))
			}
			if text[:at] != whole[:at] || text[at:] != whole[int64(at)+missing:] {
				t.Fatalf("per step %d: it is not the head and the tail of %d bytes", perStep, len(whole))
			}
			if len(text) > perStep {
				t.Fatalf("kept %d bytes of at most %d", len(text), perStep)
			}
			if len(whole) > perStep && len(text) < perStep-256 {
				t.Fatalf("kept only %d bytes of at most %d", len(text), perStep)
			}
		}
	}
}

// Streams that alternate with every byte cannot take more memory than their bound.
func TestManySmallPartsAreBounded(t *testing.T) {
	var got received
	r := Recorder{Policy: policy(All, 4096), To: &got}
	for i := range 100_000 {
		r.Write(Stream(i%2), []byte("x"))
	}
	if n := len(r.tail.parts); n > 4096/partCost {
		t.Errorf("the tail has %d parts", n)
	}
	r.Close(End{})
	total := 0
	for _, e := range got {
		total += e.Size() + int(e.Missing)
	}
	if total != 100_000 {
		t.Errorf("got %d bytes, want 100000 with the missing ones", total)
	}
}

// What is read back is what was printed, masked, whatever the bytes and wherever the writes divide a secret.
func TestWhatIsReadIsWhatWasPrinted(t *testing.T) {
	const secret = "hunter2-is-secret"
	masker := mask.New([]string{secret})
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		dir := t.TempDir()
		s := open(t, dir, Options{FileSize: 4 << 10, NoSync: true})
		var want [2]bytes.Buffer
		var got received
		r := Recorder{Source: Source{ItemID: "it\"em\n", Attempt: 1, Step: "\x1b[31m", Command: 1}, Policy: policy(All, 0), To: &got}
		var masking [2]*mask.Writer
		for i := range masking {
			masking[i] = masker.Writer(writer{&r, Stream(i)})
		}
		for range 30 {
			i := rnd.IntN(2)
			piece := make([]byte, rnd.IntN(300))
			for j := range piece {
				piece[j] = byte(rnd.IntN(256))
			}
			if rnd.IntN(2) == 0 {
				piece = []byte("ä\x1b]0;x\a" + secret + "\r\n\u202e")
			}
			want[i].Write(piece)
			cut := rnd.IntN(len(piece) + 1)
			_, _ = masking[i].Write(piece[:cut])
			_, _ = masking[i].Write(piece[cut:])
		}
		_ = masking[0].Close()
		_ = masking[1].Close()
		r.Close(End{})
		appendAll(t, s, got)
		closed(t, s)
		entries := readAll(t, dir, Query{ItemID: r.Source.ItemID})
		for i := range want {
			if text := printedTo(Stream(i), entries); text != masker.Text(want[i].String()) {
				t.Fatalf("round %d, stream %d: got %q, want %q", round, i, text, masker.Text(want[i].String()))
			}
		}
	}
}

type writer struct {
	r *Recorder
	s Stream
}

func (w writer) Write(p []byte) (int, error) {
	w.r.Write(w.s, p)
	return len(p), nil
}

func TestALineIsWhatEncodingJSONWouldWrite(t *testing.T) {
	entries := append(numbered(3), Entry{Time: noon, Limit: Failed},
		Entry{Time: noon, Source: Source{Phase: "setup", Attempt: 1, Step: "a", Try: 2, Command: 9, Agent: "claude"}, Missing: 7, Offset: 17, Printed: []Part{{Stderr, []byte("\xff\x00")}, {Stdout, []byte("<&>\u2028")}}, End: &End{Failed: true, Stopped: true, ExitCode: -1}})
	for _, e := range entries {
		line, err := e.line()
		if err != nil {
			t.Fatal(err)
		}
		var got Entry
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		sealed := jobs.SealedLines{Required: true}
		if err := sealed.Check(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		plain, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var again Entry
		if err := json.Unmarshal(plain, &again); err != nil || !cmp.Equal(e, again) {
			t.Errorf("%s: %v", plain, err)
		}
	}
}

func TestEntriesAreFoundOverAllFiles(t *testing.T) {
	dir := t.TempDir()
	entries := numbered(500)
	s := open(t, dir, Options{FileSize: 5000})
	spans := appendAll(t, s, entries[:321])
	closed(t, s)
	s = open(t, dir, Options{FileSize: 5000})
	spans = append(spans, appendAll(t, s, entries[321:])...)
	closed(t, s)
	if files, err := list(dir); err != nil || len(files) < 10 || !jobs.IsPacked(files[0].path) {
		t.Errorf("got %v %v, want many files, compressed", files, err)
	}
	if diff := cmp.Diff(entries, readAll(t, dir, Query{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, span := range spans {
		if got := readAll(t, dir, Query{Span: span}); len(got) != 1 || !cmp.Equal(got[0], entries[i]) {
			t.Fatalf("entry %d at %v: got %v", i, span, got)
		}
	}
	if got := readAll(t, dir, Query{ItemID: "item_3", Attempt: 1, Span: spans[3].To(spans[23])}); len(got) != 3 {
		t.Errorf("got %d entries of item_3, want 3", len(got))
	}
	if got := readAll(t, dir, Query{ItemID: "item_3", Step: "shell_0"}); len(got) != 50 {
		t.Errorf("got %d entries of item_3, want 50", len(got))
	}
	if got := readAll(t, dir, Query{ItemID: "item_3", Step: "shell_1"}); len(got) != 0 {
		t.Errorf("got %d entries of another step", len(got))
	}
}

// What is read from the end begins with a whole line, within one file.
func TestTheNewestAreReadFromTheEnd(t *testing.T) {
	dir := t.TempDir()
	entries := numbered(100)
	s := open(t, dir, Options{NoSync: true})
	spans := appendAll(t, s, entries)
	end := spans[99].Offset + spans[99].Length
	for _, n := range []int64{1, 2, spans[99].Length, spans[99].Length + 1, end / 2, end - 1, end, end + 1} {
		want := entries[:0]
		for i, span := range spans {
			if span.Offset > end-n || n >= end {
				want = entries[i:]
				break
			}
		}
		if diff := cmp.Diff(len(want), len(readAll(t, dir, Query{Newest: n}))); diff != "" {
			t.Errorf("the newest %d of %d bytes (-want +got):\n%s", n, end, diff)
		}
		for _, e := range readAll(t, dir, Query{Newest: n}) {
			if !cmp.Equal(e, want[0]) {
				t.Fatalf("the newest %d bytes: got %v, want %v", n, e, want[0])
			}
			want = want[1:]
		}
	}
	closed(t, s)
}

// Wherever a kill cuts the file, all that was written before is read, and the store goes on behind it.
func TestACutFileIsReadUpToTheCut(t *testing.T) {
	dir := t.TempDir()
	entries := numbered(3)
	s := open(t, dir, Options{})
	spans := appendAll(t, s, entries)
	closed(t, s)
	path := s.path
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		n := len(slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Offset+s.Length > int64(cut) }))
		if diff := cmp.Diff(entries[:n], readAll(t, dir, Query{}), cmp.Transformer("none", func(e []Entry) int { return len(e) })); diff != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", cut, diff)
		}
		s := open(t, dir, Options{NoSync: true})
		appendAll(t, s, entries[2:])
		closed(t, s)
		got := readAll(t, dir, Query{})
		if len(got) != n+1 || !cmp.Equal(got[n], entries[2]) {
			t.Fatalf("cut at %d: got %d entries after the next, want %d", cut, len(got), n+1)
		}
	}
}

// Whatever byte of a file is changed, what is read was printed, and the loss is told.
func TestADamagedByteIsToldAndCostsItsLine(t *testing.T) {
	dir := t.TempDir()
	entries := numbered(3)
	s := open(t, dir, Options{})
	appendAll(t, s, entries)
	closed(t, s)
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		bad := slices.Clone(whole)
		bad[at] ^= 4
		if err := os.WriteFile(s.path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		good, told := 0, 0
		for e, err := range Read(dir, Query{}) {
			if _, damaged := errors.AsType[*DamagedError](err); damaged {
				told++
				continue
			}
			if !slices.ContainsFunc(entries, func(o Entry) bool { return cmp.Equal(o, e) }) {
				t.Fatalf("byte %d: got %+v, which nobody wrote", at, e)
			}
			good++
		}
		if good < 1 || good == 3 || told == 0 && at < len(whole)-1 {
			t.Fatalf("byte %d: %d good and %d told", at, good, told)
		}
	}
}

func TestAMissingFileIsTold(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{FileSize: 1000})
	spans := appendAll(t, s, numbered(40))
	closed(t, s)
	files, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range []int{1, len(files) - 1} {
		if err := os.Remove(files[lost].path); err != nil {
			t.Fatal(err)
		}
	}
	told := 0
	for l := range Examine(dir) {
		if l.Err != nil {
			told++
		}
	}
	if told != 1 {
		t.Errorf("got %d told, want the file in the middle", told)
	}
	told = 0
	for _, err := range Read(dir, Query{Span: spans[39]}) {
		if err != nil {
			told++
		}
	}
	if told != 1 {
		t.Error("what is lost at the end is not told to who looks for it")
	}
}

func TestBeyondTheBoundOfTheJobOnlyFailuresAreGranted(t *testing.T) {
	dir := t.TempDir()
	const perJob = 20_000
	s := open(t, dir, Options{PerJob: perJob})
	var grants []Keep
	for _, e := range numbered(300) {
		if g := s.Granted(All); len(grants) == 0 || grants[len(grants)-1] != g {
			grants = append(grants, g)
		}
		appendAll(t, s, []Entry{e})
	}
	closed(t, s)
	if diff := cmp.Diff([]Keep{All, Failed, None}, grants); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := s.Position(); at > perJob+1000 {
		t.Errorf("got %d bytes of at most %d", at, perJob)
	}
	var limits []Keep
	for _, e := range readAll(t, dir, Query{}) {
		if e.Limit != "" {
			limits = append(limits, e.Limit)
		}
	}
	if diff := cmp.Diff([]Keep{Failed, None}, limits); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

func TestFollowGoesOnUntilNobodyRunsTheJob(t *testing.T) {
	dir := t.TempDir() // real files: what waits in a bubble is only the clock
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir, Options{FileSize: 300, NoSync: true})
		entries := numbered(20)
		next := 0
		running := func() bool {
			if next < len(entries) {
				appendAll(t, s, entries[next:next+2])
				next += 2
			}
			return next < len(entries)
		}
		var got []Entry
		for e, err := range Follow(t.Context(), dir, Query{}, running) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		closed(t, s)
		if diff := cmp.Diff(entries, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"1KiB": 1 << 10, "256KiB": 256 << 10, "3MiB": 3 << 20, "1GiB": 1 << 30} {
		var got Size
		if err := got.ReadText(text); got != want || err != nil || got.String() != text {
			t.Errorf("%s: got %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "KiB", "0KiB", "-1KiB", "+1KiB", "1.5MiB", "01KiB", "512B", "1 KiB", "1KB", "1kib", "9999999999GiB", "99999999999999999999B"} {
		var got Size
		if err := got.ReadText(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// Whatever a file holds, reading it ends, and gives only entries whose checksums are right.
func FuzzRead(f *testing.F) {
	var whole bytes.Buffer
	for _, e := range numbered(3) {
		line, _ := e.line()
		whole.Write(line)
	}
	f.Add(whole.Bytes(), false)
	f.Add(whole.Bytes()[:100], true)
	f.Add([]byte("{}\n\n{\"crc\":\"00000000\"}\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, second bool) {
		dir := t.TempDir()
		path := filepath.Join(dir, fmt.Sprintf("%s%016d%s", prefix, 0, suffix))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if second {
			next := filepath.Join(dir, fmt.Sprintf("%s%016d%s", prefix, len(data), suffix))
			if err := os.WriteFile(next, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		lines := 0
		for l := range Examine(dir) {
			if lines++; lines > 2*bytes.Count(data, []byte("\n"))+4 {
				t.Fatal("there are more lines than line feeds")
			}
			if l.Err == nil && !bytes.Contains(data, l.Text) {
				t.Fatalf("%q is not in the file", l.Text)
			}
		}
		s, err := Open(dir, Options{PerJob: 1 << 30, NoSync: true})
		if err != nil {
			return
		}
		e := numbered(1)[0]
		if _, err := s.Append(e); err != nil {
			t.Fatal(err)
		}
		closed(t, s)
		var last Entry
		for e, err := range Read(dir, Query{}) {
			if err == nil {
				last = e
			}
		}
		if !cmp.Equal(last, e) {
			t.Fatalf("got %+v, want what was appended last", last)
		}
	})
}

// An error of the disk is told once, and nothing is written behind it.
func TestAStoreThatCannotBeWrittenSaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	s := open(t, dir, Options{})
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(numbered(1)[0]); err == nil || !strings.Contains(err.Error(), "the outputs cannot be written") {
		t.Errorf("got %v, want an error", err)
	}
}

func BenchmarkAppend(b *testing.B) {
	s, err := Open(b.TempDir(), Options{PerJob: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	e := numbered(1)[0]
	for b.Loop() {
		if _, err := s.Append(e); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(dir, Options{PerJob: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range numbered(10_000) {
		if _, err := s.Append(e); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, err := range Read(dir, Query{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestTheLastLines(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	entry := func(item string, end *End, parts ...Part) Entry {
		return Entry{Time: noon, Source: Source{ItemID: item, Attempt: 1, Step: "a", Command: 1}, Printed: parts, End: end}
	}
	out := func(text string) Part { return Part{Stdout, []byte(text)} }
	long := strings.Repeat("ä", 2000)
	appendAll(t, s, []Entry{
		entry("item_1", nil, out("one\n\ntw")), entry("item_2", nil, out("other\n")), entry("item_1", nil, Part{Stderr, []byte("err")}),
		entry("item_1", &End{}, out("o\n"+long), Part{Stderr, []byte("or\xff\n")}),
	})
	closed(t, s)
	want := Tail{Before: 1, Lines: []TailLine{{"a", false, "two"}, {"a", true, "error\ufffd"}, {"a", false, long[:1024]}}}
	if diff := cmp.Diff(want, LastLines(dir, Query{ItemID: "item_1"}, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
