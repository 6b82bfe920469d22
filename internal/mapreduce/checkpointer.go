package mapreduce

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

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

// checkpointer makes the checkpoints of a job. It folds the records that are durable a second time, apart from the owner, so that a checkpoint
// is of no record that the log may still lose, and at the same record as the queue. It belongs to the goroutine of the log.
type checkpointer struct {
	place   jobs.Job
	policy  errorpolicy.Policy
	queue   *dlq.Projection // nil: the job has no items
	state   *state          // nil: it has become too large
	records int64           // at least between two checkpoints

	last    int64           // record of the last checkpoint
	made    time.Time       // when that was
	pause   time.Duration   // until the next
	latest  events.Record   // that has been folded
	end     events.Position // of it
	writing errgroup.Group  // of one at a time
}

// newCheckpointer returns the checkpointer of a job whose log comes to s, which it takes, by a policy, and whose last checkpoint was of record
// last.
func newCheckpointer(place jobs.Job, p errorpolicy.Policy, s *state, last int64, queue *dlq.Projection) *checkpointer {
	c := &checkpointer{place: place, policy: p, queue: queue, state: s, records: checkpointRecords, last: last, pause: checkpointPause}
	c.writing.SetLimit(1)
	return c
}

// follow folds records that are durable and end at a position, and makes a checkpoint when it is time to. The queue has followed them.
func (c *checkpointer) follow(records []events.Record, end events.Position) {
	if c.state == nil {
		return
	}
	for _, r := range records {
		c.state.apply(r)
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

// due tells whether there is a record to make a checkpoint of that would spare a reader enough.
func (c *checkpointer) due() bool {
	return c.state != nil && c.latest.Seq > 0 && c.latest.Seq-c.last >= c.records
}

// begin makes a checkpoint and has it written beside. That it cannot be is no error: it is never needed.
func (c *checkpointer) begin() {
	began := time.Now()
	if data, err := c.take(); err == nil {
		c.writing.TryGo(func() error { return writeCheckpoint(c.place.CheckpointFile(), data) })
	}
	c.last, c.made, c.pause = c.latest.Seq, c.latest.Time, max(checkpointPause, checkpointShare*time.Since(began))
}

// take returns the checkpoint of the last record.
func (c *checkpointer) take() ([]byte, error) {
	sum, err := sumOf(c.policy)
	if err != nil {
		return nil, err
	}
	mark, err := events.MarkOf(c.place.EventsDir(), c.latest, c.end)
	if err != nil {
		return nil, err
	}
	made := checkpoint{Mark: mark, Policy: sum}
	if c.queue != nil {
		letters, ok := c.queue.Memory()
		if !ok {
			return nil, errTooLarge
		}
		made.Letters = &letters
	}
	made.State = c.state
	return made.encode()
}

var errTooLarge = errors.New("there is too much evidence of items that wait")

// close writes a last checkpoint, if it is worth it. The log has been closed.
func (c *checkpointer) close() {
	_ = c.writing.Wait() // it is never needed
	if c.due() {
		c.begin()
		_ = c.writing.Wait()
	}
}

// writeCheckpoint replaces the checkpoint at path durably. What a run that was killed has left of one is overwritten.
func writeCheckpoint(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return jobs.Become(f, path, data)
}
