package events

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// marked writes a log over several files, the earlier of which are compressed, and returns its records and a mark of each.
func marked(t *testing.T, size int64) (dir string, all []Record, marks []Mark) {
	t.Helper()
	dir = t.TempDir()
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var ends []Mark
	o := Options{Durability: Strict, MaxFileSize: size, Durable: func(records []Record, end Position) error {
		m, err := MarkOf(dir, records[len(records)-1], end)
		ends = append(ends, m)
		return err
	}}
	l, err := Create(dir, "job", began, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		r := l.Append(began.Add(time.Duration(i)*time.Second), AgentStarted{AttemptID: AttemptID{
			ItemID:    "item",
			ItemIndex: i, AgentID: "job/item/1", Attempt: 1,
		}})
		all = append(all, r)
		if err := l.Wait(r.Seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, all, ends
}

// A log that is read behind a mark gives what is behind it of the whole log, over files that were compressed since.
func TestReadBehindAMarkGivesTheRest(t *testing.T) {
	for _, size := range []int64{0, 1000} {
		dir, all, marks := marked(t, size)
		if len(marks) != len(all) {
			t.Fatalf("got %d marks of %d records", len(marks), len(all))
		}
		for i, m := range marks {
			if !Holds(dir, m) {
				t.Fatalf("files of %d bytes: the log does not hold %+v", size, m)
			}
			rest := []Record{}
			for r, err := range ReadBehind(dir, m) {
				if err != nil {
					t.Fatal(err)
				}
				rest = append(rest, r)
			}
			if diff := cmp.Diff(all[i+1:], rest); diff != "" {
				t.Fatalf("files of %d bytes, behind record %d (-want +got):\n%s", size, m.Seq, diff)
			}
		}
	}
}

func TestAMarkIsOfOneRecordAtOnePlace(t *testing.T) {
	dir, _, marks := marked(t, 1000)
	compressed, plain := marks[1], marks[len(marks)-1]
	for name, change := range map[string]func(*Mark){
		"another file":               func(m *Mark) { m.File = "events-20200101T000000.000000Z.jsonl" },
		"further on":                 func(m *Mark) { m.Offset++ },
		"before":                     func(m *Mark) { m.Offset-- },
		"before the file":            func(m *Mark) { m.Offset = -1 },
		"behind the file":            func(m *Mark) { m.Offset = 1 << 40 },
		"the next record":            func(m *Mark) { m.Seq++ },
		"a record before the file's": func(m *Mark) { m.Seq = 0 },
		"another record":             func(m *Mark) { m.Sum = sumOf([]byte("another\n")) },
		"no record":                  func(m *Mark) { m.Sum = nil },
	} {
		for _, m := range []Mark{compressed, plain} {
			change(&m)
			if Holds(dir, m) {
				t.Errorf("%s: the log holds %+v", name, m)
			}
		}
	}
	if Holds(filepath.Join(dir, "none"), plain) {
		t.Error("a log that is not there holds a record")
	}
}

// What was done to a file before that of the mark is noticed without reading it, but for what leaves its size and its time as they were.
func TestAMarkNoticesWhatWasDoneToTheFilesBefore(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"nothing":       func(string) error { return nil },
		"removed":       os.Remove,
		"cut off":       func(path string) error { return os.Truncate(path, 50) },
		"another file":  func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"another place": func(path string) error { return os.Rename(path, path+".old") },
		"changed": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Microsecond))
		},
		"one more before": func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), "events-20200101T000000.000000Z.jsonl"), nil, 0o600)
		},
	} {
		dir, all, _ := marked(t, 1000)
		files, err := logFiles(dir)
		if err != nil || len(files) < 3 {
			t.Fatalf("got files %q (%v), want some", files, err)
		}
		m := markOfLast(t, dir, files[len(files)-1], all)
		if err := damage(files[1]); err != nil {
			t.Fatal(err)
		}
		if got, want := Holds(dir, m), name == "nothing"; got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}

// markOfLast returns the mark of the last record of a log, which the file at path ends with.
func markOfLast(t *testing.T, dir, path string, all []Record) Mark {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := MarkOf(dir, all[len(all)-1], Position{File: filepath.Base(path), Offset: info.Size()})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Damage behind a mark is told as by Read: with its line, and as torn at the end of the log only.
func TestDamageBehindAMarkIsTold(t *testing.T) {
	dir, _, marks := marked(t, 0)
	files, err := logFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	for name, tt := range map[string]struct{ log, want string }{
		"a line that is none": {strings.Join(lines[:20], "") + "x\n" + strings.Join(lines[21:], ""), files[0] + ":21: "},
		"a line that is gone": {strings.Join(lines[:20], "") + strings.Join(lines[21:], ""), files[0] + ":21: found record 22, expected record 21"},
		"no end":              {strings.Join(lines[:20], "") + lines[20][:9], ErrTorn.Error()},
	} {
		if err := os.WriteFile(files[0], []byte(tt.log), 0o600); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, last = range ReadBehind(dir, marks[4]) {
		}
		if last == nil || !strings.HasPrefix(last.Error(), tt.want) || (tt.want == ErrTorn.Error()) != errors.Is(last, ErrTorn) {
			t.Errorf("%s: got %v, want %s", name, last, tt.want)
		}
	}
}
