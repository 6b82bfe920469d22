package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"prodigy/internal/jobs"
)

// Bounds of the tries to send a message.
const (
	maxTries   = 6
	firstDelay = time.Second // doubled after each try, and up to a quarter longer
	maxDelay   = time.Minute
	sendLimit  = 10 * time.Second // of one try
)

// permanentError is a failure that another try would not mend.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// laterError is a failure after which the receiver has said when to try again.
type laterError struct {
	error
	after time.Duration
}

func (e *laterError) Unwrap() error { return e.error }

// receiver is one receiver at work.
type receiver struct {
	Target
	n      *Notifier
	number int // in the workflow, from 0
	job    jobs.Job
	book   *journal
	wake   chan struct{}

	untold           // by the runs before
	pending gathered // what this run has recorded since the last message; guarded by n.mu
}

// run sends messages until the Notifier is closed and all is sent.
func (r *receiver) run() {
	if r.again.total > 0 {
		r.send(r.sending, &r.again)
	}
	var next time.Time // of the next message
	if r.earlier.total > 0 {
		r.send(messageID(r.job, r.number, &r.earlier), &r.earlier)
		next = time.Now().Add(r.Every)
	}
	for {
		closing := r.await(next)
		r.n.mu.Lock()
		g := r.pending
		r.pending = gathered{failed: g.failed}
		r.n.mu.Unlock()
		if g.total > 0 {
			r.send(messageID(r.job, r.number, &g), &g)
			next = time.Now().Add(r.Every)
		} else if closing {
			return
		}
	}
}

// await waits until a message is due: something is pending and the time has come, or the job has ended. It
// reports whether the Notifier is closing.
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

// messageID returns the ID of a message to the receiver with a number: it is the same when the same events
// are gathered again.
func messageID(job jobs.Job, receiver int, g *gathered) string {
	return fmt.Sprintf("%s-%d-%d", job.ID, receiver, g.to)
}

// send sends a message, some times if it must be, and writes down how that ended.
func (r *receiver) send(id string, g *gathered) {
	body, err := encode(g.message(id, r.job.ID, r.n.config.Workflow))
	if err == nil {
		err = r.book.write(line{Receiver: r.number, ID: id, State: sending, From: g.from, To: g.to})
	}
	if err != nil {
		r.n.told("a notification to %s is lost: %v", r.Sender, err)
		return
	}
	end := line{Receiver: r.number, ID: id, State: sent, From: g.from, To: g.to, Time: time.Now()}
	if err := deliver(r.n.ctx, r.Sender, id, body); err != nil {
		end.State, end.Error, end.Body = givenUp, err.Error(), body
		r.n.told("a notification to %s was given up: %v (again: prodigy notify %s)", r.Sender, err, r.job.ID)
	}
	if err := r.book.write(end); err != nil {
		r.n.told("%v", err)
	}
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
			err = fmt.Errorf("no answer within %s", sendLimit)
		}
		var permanent *permanentError
		if err == nil || errors.As(err, &permanent) || try == maxTries {
			return err
		}
		wait := delay + rand.N(delay/4)
		var later *laterError
		if errors.As(err, &later) {
			wait = max(wait, min(later.after, maxDelay))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		delay = min(2*delay, maxDelay)
	}
}
