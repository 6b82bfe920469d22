package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"prodigy/internal/jobs"

	"github.com/google/go-cmp/cmp"
)

// small makes a file of two records.
const small = 360

// appendEach appends n records, each in a batch of its own.
func appendEach(t testing.TB, l *Log, n int) {
	t.Helper()
	for range n {
		r := l.Append(start0.Add(time.Minute), AgentSkipped{ItemID: "a", Reason: "b"})
		if err := l.Wait(r.Seq); err != nil {
			t.Fatal(err)
		}
	}
}

// rotated returns a directory with a log of n records in files of two, all but the newest compressed.
func rotated(t testing.TB, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	l, err := Create(dir, "j", start0, Options{Durability: None, MaxFileSize: small})
	if err != nil {
		t.Fatal(err)
	}
	appendEach(t, l, n)
	closeLog(t, l)
	return dir
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func upTo(n int64) []int64 {
	var all []int64
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func TestALogGoesOnInANewFileAndCompressesTheOldOne(t *testing.T) {
	dir := rotated(t, 7)
	want := []string{
		"events-20261120T161530.123456Z.jsonl.zst", "events-20261120T161630.123456Z.jsonl.zst",
		"events-20261120T161630.123457Z.jsonl.zst", "events-20261120T161630.123458Z.jsonl",
	}
	if diff := cmp.Diff(names(t, dir), want); diff != "" {
		t.Errorf("files (-got +want):\n%s", diff)
	}
	packed, err := os.ReadFile(filepath.Join(dir, want[0]))
	if err != nil || !bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		t.Errorf("got %x %v, want a file of zstd", packed, err)
	}
	if got := seqs(readAll(t, dir)); !slices.Equal(got, upTo(7)) {
		t.Errorf("got %v, want 1 to 7", got)
	}
	lines, err := collect(t, dir, Query{Limit: 3})
	if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], `{"seq":5,`) {
		t.Errorf("got %v %v, want the last three lines", lines, err)
	}
}

func TestALogIsOpenedBehindItsRotatedFiles(t *testing.T) {
	dir := rotated(t, 6)
	for last := int64(6); last < 12; last += 3 {
		l, err := Open(dir, "j", last, Options{Durability: None, MaxFileSize: small})
		if err != nil {
			t.Fatal(err)
		}
		appendEach(t, l, 3)
		closeLog(t, l)
	}
	if got := seqs(readAll(t, dir)); !slices.Equal(got, upTo(12)) {
		t.Errorf("got %v, want 1 to 12", got)
	}
}

func TestTheNextFileSortsBehindTheLastAlsoWhenTheClockWasSetBack(t *testing.T) {
	for _, before := range []string{
		"", "events-20300101T000000.999999Z.jsonl", "events-20300101T000000.999999Z.jsonl.zst", "events-later.jsonl",
		"events-20261120T161530.123456Z.jsonl", "events-0.jsonl",
	} {
		next := nextPath("log", filepath.Join("log", before), start0)
		if next <= filepath.Join("log", before) || !strings.HasSuffix(next, ".jsonl") || filepath.Dir(next) != "log" {
			t.Errorf("got %s after %q", next, before)
		}
	}
}

