package events

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// memory is a file whose writes and syncs can be made to fail.
type memory struct {
	mu                sync.Mutex
	written           []byte
	writes, syncs     int
	synced            int // bytes
	writeErr, syncErr error
	closed            bool
}

func (m *memory) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writeErr != nil {
		m.written = append(m.written, p[:len(p)/2]...)
		return len(p) / 2, m.writeErr
	}
	m.writes++
	m.written = append(m.written, p...)
	return len(p), nil
}

func (m *memory) Name() string { return "events-0.jsonl" }

func (m *memory) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.syncErr != nil {
		return m.syncErr
	}
	m.syncs++
	m.synced = len(m.written)
	return nil
}

func (m *memory) Close() error {
	m.closed = true
	return nil
}

// lines returns how many lines were written and how many of them synced.
func (m *memory) lines() (written, synced int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Count(m.written, []byte("\n")), bytes.Count(m.written[:m.synced], []byte("\n"))
}

func (m *memory) syncCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.syncs
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func seqs(records []Record) []int64 {
	var all []int64
	for _, r := range records {
		all = append(all, r.Seq)
	}
	return all
}

func TestALogIsReadAsItWasAppended(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "repo", "j")
	var durable, want []Record
	o := Options{Durable: func(r []Record, _ Position) error { durable = append(durable, r...); return nil }}
	l, err := Create(dir, "j", start0, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range samples() {
		want = append(want, l.Append(start0.Add(time.Duration(i)), e))
	}
	closeLog(t, l)
	for i, r := range want {
		if r.Seq != int64(i+1) {
			t.Fatalf("record %d has seq %d", i+1, r.Seq)
		}
	}
	if diff := cmp.Diff(readAll(t, dir), want); diff != "" {
		t.Errorf("read (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(durable, want); diff != "" {
		t.Errorf("seen by Durable (-got +want):\n%s", diff)
	}
}

func TestRecordsOfAnItemCarryItsCorrelationID(t *testing.T) {
	l := start(output{file: &memory{}}, "j", 0, Options{})
	defer closeLog(t, l)
	if got := l.Append(start0, AgentSkipped{ItemID: "a"}).CorrelationID; got != "j/a" {
		t.Errorf("got %q, want j/a", got)
	}
	if got := l.Append(start0, JobPaused{}).CorrelationID; got != "j" {
		t.Errorf("got %q, want j", got)
	}
}

func TestFilesAndDirectoriesOfALogArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	dir := filepath.Join(t.TempDir(), "repo", "j")
	l, err := Create(dir, "j", start0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	files, err := logFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, files[0]: 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

func TestAWrittenRecordIsSyncedWithin50Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		l := start(output{file: &m}, "j", 0, Options{Durability: Batch})
		l.Append(time.Now(), JobPaused{})
		synctest.Wait()
		if written, synced := m.lines(); written != 1 || synced != 0 {
			t.Errorf("at once: got %d lines written, %d synced, want 1 and 0", written, synced)
		}
		time.Sleep(49 * time.Millisecond)
		l.Append(time.Now(), JobPaused{})
		synctest.Wait()
		if written, synced := m.lines(); written != 2 || synced != 0 {
			t.Errorf("after 49 ms: got %d lines written, %d synced, want 2 and 0", written, synced)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if _, synced := m.lines(); synced != 2 || m.syncCount() != 1 {
			t.Errorf("after 50 ms: got %d lines in %d syncs, want 2 in 1", synced, m.syncCount())
		}
		time.Sleep(time.Second)
		if m.syncCount() != 1 {
			t.Errorf("with nothing to write: got %d syncs, want 1", m.syncCount())
		}
		closeLog(t, l)
	})
}

