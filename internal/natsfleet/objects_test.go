package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// ended is how an attempt ended.
type ended struct {
	outcome agent.Outcome
	err     error
}

// submitted opens the job of a coordinator, and gives it an attempt that a puppet takes. It returns the puppet, the attempt's token and how it ends.
func submitted(f *field, c *coordinator) (*puppet, int64, chan ended) {
	f.t.Helper()
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	end := make(chan ended, 1)
	c.Submit(f.t.Context(), attemptAt(f, 1, "true"), func(_ *agent.Attempt, o agent.Outcome, err error) { end <- ended{o, err} })
	p := f.puppet(c)
	return p, p.take(), end
}

// put has the broker keep an object.
func (h *brokerConn) put(ctx context.Context, name string, data []byte) error {
	store, err := h.js.ObjectStore(ctx, filesStore)
	if err == nil {
		_, err = store.PutBytes(ctx, name, data)
	}
	return err
}

// inPieces returns the end of an attempt as it is sent if it is too large for a message.
func (p *puppet) inPieces(token int64) (reports []fleet.Report) {
	whole := encoded(p.report(token, 1, fleet.Ended))
	for i, piece := range fleet.Pieces(whole, len(whole)/2) {
		r := p.report(token, i+1, fleet.Ended)
		r.Outcome, r.Piece = nil, &piece
		reports = append(reports, r)
	}
	return reports
}

// The pieces of a report are answered with the last of them: who has only some may die, and the next run needs all.
func TestALargeReportIsTakenWhenAllOfItIsThere(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	p, token, end := submitted(f, c)
	pieces := p.inPieces(token)
	left := []*storedReport{{}, {}}
	c.report(pieces[1], left[1])
	if left[1].again != relayRetry {
		t.Error("the last piece is taken before the others")
	}
	c.report(pieces[0], left[0])
	c.report(pieces[0])
	c.turn(func(s *jobState) {
		for more := true; more; {
			var letter fleet.Letter
			if letter, more = s.ledger.Next(); len(letter.Acks) > 0 {
				t.Errorf("answered: %+v", letter.Acks)
			}
		}
	})
	for _, r := range pieces[1:] {
		c.report(r, left[1])
	}
	if e := <-end; e.err != nil || e.outcome.Output != "fine" {
		t.Errorf("it ended with %q, %v, want what was reported", e.outcome.Output, e.err)
	}
	c.turn(func(s *jobState) {
		if n := len(s.ended[token].msgs); n != len(pieces) {
			t.Errorf("the broker forgets %d of the pieces when their record is on disk, want both", n)
		}
	})
}

func TestAReportThatHasLostAPieceLosesItsAttempt(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	p, token, end := submitted(f, c)
	pieces := p.inPieces(token)
	pieces[0].Piece.Data = []byte("altered")
	p.say([]int64{token}, pieces...)
	e := <-end
	if _, lost := errors.AsType[*agent.LostError](e.err); !lost || !strings.Contains(e.err.Error(), "the broker lost part of its report") {
		t.Errorf("got %v, want that it is lost", e.err)
	}
}

// whenAsked calls do once the broker was asked for an object.
func whenAsked(t *testing.T, c *coordinator, object string, do func()) {
	t.Helper()
	store, err := c.js.ObjectStore(t.Context(), filesStore)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.GetInfo(t.Context(), object); !errors.Is(err, jetstream.ErrObjectNotFound) {
		t.Fatalf("got %v, want that there is no such object", err)
	}
	asked := make(chan struct{}, 100)
	sub, err := c.nc.Subscribe("$JS.API.DIRECT.GET."+filesStream+".>", func(*nats.Msg) {
		select {
		case asked <- struct{}{}:
		default:
		}
	})
	if err == nil {
		err = c.nc.FlushTimeout(requestTime)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-asked:
			_ = sub.Unsubscribe()
			do()
		case <-t.Context().Done():
		}
	}()
	t.Cleanup(func() { <-done })
}