// Whatever moment of a rotation and of the compression that follows is the last of a run, the log is read and goes on.
func TestACrashInARotationLosesNothing(t *testing.T) {
	whole := rotated(t, 3)
	files, err := logFiles(whole)
	if err != nil {
		t.Fatal(err)
	}
	old, zipped := filepath.Base(jobs.UnpackedName(files[0])), filepath.Base(files[0])
	original := []byte(numberedSkips(t, whole))
	crash := map[string]func(t *testing.T, dir string){
		"before the next file": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, zipped), filepath.Join(dir, filepath.Base(files[1])))
			write(t, filepath.Join(dir, old), original)
		},
		"before its first line": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, filepath.Base(files[1])), nil)
		},
		"before the compression": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, zipped))
			write(t, filepath.Join(dir, old), original)
		},
		"within the compression": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, zipped))
			write(t, filepath.Join(dir, old), original)
			write(t, filepath.Join(dir, "."+zipped+"-123"), []byte{0x28, 0xb5})
		},
		"before the original goes": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, old), original)
		},
	}
	for name, leave := range crash {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			leave(t, dir)
			got := seqs(readAll(t, dir))
			if len(got) < 2 || !slices.Equal(got, upTo(int64(len(got)))) {
				t.Fatalf("got records %v", got)
			}
			l, err := Open(dir, "j", int64(len(got)), Options{Durability: None, MaxFileSize: small})
			if err != nil {
				t.Fatal(err)
			}
			appendEach(t, l, 3)
			closeLog(t, l)
			if after := seqs(readAll(t, dir)); !slices.Equal(after, upTo(int64(len(got)+3))) {
				t.Errorf("got records %v after it went on", after)
			}
			left := names(t, dir)
			for _, n := range left[:len(left)-1] {
				if !jobs.IsPacked(n) || strings.HasPrefix(n, ".") {
					t.Errorf("got %s among the rotated files", n)
				}
			}
		})
	}
}

