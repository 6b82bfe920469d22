package telemetry

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// Outcome is how sending a message again ended.
type Outcome struct {
	ID       string `json:"id"`
	Receiver string `json:"receiver"`
	Error    string `json:"error,omitempty"`
}

// Again sends the messages of a job that were given up, and tells what its last run has not told, because it
// was killed. Name is that of the workflow. It calls told after each message. The job must not be running.
func Again(ctx context.Context, job jobs.Job, name string, targets []Target, told func(Outcome)) error {
	lock, err := job.Lock()
	if err != nil {
		return err
	}
	defer check.Quietly(lock.Unlock)
	lines, err := readJournal(job)
	if err != nil {
		return err
	}
	book, err := openJournal(job)
	if err != nil {
		return err
	}
	send := func(l line, body []byte) {
		to := targets[l.Receiver].Sender
		o := Outcome{ID: l.ID, Receiver: to.String()}
		refused, failed := book.send(ctx, to, l, body)
		if refused != nil {
			o.Error = refused.Error()
		}
		err = errors.Join(err, failed)
		told(o)
	}
	for _, l := range leftOf(lines) {
		switch {
		case ctx.Err() != nil:
		case l.Receiver >= len(targets):
			told(Outcome{ID: l.ID, Error: "receiver was removed from the workflow"})
		default:
			send(line{Receiver: l.Receiver, ID: l.ID, From: l.From, To: l.To}, l.Body)
		}
	}
	untold, failed := untoldBefore(job, book, targets, math.MaxInt64)
	err = errors.Join(err, failed)
	for i, u := range untold {
		for _, g := range []*gathered{&u.again, &u.earlier} {
			if g.total == 0 || ctx.Err() != nil {
				continue
			}
			l, body, failed := g.encode(job, i, name)
			if failed != nil {
				return errors.Join(err, failed, book.file.Close())
			}
			send(l, body)
		}
	}
	return errors.Join(err, book.file.Close())
}

// leftOf returns the last lines of the messages that were given up and not sent since, in the order in which that
// began.
func leftOf(lines []line) []line {
	var left []line
	for _, l := range lines {
		at := slices.IndexFunc(left, func(other line) bool { return other.ID == l.ID })
		switch {
		case l.State == givenUp && at >= 0:
			left[at] = l
		case l.State == givenUp:
			left = append(left, l)
		case l.State == sent && at >= 0:
			left = slices.Delete(left, at, at+1)
		}
	}
	return left
}

// Try sends each target a message that only says that it is a test.
func Try(ctx context.Context, name string, targets []Target, told func(Outcome)) error {
	now := time.Now()
	for i, t := range targets {
		number := strconv.Itoa(i + 1)
		id := "test-" + now.UTC().Format("20060102T150405.000000000Z") + "-" + number
		g := gathered{id: id, lines: []string{"test notification for receiver " + number}, total: 1, time: now}
		_, body, err := g.encode(jobs.Job{ID: "no job"}, i, name)
		if err != nil {
			return err
		}
		o := Outcome{ID: id, Receiver: t.Sender.String()}
		limited, cancel := context.WithTimeout(ctx, sendLimit)
		if err := t.Sender.Send(limited, id, body); err != nil {
			o.Error = err.Error()
		}
		cancel()
		told(o)
	}
	return nil
}
