package job

import (
	"errors"
	"fmt"
	"time"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/limits"
	"prodigy/internal/mask"
)

// Opened is a job that this process runs: its fold, its log, and the files that follow from that. All but Log
// belongs to the goroutine that owns the job.
type Opened struct {
	*Fold
	Log *events.Log

	// Store and Queue are nil if the job has no items.
	Store *items.Store
	Queue *dlq.Queue

	// Live are the limits of what runs now, which remember nothing of the job.
	Live []limits.Limit

	place       jobs.Job
	options     Options
	project     *dlq.Projection
	checkpoints *Checkpointer
}

// Options say how a job is opened.
type Options struct {
	// Workflow is the name of the workflow.
	Workflow string

	// Items means that the job has items.
	Items  bool
	Policy errorpolicy.Policy

	// Mask takes secrets out of what is recorded.
	Mask *mask.Masker

	LogConfig

	// MaxRetries is how often a dead letter may be sent again.
	MaxRetries int

	// Observe is called with every record once it is durable, on the goroutine of the log. It may be nil.
	Observe func([]events.Record)

	// Notice tells people what was found.
	Notice func(text string)
}

// LogConfig is how the log of a job is written.
type LogConfig struct {
	Durability  events.Durability
	LogFileSize int64 // bytes of a file before the next is begun; 0 for the default of the log
	LogSteps    bool  // an AgentProgress event for each step
	// how many records there are at least between two checkpoints; 0 for as many as take no time to read
	CheckpointRecords int64
}

// Create begins the log of a new job and the files that follow from it. The caller holds the lock of the job, and
// closes what is returned, also after an error.
func Create(place jobs.Job, o Options) (*Opened, error) {
	j := &Opened{Fold: NewFold(o.Policy), place: place, options: o}
	return j, j.create()
}

func (j *Opened) create() (err error) {
	if j.options.Items {
		if j.Store, err = items.CreateStore(j.place.ItemsFile()); err != nil {
			return err
		}
		if err := j.openQueue(); err != nil {
			return err
		}
	}
	j.checkpoints = NewCheckpointer(j.place, j.options, NewFold(j.options.Policy), 0, j.project)
	j.Log, err = events.Create(j.place.EventsDir(), j.place.ID, time.Now(), j.logOptions())
	return err
}

// Open opens a job where its log ends, and brings the files up to date that follow from that. The caller holds the
// lock of the job, and closes what is returned, also after an error.
func Open(place jobs.Job, o Options) (*Opened, error) {
	j := &Opened{place: place, options: o}
	return j, j.open()
}

func (j *Opened) open() error {
	place := j.place
	cut, err := events.Repair(place.EventsDir())
	if err != nil {
		return Unusable(place, err)
	}
	if cut > 0 {
		j.options.Notice(fmt.Sprintf("the log ended in an incomplete or damaged line: %d bytes were cut off, and its record does not count", cut))
	}
	if j.options.Items {
		if j.Store, err = items.ReopenStore(place.ItemsFile()); err != nil {
			if _, damaged := errors.AsType[*items.DamagedError](err); damaged {
				err = j.examined(err)
			}
			return Unusable(place, err)
		}
		if err := j.openQueue(); err != nil {
			return err
		}
	}
	if err := j.replay(); err != nil {
		return Unusable(place, err)
	}
	if j.Store != nil && j.Selected {
		if err := j.Store.Holds(j.Total); err != nil {
			return j.examined(Unusable(place, err))
		}
	}
	if err := dropResultsAhead(place, j.Outcome); err != nil {
		return err
	}
	j.Log, err = events.Open(place.EventsDir(), place.ID, j.Seq, j.logOptions())
	if err != nil {
		return Unusable(place, err)
	}
	return nil
}

// examined adds to an error how to find out what is still good.
func (j *Opened) examined(err error) error {
	return fmt.Errorf("%w (to see what is damaged: prodigy fsck %s)", err, j.place.ID)
}

func (j *Opened) openQueue() (err error) {
	if j.Queue, err = dlq.Open(j.place.DLQFile()); err != nil {
		return err
	}
	j.project = dlq.NewProjection(j.Queue, j.place.ID, j.options.Workflow, j.options.MaxRetries,
		maskedData(j.Store, j.options.Mask))
	return nil
}

// replay restores the fold from the checkpoint and the records after it, and updates the queue.
func (j *Opened) replay() error {
	from := ReadCheckpoint(j.place, j.options.Policy)
	seq := from.Mark.Seq
	if j.Queue != nil {
		seq = max(seq, j.Queue.Applied())
	}
	lost, err := lostEnd(j.place, seq)
	if err != nil {
		return err
	}
	if lost != "" {
		j.options.Notice(lost + "; their records do not count, and derived files are rebuilt")
	}
	if j.project != nil {
		if err := syncQueue(j.place, j.project); err != nil {
			return err
		}
	}
	known, err := from.restore(j.project)
	if err != nil {
		return err
	}
	last := known.Seq
	if err := known.follow(j.project); err != nil {
		return err
	}
	j.Fold = known.Fold
	again, err := j.Fold.clone(j.options.Policy)
	j.checkpoints = NewCheckpointer(j.place, j.options, again, last, j.project)
	return err
}

func (j *Opened) logOptions() events.Options {
	return events.Options{
		Durability: j.options.Durability, Durable: j.durable, MaxFileSize: j.options.LogFileSize,
	}
}

// durable updates with records that are durable what follows from the log. It runs on the goroutine of the log.
func (j *Opened) durable(records []events.Record, end events.Position) error {
	if j.project != nil {
		if err := j.project.Apply(records); err != nil {
			return err
		}
	}
	j.checkpoints.Follow(records, end)
	if j.options.Observe != nil {
		j.options.Observe(records)
	}
	return nil
}

// Record appends an event, applies it, and appends what follows from it for people to read.
func (j *Opened) Record(e events.Event) events.Record {
	if j.options.Mask != nil {
		e = events.Masked(e, j.options.Mask)
	}
	r := j.Log.Append(time.Now(), e)
	batch := j.Apply(r)
	for _, l := range j.Live {
		l.Apply(r, j.Fold)
	}
	for _, t := range []limits.Teller{j.Limits.Breaker, j.Limits.Concurrency} {
		j.Tell(t)
	}
	if len(batch) > 0 {
		j.Record(events.ErrorBatch{Size: len(batch), Errors: batch})
	}
	return r
}

// Tell records what a limit has to say.
func (j *Opened) Tell(t limits.Teller) {
	for e := t.Tell(); e != nil; e = t.Tell() {
		j.Record(e)
	}
}

// Pending is the number of items known of that are neither settled nor in flight, nor waiting to be merged.
func (j *Opened) Pending() int {
	known := j.Total
	if !j.Selected && j.Store != nil {
		known = j.Store.Len()
	}
	return max(0, known-j.Status.Settled()-j.InFlight()-j.Unmerged())
}

// Close closes what is open, the log first, so that the files that follow from it get its last records.
func (j *Opened) Close() error {
	if j == nil {
		return nil
	}
	var errs []error
	if j.Log != nil {
		errs = append(errs, j.Log.Close())
		j.checkpoints.close()
	}
	if j.Queue != nil {
		errs = append(errs, j.project.Close(), j.Queue.Close())
	}
	if j.Store != nil {
		errs = append(errs, j.Store.Close())
	}
	return errors.Join(errs...)
}