// numberedSkips returns the text of the first file of the log in dir.
func numberedSkips(t *testing.T, dir string) string {
	t.Helper()
	lines, err := collect(t, dir, Query{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines[:2], "\n") + "\n"
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALogWhoseNewestFileIsCompressedGoesOnInANewOne(t *testing.T) {
	dir := rotated(t, 2)
	files, err := logFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := compress(files[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "j", 1, Options{}); err == nil {
		t.Error("opened behind record 1 of 2")
	}
	l, err := Open(dir, "j", 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	appendEach(t, l, 1)
	closeLog(t, l)
	if got := seqs(readAll(t, dir)); !slices.Equal(got, upTo(3)) {
		t.Errorf("got %v, want 1 to 3", got)
	}
}

// Cut any file of a log anywhere: it reads as the first of its records, or as an error, and never as something else.
func TestAnyCutOfAnyFileReadsAsAPrefixOrAsAnError(t *testing.T) {
	whole := rotated(t, 6)
	files, err := logFiles(whole)
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	want := readAll(t, whole)
	for i, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		newest := i == len(files)-1
		for cut := range len(data) {
			write(t, filepath.Join(dir, filepath.Base(path)), data[:cut])
			var got []Record
			var last error
			for r, err := range Read(dir) {
				if last = err; err == nil {
					got = append(got, r)
				}
			}
			if diff := cmp.Diff(got, want[:len(got)]); diff != "" && len(got) > 0 {
				t.Fatalf("%s cut at %d (-got +want):\n%s", path, cut, diff)
			}
			if newest && last != nil && !errors.Is(last, ErrTorn) || !newest && (last == nil || errors.Is(last, ErrTorn)) {
				t.Fatalf("%s cut at %d: got %v", path, cut, last)
			}
			if !newest && !strings.Contains(last.Error(), ".jsonl") {
				t.Fatalf("%s cut at %d: %v names no file", path, cut, last)
			}
			lines, err := collect(t, dir, Query{})
			if len(lines) != len(got) || fmt.Sprint(err) != fmt.Sprint(last) {
				t.Fatalf("%s cut at %d: got %d lines and %v, but %d records and %v", path, cut, len(lines), err, len(got), last)
			}
		}
	}
}

func TestAMissingFileIsAnError(t *testing.T) {
	whole := rotated(t, 6)
	for _, name := range names(t, whole)[:2] {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		remove(t, filepath.Join(dir, name))
		var got error
		for _, err := range ReadLines(dir, Query{Type: "circuit_open"}) {
			got = err
		}
		if got == nil || !strings.Contains(got.Error(), "expected record") {
			t.Errorf("without %s: got %v", name, got)
		}
	}
}

// A reader may see the beginning of a line whose rest is written the next moment.
func TestALineThatGrowsWhileItIsReadIsNoDamage(t *testing.T) {
	text := numbered(t, 1, JobPaused{})
	half := strings.NewReader(text[:20])
	later := strings.NewReader(text[20:])
	s := newLineReader(&growing{parts: []*strings.Reader{half, later}}, "events-0.jsonl", true, new(seals))
	if _, err := s.line(); !errors.Is(err, ErrTorn) {
		t.Errorf("got %v, want ErrTorn", err)
	}
}

// growing is at its end after each part.
type growing struct{ parts []*strings.Reader }

func (g *growing) Read(p []byte) (int, error) {
	if len(g.parts) == 0 {
		return 0, nil
	}
	n, err := g.parts[0].Read(p)
	if err != nil {
		g.parts = g.parts[1:]
	}
	return n, err
}

func TestAReadErrorNamesFileAndLine(t *testing.T) {
	s := newLineReader(iotest.ErrReader(fs.ErrPermission), "events-0.jsonl", true, new(seals))
	s.number = 6
	_, err := s.line()
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "events-0.jsonl:7") {
		t.Errorf("got %v", err)
	}
}

// faulty is a log file that fails from a moment on.
type faulty struct {
	file
	write, sync, close error
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.write != nil {
		n, err := f.file.Write(p[:len(p)/2])
		return n, errors.Join(f.write, err)
	}
	return f.file.Write(p)
}

func (f *faulty) Sync() error  { return errors.Join(f.sync, f.file.Sync()) }
func (f *faulty) Close() error { return errors.Join(f.close, f.file.Close()) }

// A fault at any point loses nothing that somebody waited for, and is told.
func TestAFaultOfTheDiskLosesNothingAndIsTold(t *testing.T) {
	full := errors.New("no space left on device")
	for _, durability := range []Durability{Batch, Strict, None} {
		for name, fault := range map[string]struct {
			first, second faulty
			next          error
		}{
			"write of the first file":      {first: faulty{write: full}},
			"sync at the rotation":         {first: faulty{sync: full}},
			"end of the first file":        {first: faulty{close: full}},
			"beginning of the second file": {next: full},
			"write of the second file":     {second: faulty{write: full}},
			"sync of the second file":      {second: faulty{sync: full}},
		} {
			if durability == None && fault.second.sync != nil {
				continue // it is never asked for
			}
			t.Run(fmt.Sprint(durability, " ", name), func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "events-0.jsonl")
				write(t, path, []byte(numbered(t, 1, JobPaused{}, JobPaused{})))
				out, err := opened(path)
				if err != nil {
					t.Fatal(err)
				}
				first, second := fault.first, fault.second
				first.file, out.file = out.file, &first
				next := out.next
				out.next = func(path string) (file, error) {
					if fault.next != nil {
						return nil, fault.next
					}
					f, err := next(path)
					second.file = f
					return &second, err
				}
				waited, seen := int64(2), int64(0)
				o := Options{Durability: durability, MaxFileSize: out.size + 220, Durable: func(r []Record, _ Position) error {
					seen = r[len(r)-1].Seq
					return nil
				}}
				l := start(out, "j", 2, o)
				for range 6 {
					r := l.Append(start0, JobPaused{})
					if l.Wait(r.Seq) == nil {
						waited = r.Seq
					}
				}
				if err := l.Close(); !errors.Is(err, full) {
					t.Errorf("Close: got %v, want %v", err, full)
				}
				select {
				case <-l.Failed():
				default:
					t.Error("the log has not failed")
				}
				var got []int64
				for r, err := range Read(dir) {
					if err == nil {
						got = append(got, r.Seq)
					} else if !errors.Is(err, ErrTorn) {
						t.Fatal(err)
					}
				}
				if n := int64(len(got)); n < waited || n < seen || !slices.Equal(got, upTo(n)) {
					t.Errorf("got records %v, but %d was waited for and %d was shown", got, waited, seen)
				}
			})
		}
	}
}

