package job

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// foldVersion is increased by each change of what state.apply and the projection onto the dead letters make of
// a log, and of the shape in which both are written down: a checkpoint of another version is ignored. Tests
// notice either change and say what to do.
const foldVersion = 45

// Checkpoint is the fold of a job at one record of its log, so that a resume need not read the log up to
// there. The log stays the one truth: without a checkpoint, or with a bad one, it is read from its beginning.
type Checkpoint struct {
	Mark events.Mark `json:"mark"`
	// SHA-256 of the policy that the log was folded with: another workflow may have another
	Policy  []byte      `json:"policy"`
	State   *Fold       `json:"state"`
	Letters *dlq.Memory `json:"letters,omitempty"` // nil: the job has no items
}

// encode returns the contents of the checkpoint file: a header line with a checksum, and JSON.
func (c Checkpoint) encode() ([]byte, error) {
	var file bytes.Buffer
	n, _ := file.Write(checkpointHead(nil)) // room for the one with the checksum
	if err := encodeExactly(&file, c); err != nil {
		return nil, err
	}
	data := file.Bytes()
	copy(data, checkpointHead(data[n:]))
	return data, nil
}

// encodeExactly writes v as JSON in which what steps have captured stays as it was, to the byte.
func encodeExactly(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func checkpointHead(body []byte) []byte {
	return fmt.Appendf(nil, "prodigy checkpoint %d %x\n", foldVersion, sha256.Sum256(body))
}

// errCheckpoint is the error for a checkpoint that is damaged or has another version.
var errCheckpoint = errors.New("not a checkpoint of this version")

// decodeCheckpoint reads what encode wrote for a job with a policy.
func decodeCheckpoint(data []byte, p errorpolicy.Policy) (Checkpoint, error) {
	c := Checkpoint{State: NewFold(p)}
	end := bytes.IndexByte(data, '\n') + 1
	if !bytes.Equal(data[:end], checkpointHead(data[end:])) {
		return Checkpoint{}, errCheckpoint
	}
	if err := json.Unmarshal(data[end:], &c); err != nil {
		return Checkpoint{}, err
	}
	sum, err := sumOf(p)
	if c.State.Seq != c.Mark.Seq || !bytes.Equal(c.Policy, sum) {
		return Checkpoint{}, errors.Join(errCheckpoint, err)
	}
	return c, err
}

// clone returns an independent copy of the fold.
func (s *Fold) clone(p errorpolicy.Policy) (*Fold, error) {
	var data bytes.Buffer
	if err := encodeExactly(&data, s); err != nil {
		return nil, err
	}
	again := NewFold(p)
	return again, json.Unmarshal(data.Bytes(), again)
}

// sumOf returns the SHA-256 of a policy.
func sumOf(p errorpolicy.Policy) ([]byte, error) {
	data, err := json.Marshal(p)
	sum := sha256.Sum256(data)
	return sum[:], err
}

// Found is the checkpoint of a job as it was found.
type Found struct {
	Checkpoint // Mark is zero if there is none that is whole and of this version and policy
	place      jobs.Job
	policy     errorpolicy.Policy
	Usable     bool // the log has the record it was made at; a power loss may have taken that
}

// ReadCheckpoint reads the checkpoint of a job.
func ReadCheckpoint(place jobs.Job, p errorpolicy.Policy) Found {
	f := Found{place: place, policy: p}
	data, err := os.ReadFile(place.CheckpointFile())
	if err != nil {
		return f
	}
	if c, err := decodeCheckpoint(data, p); err == nil {
		f.Checkpoint, f.Usable = c, events.Holds(place.EventsDir(), c.Mark)
	}
	return f
}

// restored is a fold at a record, and the records after it.
type restored struct {
	*Fold
	rest iter.Seq2[events.Record, error]
}

// restore returns the fold at the checkpoint, or of nothing if that is not usable. The queue, if it is not
// nil, is put to the same record.
func (f Found) restore(queue *dlq.Projection) (restored, error) {
	whole := restored{NewFold(f.policy), events.Read(f.place.EventsDir())}
	if !f.Usable || queue != nil && f.Letters == nil {
		return whole, nil
	}
	if queue != nil {
		if ok, err := queue.Restore(*f.Letters, f.Mark.Seq); !ok || err != nil {
			return whole, err
		}
	}
	return restored{f.State, events.ReadBehind(f.place.EventsDir(), f.Mark)}, nil
}

const (
	// checkpointRecords is how many records there are at least between two checkpoints. To read so many takes no time.
	checkpointRecords = 10_000
	// checkpointPause is how long there is at least between two checkpoints.
	checkpointPause = 10 * time.Second
	// checkpointShare is how many times as long as making one takes there is at least between two.
	checkpointShare = 100
	// checkpointDetails bounds the details of a state that there are checkpoints of, because it is in memory twice.
	checkpointDetails = 100_000
)

// Checkpointer makes the checkpoints of a job. It folds the records that are durable a second time, apart from
// the owner, so that a checkpoint is of no record that the log may still lose, and at the same record as the
// queue. It belongs to the goroutine of the log.
type Checkpointer struct {
	place  jobs.Job
	policy errorpolicy.Policy

	// queue is nil if the job has no items.
	queue *dlq.Projection

	// state is nil once it has become too large: no more checkpoints are made then.
	state *Fold

	// records is how many records there are at least between two checkpoints.
	records int64

	// last is the record of the last checkpoint, made when that was, and pause how long none follows it.
	last  int64
	made  time.Time
	pause time.Duration

	// latest is the record that has been folded last, and end where it ends in the log.
	latest events.Record
	end    events.Position

	// writing has the goroutine that writes a checkpoint, of which there is one at a time.
	writing errgroup.Group
}

// NewCheckpointer returns the checkpointer of a job. It takes over s, the fold at the end of its
// log; last is the record of the last checkpoint.
func NewCheckpointer(place jobs.Job, o Options, s *Fold, last int64, queue *dlq.Projection) *Checkpointer {
	c := &Checkpointer{
		place: place, policy: o.Policy, queue: queue, state: s, records: cmp.Or(o.CheckpointRecords, checkpointRecords),
		last: last, pause: checkpointPause,
	}
	c.writing.SetLimit(1)
	return c
}

// Follow applies records that are durable and end at a position, and makes a checkpoint when it is due. The
// queue has applied them before.
func (c *Checkpointer) Follow(records []events.Record, end events.Position) {
	if c.state == nil {
		return
	}
	for _, r := range records {
		c.state.Apply(r)
	}
	c.latest, c.end = records[len(records)-1], end
	if c.state.details() > checkpointDetails {
		c.state = nil
		return
	}
	if c.made.IsZero() {
		c.made = c.latest.Time
	}
	if c.due() && c.latest.Time.Sub(c.made) >= c.pause {
		c.begin()
	}
}

// due reports whether a checkpoint of the last record would spare a reader enough records.
func (c *Checkpointer) due() bool {
	return c.state != nil && c.latest.Seq > 0 && c.latest.Seq-c.last >= c.records
}

// begin makes a checkpoint and writes it durably in the background, over what a killed run has left of one. Errors are
// ignored, since a checkpoint is never needed.
func (c *Checkpointer) begin() {
	began := time.Now()
	if data, err := c.Take(); err == nil {
		c.writing.TryGo(func() error {
			path := c.place.CheckpointFile()
			return jobs.Make(path+".new", path, func(to io.Writer) error {
				_, err := to.Write(data)
				return err
			})
		})
	}
	c.last, c.made, c.pause = c.latest.Seq, c.latest.Time, max(checkpointPause, checkpointShare*time.Since(began))
}

// Take returns the checkpoint of the last record.
func (c *Checkpointer) Take() ([]byte, error) {
	sum, err := sumOf(c.policy)
	if err != nil {
		return nil, err
	}
	mark, err := events.MarkOf(c.place.EventsDir(), c.latest, c.end)
	if err != nil {
		return nil, err
	}
	made := Checkpoint{Mark: mark, Policy: sum}
	if c.queue != nil {
		letters, ok := c.queue.Remembered()
		if !ok {
			return nil, errors.New("too many failures of waiting items")
		}
		made.Letters = &letters
	}
	made.State = c.state
	return made.encode()
}

// close writes a last checkpoint, if it is worth it. The log has been closed.
func (c *Checkpointer) close() {
	_ = c.writing.Wait() // it is never needed
	if c.due() {
		c.begin()
		_ = c.writing.Wait()
	}
}

// replayChunk bounds how many records are held while the queue catches up.
const replayChunk = 1024

// follow folds the rest of the records, and has the queue, if it is not nil, follow the same ones. It stops at a torn
// last line.
func (k restored) follow(queue *dlq.Projection) error {
	var chunk []events.Record
	for r, err := range k.rest {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err != nil {
			return err
		}
		k.Apply(r)
		if queue == nil {
			continue
		}
		if chunk = append(chunk, r); len(chunk) == replayChunk {
			if err := queue.Apply(chunk); err != nil {
				return err
			}
			chunk = chunk[:0]
		}
	}
	if queue == nil {
		return nil
	}
	return queue.Apply(chunk)
}

// lostEnd returns a message if the log of a job ends before record known, from which something was made. Dead
// letters, results and checkpoints are only made from records on disk, so the log must have lost its end.
func lostEnd(place jobs.Job, known int64) (string, error) {
	last, err := events.Last(place.EventsDir())
	if err != nil || known <= last.Seq {
		return "", err
	}
	return fmt.Sprintf("the end of the log is lost: it ends with record %d, but at least %d were written", last.Seq, known), nil
}

// checkLogEnd is lostEnd for commands that only read a job. It returns nil while the job runs. Checkpoint is
// the record of its checkpoint, or 0.
func checkLogEnd(place jobs.Job, meta jobs.Meta, checkpoint int64) error {
	if place.Running() {
		return nil
	}
	known := checkpoint
	if meta.Mode == string(workflow.MapReduce) {
		if applied, err := dlq.Applied(place.DLQFile()); err == nil { // whoever reads the letters is told of an error
			known = max(known, applied)
		}
		if m, ok := ReadResultsMeta(place.ResultsMetaFile()); ok {
			known = max(known, m.Seq)
		}
	}
	lost, err := lostEnd(place, known)
	if err == nil && lost != "" {
		err = errors.New(lost + "; resume continues from there")
	}
	if err != nil {
		return Unusable(place, err)
	}
	return nil
}