// Whoever waits does not wait for the next of the syncs that come anyway.
func TestAWaitIsForOneSync(t *testing.T) {
	for _, tt := range []struct {
		durability Durability
		syncs      int
	}{{"", 1}, {Batch, 1}, {Strict, 1}, {None, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var m memory
			l := start(output{file: &m}, "j", 0, Options{Durability: tt.durability})
			begin := time.Now()
			r := l.Append(begin, JobPaused{})
			if err := l.Wait(r.Seq); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got != 0 || m.syncCount() != tt.syncs {
				t.Errorf("%q: got %v and %d syncs, want none and %d", tt.durability, got, m.syncCount(), tt.syncs)
			}
			closeLog(t, l)
		})
	}
}

// What has been flushed is in the file although nothing has been synced: it survives the end of prodigy.
func TestFlushWaitsForTheWriteAndNotForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		l := start(output{file: &m}, "j", 0, Options{})
		for n := range 3 {
			l.Append(time.Now(), JobPaused{})
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			if written, synced := m.lines(); written != n+1 || synced != 0 {
				t.Errorf("got %d records written and %d synced, want %d and none", written, synced, n+1)
			}
		}
		closeLog(t, l)
		if err := l.Flush(); err != nil {
			t.Errorf("got %v for what had been written before the end, want nothing", err)
		}
	})
}

func TestFlushTellsTheWriteError(t *testing.T) {
	full := errors.New("disk full")
	l := start(output{file: &memory{writeErr: full}}, "j", 0, Options{})
	l.Append(start0, JobPaused{})
	if err := l.Flush(); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if err := l.Close(); !errors.Is(err, full) {
		t.Errorf("close: got %v, want %v", err, full)
	}
	l.Append(start0, JobPaused{})
	if err := l.Flush(); !errors.Is(err, full) {
		t.Errorf("after the end: got %v, want %v", err, full)
	}
}

func TestStrictDoesNotSyncAtOnceWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		l := start(output{file: &m}, "j", 0, Options{Durability: Strict})
		l.Append(time.Now(), JobPaused{})
		synctest.Wait()
		if m.syncCount() != 0 {
			t.Errorf("got %d syncs, want 0", m.syncCount())
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if m.syncCount() != 1 {
			t.Errorf("after 50 ms: got %d syncs, want 1", m.syncCount())
		}
		closeLog(t, l)
	})
}

func TestDurableSeesRecordsOnlyOnceTheyAreSynced(t *testing.T) {
	var m memory
	var seen []int64
	l := start(output{file: &m}, "j", 0, Options{Durability: Strict, Durable: func(records []Record, _ Position) error {
		seen = append(seen, seqs(records)...)
		if _, synced := m.lines(); synced < len(seen) {
			return fmt.Errorf("%d seen, %d synced", len(seen), synced)
		}
		return nil
	}})
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			for range 50 {
				if err := l.Wait(l.Append(start0, JobPaused{}).Seq); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	for i, seq := range seen {
		if seq != int64(i+1) {
			t.Fatalf("record %d came as number %d", seq, i+1)
		}
	}
	if len(seen) != 200 {
		t.Errorf("got %d records, want 200", len(seen))
	}
}

func TestCloseWritesSyncsAndShowsWhatIsLeft(t *testing.T) {
	for durability, syncs := range map[Durability]int{Batch: 1, Strict: 1, None: 0} {
		var m memory
		var seen []Record
		l := start(output{file: &m}, "j", 0, Options{Durability: durability, Durable: func(r []Record, _ Position) error { seen = append(seen, r...); return nil }})
		for range 3 {
			l.Append(start0, JobPaused{})
		}
		closeLog(t, l)
		closeLog(t, l)
		if written, _ := m.lines(); written != 3 || len(seen) != 3 || m.syncs != syncs || !m.closed {
			t.Errorf("%s: got %d written, %d seen, %d syncs, closed %v, want 3, 3, %d, true", durability, written, len(seen), m.syncs, m.closed, syncs)
		}
		if err := l.Wait(3); err != nil {
			t.Errorf("%s: Wait for a written record after Close: %v", durability, err)
		}
		r := l.Append(start0, JobPaused{})
		if err := l.Wait(r.Seq); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: Wait for a dropped record: got %v, want %v", durability, err, ErrClosed)
		}
	}
}

