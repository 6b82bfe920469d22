package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// Bounds of the tries to send a message.
const (
	maxTries   = 6
	firstDelay = time.Second // doubled after each try, and up to a quarter longer
	maxDelay   = time.Minute
	sendLimit  = 10 * time.Second // of one try
)

// receiver is one receiver at work.
type receiver struct {
	Target

	// The notifier that it is one of.
	n *notifier

	// Its number in the workflow, from 0, by which the journal knows it.
	number int

	book *journal

	// Gets a value when something is pending. Its buffer of one keeps what comes while a message is being sent.
	wake chan struct{}

	untold // by the runs before

	// What this run has recorded since the last message. Guarded by n.mu.
	pending gathered
}

// run sends messages until the notifier is closed and all is sent.
func (r *receiver) run() {
	if r.again.total > 0 {
		r.send(&r.again)
	}
	var next time.Time // of the next message
	if r.earlier.total > 0 {
		r.send(&r.earlier)
		next = time.Now().Add(r.Every)
	}
	for {
		closing := r.await(next)
		r.n.mu.Lock()
		g := r.pending
		r.pending = gathered{failed: g.failed}
		r.n.mu.Unlock()
		if g.total > 0 {
			r.send(&g)
			next = time.Now().Add(r.Every)
		} else if closing {
			return
		}
	}
}

// await waits until a message is due: something is pending and the time has come, or the job has ended. It
// reports whether the notifier is closing.
func (r *receiver) await(next time.Time) (closing bool) {
	for {
		r.n.mu.Lock()
		pending, end := r.pending.total > 0, r.pending.end
		r.n.mu.Unlock()
		var due <-chan time.Time
		if pending {
			wait := time.Until(next)
			if end || wait <= 0 {
				return false
			}
			timer := time.NewTimer(wait)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-r.n.closing:
			return true
		case <-due:
		case <-r.wake:
		}
	}
}

// send sends a message, some times if it must be, and writes down how that ended.
func (r *receiver) send(g *gathered) {
	l, body, err := g.encode(r.n.job, r.number, r.n.workflow)
	if err == nil {
		err = r.book.write(l)
	}
	if err != nil {
		r.n.told(fmt.Sprintf("could not store the notification to %s: %v", r.Sender, err))
		return
	}
	refused, err := r.book.send(r.n.ctx, r.Sender, l, body)
	if refused != nil {
		r.n.told(fmt.Sprintf("could not notify %s: %v (to resend: prodigy notify %s)", r.Sender, refused,
			r.n.job.ID))
	}
	if err != nil {
		r.n.told(err.Error())
	}
}

// send sends the message of a line, and writes down how that ended.
func (j *journal) send(ctx context.Context, to Sender, l line, body []byte) (refused, err error) {
	l.State, l.Time = sent, time.Now()
	if refused = deliver(ctx, to, l.ID, body); refused != nil {
		l.State, l.Error, l.Body = givenUp, refused.Error(), body
	}
	return refused, j.write(l)
}

// deliver tries to send a message until it is sent, or that makes no sense any more.
func deliver(ctx context.Context, s Sender, id string, body []byte) error {
	delay := firstDelay
	for try := 1; ; try++ {
		limited, cancel := context.WithTimeout(ctx, sendLimit)
		err := s.Send(limited, id, body)
		late := limited.Err() != nil && ctx.Err() == nil
		cancel()
		if late && err != nil {
			err = fmt.Errorf("no response within %s", sendLimit)
		}
		refused, _ := errors.AsType[*refusedError](err)
		if err == nil || refused != nil && refused.after == 0 || try == maxTries {
			return err
		}
		wait := delay + rand.N(delay/4)
		if refused != nil {
			wait = max(wait, min(refused.after, maxDelay))
		}
		if duration.Sleep(ctx, wait) != nil {
			return err
		}
		delay = min(2*delay, maxDelay)
	}
}

// notifier is the receivers of a job at work. Each of them gathers the records that it wants and sends them as one
// [Message] after the other, on a goroutine of its own, and what is gathered is bounded. The journal has a line
// before and after each message. After a kill the next run finds there what was not told yet, and sends a message
// that may have arrived with the same ID again.
type notifier struct {
	job      jobs.Job
	workflow string // its name

	// Called with what was given up, in a sentence for people.
	told func(text string)

	// Ends when nobody waits for messages any more.
	ctx context.Context

	cancel context.CancelFunc

	// Guards what is pending of each receiver.
	mu sync.Mutex

	receivers []*receiver
	running   sync.WaitGroup

	// Closed by close: each receiver sends what is pending, and ends.
	closing chan struct{}
}

// newNotifier starts the receivers of a run that begins with a record. Of a resumed job they first look for what
// earlier runs have not told.
func newNotifier(job jobs.Job, workflow string, from int64, targets []Target, told func(text string)) *notifier {
	n := &notifier{job: job, workflow: workflow, told: told, closing: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	for i, t := range targets {
		n.receivers = append(n.receivers, &receiver{Target: t, n: n, number: i, wake: make(chan struct{}, 1)})
	}
	n.running.Go(func() {
		book, err := openJournal(job)
		if err != nil {
			told("no notifications: " + err.Error())
			return
		}
		if from > 1 {
			all, err := untoldBefore(job, book, targets, from)
			if err != nil {
				told("pending notifications of earlier runs are dropped: " + err.Error())
			}
			for i, r := range n.receivers {
				r.untold = all[i]
			}
		}
		var all sync.WaitGroup
		for _, r := range n.receivers {
			r.book = book
			all.Go(r.run)
		}
		all.Wait()
		if err := book.file.Close(); err != nil {
			told(err.Error())
		}
	})
	return n
}

// observe takes the next records of the job, in the order of the log. It does not wait for anything.
func (n *notifier) observe(records []events.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.receivers {
		for _, record := range records {
			if r.pending.add(record, r.On) {
				check.Wake(r.wake)
			}
		}
	}
}

// close sends what is left, and returns when that is done, at the latest after patience or when ctx ends.
// What was not sent then is in the journal.
func (n *notifier) close(ctx context.Context, patience time.Duration) {
	close(n.closing)
	defer context.AfterFunc(ctx, n.cancel)()
	timer := time.AfterFunc(patience, n.cancel)
	n.running.Wait()
	timer.Stop()
	n.cancel()
}