func opened(path string) (output, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return output{}, err
	}
	return newOutput(f)
}

// What cannot be compressed stays as it is, and stops nothing.
func TestAFaultInCompressingIsToldByCloseOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, err := Create(dir, "j", start0, Options{Durability: None, MaxFileSize: small})
	if err != nil {
		t.Fatal(err)
	}
	// A directory that is not empty cannot be replaced by a file.
	blocked := filepath.Join(dir, "events-20261120T161530.123456Z.jsonl.zst")
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	appendEach(t, l, 7)
	if l.Err() != nil {
		t.Errorf("the log failed: %v", l.Err())
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "compress log") {
		t.Errorf("Close: got %v", err)
	}
	if err := l.Close(); err == nil {
		t.Error("the second Close says nothing")
	}
	if got := seqs(readAll(t, dir)); !slices.Equal(got, upTo(7)) {
		t.Errorf("got %v, want 1 to 7", got)
	}
	for _, name := range names(t, dir) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("%s is left", name)
		}
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(dir, "j", 7, Options{}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if _, err := os.Stat(blocked); err != nil {
		t.Errorf("the next Open has not compressed it: %v", err)
	}
}

func TestFollowGoesThroughRotations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, err := Create(dir, "j", start0, Options{Durability: None, MaxFileSize: small})
	if err != nil {
		t.Fatal(err)
	}
	appendEach(t, l, 5)
	n := 0
	for text, err := range Follow(t.Context(), dir, Query{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if h, err := decodeHead(text); err != nil || h.Seq != int64(n) {
			t.Fatalf("got record %d %v as number %d", h.Seq, err, n)
		}
		switch n {
		case 5, 8, 11:
			appendEach(t, l, 3) // the current file is compressed meanwhile
		case 14:
			l.Append(start0, JobCompleted{})
			closeLog(t, l)
		}
	}
	if n != 15 {
		t.Errorf("got %d lines, want 15", n)
	}
}

func TestFollowEndsWithAJobThatNobodyRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"killed":            {numbered(t, 1, JobStarted{}, PhaseStarted{}), 2},
		"killed in a write": {numbered(t, 1, JobStarted{}, JobPaused{}) + "{", 2},
		"over":              {numbered(t, 1, JobStarted{}, JobCompleted{}), 2},
		"nothing written":   {"", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			n := 0
			for _, err := range Follow(ctx, logDir(t, tt.text), Query{}, func() bool { return false }) {
				if err != nil {
					t.Fatal(name, err)
				}
				n++
			}
			if n != tt.want || ctx.Err() != nil {
				t.Errorf("%s: got %d lines, %v, want %d", name, n, ctx.Err(), tt.want)
			}
		})
	}
}

func TestFollowWaitsForAJobThatIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := logDir(t, numbered(t, 1, JobStarted{}, JobPaused{}))
		var over atomic.Bool
		time.AfterFunc(time.Second, func() {
			appendTo(t, filepath.Join(dir, "events-0.jsonl"), numbered(t, 3, JobResumed{}, AgentSkipped{}))
			over.Store(true)
		})
		n := 0
		for _, err := range Follow(t.Context(), dir, Query{}, func() bool { return !over.Load() }) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 4 {
			t.Errorf("got %d lines, want 4", n)
		}
	})
}

func TestAPackedLogIsOneFileWithAllLines(t *testing.T) {
	dir := rotated(t, 5)
	want, err := collect(t, dir, Query{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := logFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, files[len(files)-1], "{")
	var packed bytes.Buffer
	if err := Pack(&packed, dir); err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	write(t, filepath.Join(again, "events-0.jsonl.zst"), packed.Bytes())
	got, err := collect(t, again, Query{})
	if diff := cmp.Diff(got, want); diff != "" || err != nil {
		t.Errorf("%v (-got +want):\n%s", err, diff)
	}
	remove(t, files[0])
	if err := Pack(&packed, dir); err == nil {
		t.Error("a log that lacks a file was packed")
	}
}