func TestAnErrorStopsTheLogForGood(t *testing.T) {
	full := errors.New("no space left on device")
	tests := map[string]struct {
		file    memory
		durable error
	}{
		"write":   {file: memory{writeErr: full}},
		"sync":    {file: memory{syncErr: full}},
		"durable": {durable: full},
	}
	for name := range tests {
		t.Run(name, func(t *testing.T) {
			m := &memory{writeErr: tests[name].file.writeErr, syncErr: tests[name].file.syncErr}
			l := start(output{file: m}, "j", 0, Options{Durability: Strict, Durable: func([]Record, Position) error { return tests[name].durable }})
			r := l.Append(start0, JobPaused{})
			if err := l.Wait(r.Seq); !errors.Is(err, full) {
				t.Errorf("Wait: got %v, want %v", err, full)
			}
			<-l.Failed()
			before := len(m.written)
			later := l.Append(start0, JobPaused{})
			if later.Seq != r.Seq+1 {
				t.Errorf("got a record %d after the error, want %d", later.Seq, r.Seq+1)
			}
			for what, err := range map[string]error{"Wait": l.Wait(later.Seq), "Err": l.Err(), "Close": l.Close()} {
				if !errors.Is(err, full) {
					t.Errorf("%s: got %v, want %v", what, err, full)
				}
			}
			if n := l.pending.lines.Len(); n != 0 {
				t.Errorf("after the error: %d bytes are kept for nobody", n)
			}
			if len(m.written) != before || !m.closed {
				t.Errorf("after the error: %d bytes written, closed %v", len(m.written)-before, m.closed)
			}
		})
	}
}

func TestAnEventThatCannotBeEncodedStopsTheLogButNotWhatCameBefore(t *testing.T) {
	var m memory
	l := start(output{file: &m}, "j", 0, Options{Durability: Batch})
	l.Append(start0, JobPaused{})
	l.Append(start0, AgentCompleted{ItemOutput: ItemOutput{Captured: map[string]json.RawMessage{
		"x": nil,
		"y": json.RawMessage("{"),
	}}})
	<-l.Failed()
	if err := l.Wait(1); err != nil {
		t.Errorf("Wait for the record before: %v", err)
	}
	if err := l.Wait(2); err == nil {
		t.Error("Wait for the bad record: got no error")
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "AgentCompleted") {
		t.Errorf("Close: got %v, want an error that names the event", err)
	}
	if written, synced := m.lines(); written != 1 || synced != 1 {
		t.Errorf("got %d lines written, %d synced, want 1 and 1", written, synced)
	}
}

// blocked is a file whose first write takes until it is let go.
type blocked struct {
	memory
	once sync.Once
	gate chan error
}

func (b *blocked) Write(p []byte) (int, error) {
	var err error
	b.once.Do(func() { err = <-b.gate })
	if err != nil {
		return 0, err
	}
	return b.memory.Write(p)
}

func TestAppendWaitsForAWriterThatIsFarBehind(t *testing.T) {
	for _, end := range []error{nil, errors.New("disk full")} {
		synctest.Test(t, func(t *testing.T) {
			b := &blocked{gate: make(chan error)}
			l := start(output{file: b}, "j", 0, Options{})
			const n = 40 // 64 KiB each
			appended := 0
			var group errgroup.Group
			group.Go(func() error {
				for range n {
					l.Append(start0, AgentCompleted{ItemOutput: ItemOutput{Output: strings.Repeat("x", MaxOutput)}})
					appended++
				}
				return nil
			})
			synctest.Wait()
			if appended == n || appended < 16 {
				t.Errorf("got %d records of 64 KiB appended to a stuck log, want some more than 1 MiB", appended)
			}
			b.gate <- end
			if err := group.Wait(); err != nil || appended != n {
				t.Errorf("got %d appended, want %d", appended, n)
			}
			if err := l.Close(); !errors.Is(err, end) {
				t.Errorf("got %v, want %v", err, end)
			}
			if written, _ := b.lines(); end == nil && written != n {
				t.Errorf("got %d lines, want %d", written, n)
			}
		})
	}
}

