package notify

import (
	"context"
	"errors"
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

// Again sends the messages of a job that were given up. It calls told after each. The job must not be running.
func Again(ctx context.Context, job jobs.Job, targets []Target, told func(Outcome)) error {
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
	for _, id := range order {
		l, is := left[id]
		if !is {
			continue
		}
		delete(left, id)
		if l.Receiver >= len(targets) {
			told(Outcome{ID: id, Error: "the workflow has no such receiver any more"})
			continue
		}
		to := targets[l.Receiver].Sender
		o := Outcome{ID: id, Receiver: to.String()}
		end := line{Receiver: l.Receiver, ID: id, State: sent, From: l.From, To: l.To, Time: time.Now()}
		if err := deliver(ctx, to, id, l.Body); err != nil {
			o.Error = err.Error()
			end.State, end.Error, end.Body = givenUp, o.Error, l.Body
		}
		err = errors.Join(err, book.write(end))
		told(o)
		if ctx.Err() != nil {
			break
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
