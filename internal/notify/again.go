package notify

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

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
	defer func() { _ = lock.Unlock() }()
	lines, err := readJournal(job)
	if err != nil {
		return err
	}
	left := map[string]line{}
	var order []string
	for _, l := range lines {
		switch {
		case l.State == givenUp:
			if _, known := left[l.ID]; !known {
				order = append(order, l.ID)
			}
			left[l.ID] = l
		case l.State == sent:
			delete(left, l.ID)
		}
	}
	book, err := openJournal(job)
	if err != nil {
		return err
	}
	send := func(l line, body []byte) {
		to := targets[l.Receiver].Sender
		o := Outcome{ID: l.ID, Receiver: to.String()}
		end := line{Receiver: l.Receiver, ID: l.ID, State: sent, From: l.From, To: l.To, Time: time.Now()}
		if err := deliver(ctx, to, l.ID, body); err != nil {
			o.Error = err.Error()
			end.State, end.Error, end.Body = givenUp, o.Error, body
		}
		err = errors.Join(err, book.write(end))
		told(o)
	}
	for _, id := range order {
		l, is := left[id]
		switch delete(left, id); {
		case !is || ctx.Err() != nil:
		case l.Receiver >= len(targets):
			told(Outcome{ID: id, Error: "the workflow has no such receiver any more"})
		default:
			send(l, l.Body)
		}
	}
	untold, failed := untoldBefore(job, book, targets, math.MaxInt64)
	err = errors.Join(err, failed)
	for i, u := range untold {
		for _, m := range []struct {
			id string
			g  *gathered
		}{{u.sending, &u.again}, {messageID(job, i, &u.earlier), &u.earlier}} {
			if m.g.total == 0 || ctx.Err() != nil {
				continue
			}
			body, failed := encode(m.g.message(m.id, job.ID, name))
			if failed != nil {
				return errors.Join(err, failed, book.close())
			}
			send(line{Receiver: i, ID: m.id, From: m.g.from, To: m.g.to}, body)
		}
	}
	return errors.Join(err, book.close())
}

// Try sends each target a message that only says that it is a test.
func Try(ctx context.Context, name string, targets []Target, told func(Outcome)) error {
	now := time.Now()
	for i, t := range targets {
		number := strconv.Itoa(i + 1)
		id := "test-" + now.UTC().Format("20060102T150405.000000000Z") + "-" + number
		g := gathered{lines: []string{"this is a test of notify, receiver " + number}, total: 1, time: now}
		body, err := encode(g.message(id, "no job", name))
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