func TestAFileThatTheBrokerDoesNotFindAtOnceIsNotLost(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	f.write("made", "made", 0o600)
	from := opened(t, filepath.Join(f.root, "run", "made"))
	const object = "job/made-1"
	file, err := c.putFile(t.Context(), "job/another", from)
	if err != nil {
		t.Fatal(err)
	}
	file.Path, file.Object = "made", object
	put := func() {
		if _, err := c.putFile(t.Context(), object, from); err != nil {
			t.Error(err)
		}
	}
	whenAsked(t, c, object, put)
	text := ""
	if err := c.fetchPack(t.Context(), t.TempDir(), &file, func(pack *os.File) error {
		data, err := os.ReadFile(pack.Name())
		text = string(data)
		return err
	}); err != nil || text != "made" {
		t.Errorf("a pack: got %q, %v, want what was sent", text, err)
	}
	if err := c.remove(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	c.produces = func(string, json.RawMessage) ([]string, error) { return []string{"made"}, nil }
	flight := newFlight(t.Context(), &agent.Attempt{Assignment: agent.Assignment{Token: 1}})
	c.turn(func(s *jobState) { s.flights[1] = flight })
	whenAsked(t, c, object, put)
	if err := c.fetchMade(flight, []fleet.File{file}); err != nil {
		t.Errorf("what was produced: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(c.o.Dir, "made")); err != nil || string(data) != "made" {
		t.Errorf("got %q, %v, want what was produced", data, err)
	}
	c.turn(func(s *jobState) { delete(s.flights, 1) })
}

// slowWriter takes a long time for its first bytes.
type slowWriter struct {
	began bool
	size  int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.began = true
		time.Sleep(requestTime + 500*time.Millisecond)
	}
	w.size += len(p)
	return len(p), nil
}

// A large object takes its time. The client of NATS would give each 5 s.
func TestAnObjectThatTakesItsTimeArrives(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	dir := t.TempDir()
	const size = 1 << 20
	if err := os.WriteFile(filepath.Join(dir, "x"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := c.putFile(t.Context(), "k/x", opened(t, filepath.Join(dir, "x")))
	if err != nil {
		t.Fatal(err)
	}
	to := new(slowWriter)
	if err := c.getFile(t.Context(), file, to); err != nil || to.size != size {
		t.Errorf("%d bytes have arrived, and %v, want %d", to.size, err, size)
	}
}

// The client of NATS waits for the data of an object that the broker has lost, and only looks at the deadline.
func TestNobodyWaitsForAnObjectLongerThanForItsContext(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := c.putFile(t.Context(), "k/x", opened(t, path))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.js.Stream(t.Context(), "OBJ_"+filesStore)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject("$O."+filesStore+".C.>")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	ended := make(chan error, 1)
	go func() { ended <- c.getFile(ctx, file, io.Discard) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("an object without its data was read")
		}
	case <-time.After(time.Minute):
		t.Error("it is still waited for")
	}
}

// A consumer that is removed, as by an administrator, delivers nothing any more. What workers leave with the broker is read all the same.
func TestReportsAreReadAfterTheirConsumerWasRemoved(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	p, token, end := submitted(f, c)
	if err := c.js.DeleteConsumer(t.Context(), outStream, c.key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.js.Publish(t.Context(), outSubject(p.instance, c.key, strconv.FormatInt(token, 10)), encoded(p.report(token, 1, fleet.Ended))); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-end:
		if e.err != nil {
			t.Error(e.err)
		}
	case <-time.After(time.Minute):
		t.Error("the report is not read")
	}
}

func TestAFileThatChangesWhileItIsReadIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	_, err = readFile(from, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return errors.Join(err, os.WriteFile(name, []byte("longer"), 0o600))
	})
	if path, is := errors.AsType[*fs.PathError](err); !is || path.Path != name {
		t.Errorf("got %v, want that the file changed", err)
	}
}