func TestALogIsNotCreatedOverAnother(t *testing.T) {
	dir := t.TempDir()
	l, err := Create(dir, "j", start0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if _, err := Create(dir, "j", start0.Add(time.Hour), Options{}); err == nil {
		t.Error("got a second log in the same directory")
	}
}

// Cut at any byte, a log goes on behind its last whole record, and has no gap and no damage.
func TestALogThatWasCutAnywhereGoesOnBehindItsLastWholeRecord(t *testing.T) {
	records := sampleRecords()[4:8]
	for i := range records {
		records[i].Seq = int64(i + 1)
	}
	whole := encodeAll(t, records)
	for cut := range len(whole) + 1 {
		dir := t.TempDir()
		path := filepath.Join(dir, "events-1.jsonl")
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		last := int64(bytes.Count(whole[:cut], []byte("\n")))
		l, err := Open(dir, "j", last, Options{Durability: None})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		next := l.Append(start0, JobPaused{})
		closeLog(t, l)
		want := append(records[:last:last], next)
		if diff := cmp.Diff(readAll(t, dir), want); diff != "" {
			t.Fatalf("cut at %d (-got +want):\n%s", cut, diff)
		}
	}
}

// After a power loss a file may end in bytes that were never written.
func TestAnUnreadableLastLineIsCutOff(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events-1.jsonl")
	whole := encodeAll(t, sampleRecords()[:2])
	if err := os.WriteFile(path, append(whole, "\x00\x00\x00\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir, "j", 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("got %q %v, want %q", got, err, whole)
	}
}

func TestOpenRefusesALogThatEndsElsewhere(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, "j", 0, Options{}); err == nil {
		t.Error("no log: got no error")
	}
	files := map[string]string{"events-1.jsonl": string(encodeAll(t, sampleRecords()[:2])), "events-2.jsonl": ""}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, "j", 1, Options{}); err == nil {
		t.Error("ends with record 2: got no error for 1")
	}
	l, err := Open(dir, "j", 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
}

// The test runs itself as the process that is killed.
func TestAKilledProcessLosesNothingThatItWaitedFor(t *testing.T) {
	if dir := os.Getenv("EVENTS_TEST_DIR"); dir != "" {
		appendUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestAKilledProcessLosesNothingThatItWaitedFor$")
	child.Env = append(os.Environ(), "EVENTS_TEST_DIR="+dir)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(stdout)
	for n := 0; n < 500 && said.Scan(); n++ {
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	last := said.Text()
	for said.Scan() {
		last = said.Text()
	}
	if err := child.Wait(); err == nil {
		t.Error("the child was not killed")
	}
	want, err := strconv.Atoi(last)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, err := range Read(dir) {
		if err == nil {
			got++
		} else if !errors.Is(err, ErrTorn) {
			t.Fatal(err)
		}
	}
	if got < want {
		t.Errorf("got %d records, want at least the %d that were waited for", got, want)
	}
}

func appendUntilKilled(t *testing.T, dir string) {
	l, err := Create(dir, "j", start0, Options{Durability: None})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r := l.Append(start0, JobPaused{Reason: "soon"})
		if err := l.Wait(r.Seq); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Println(r.Seq); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, durability := range []Durability{None, Batch} {
		b.Run(string(durability), func(b *testing.B) {
			l, err := Create(b.TempDir(), "mapreduce-20261120-161530-k3f9", start0, Options{Durability: durability})
			if err != nil {
				b.Fatal(err)
			}
			e := AgentCompleted{
				AttemptID: AttemptID{
					ItemID: "item_123456", AgentID: "mapreduce-20261120-161530-k3f9/item_123456/1",
					Attempt: 1,
				},
				Worker: 3, DurationMS: 1234000,
			}
			b.ReportAllocs()
			for b.Loop() {
				l.Append(start0, e)
			}
			closeLog(b, l)
		})
	}
}
