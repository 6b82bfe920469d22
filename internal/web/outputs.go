package web

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

const (
	commandsKept = 200      // on the page of an item, the newest
	commandShown = 16 << 10 // bytes of the output of a command on that page, its end
)

// command is a command of an item with the end of what it printed.
type command struct {
	outputs.Source

	// When the command began, or first printed something.
	Began time.Time

	// How it ended. It is nil if it has not, or died with its run.
	End *outputs.End

	Parts []outputs.Part

	// How much it printed in total, in bytes.
	Size int64

	// How much of that was not kept.
	Missing int64

	// How much of what was kept precedes Parts, which have the end.
	Before int64

	// The number of the command among all of the item, from 1.
	Number int

	// Its output is not folded.
	Open bool

	// Its attempt is running.
	Running bool

	Job string
}

// Outcome says how the command ended.
func (c command) Outcome() string {
	if c.End == nil {
		return "not finished"
	}
	return cmp.Or(c.End.Trouble(), "done")
}

// Failed reports whether the command failed or was stopped.
func (c command) Failed() bool { return c.End != nil && (c.End.Failed || c.End.Stopped) }

// commandsOf returns the commands of one item by their entries, without the oldest of very many, of which there were
// left.
func commandsOf(entries iter.Seq2[outputs.Entry, error]) (list []*command, left int, err error) {
	last := map[outputs.Source]*command{}
	for e, err := range entries {
		if _, damaged := errors.AsType[*outputs.DamagedError](err); damaged {
			continue // logs says so
		}
		if err != nil {
			return nil, 0, err
		}
		if e.Limit != "" {
			continue
		}
		c := last[e.Source]
		if c == nil || e.First || c.End != nil { // an attempt that was stopped begins again with its number
			c = &command{Source: e.Source, Began: e.Time, Number: left + len(list) + 1}
			last[e.Source] = c
			if list = append(list, c); len(list) > commandsKept {
				if last[list[0].Source] == list[0] {
					delete(last, list[0].Source)
				}
				list, left = list[1:], left+1
			}
		}
		c.add(e)
	}
	return list, left, nil
}

// add adds an entry of the command, and drops what is too much to be shown.
func (c *command) add(e outputs.Entry) {
	c.Missing += e.Missing
	c.Size += e.Missing
	c.End = e.End
	for _, p := range e.Printed {
		c.Size += int64(len(p.Text))
		if n := len(c.Parts); n > 0 && c.Parts[n-1].Stream == p.Stream {
			c.Parts[n-1].Text = append(c.Parts[n-1].Text, p.Text...)
		} else {
			c.Parts = append(c.Parts, outputs.Part{Stream: p.Stream, Text: bytes.Clone(p.Text)})
		}
	}
	c.cut()
}

// cut drops what is more than is shown, up to the beginning of a line.
func (c *command) cut() {
	over := -commandShown
	for _, p := range c.Parts {
		over += len(p.Text)
	}
	for over > 0 {
		first := &c.Parts[0]
		n := min(over, len(first.Text))
		if end := bytes.IndexByte(first.Text[n:], '\n'); end >= 0 {
			n += end + 1
		} else if len(c.Parts) > 1 {
			n = len(first.Text)
		}
		over -= n
		c.Before += int64(n)
		if first.Text = first.Text[n:]; len(first.Text) == 0 {
			c.Parts = c.Parts[1:]
		}
	}
}

// outputMost is how much of an output a page shows. Beyond that there is prodigy logs.
const outputMost = 4 << 20

// output writes what the steps of an item have printed as plain text, of one attempt or command if the request names
// it, or what a step of setup or reduce has printed.
func (s *Server) output(w http.ResponseWriter, r *http.Request, place jobs.Job) error {
	var err error
	v := r.URL.Query()
	var entries iter.Seq2[outputs.Entry, error]
	more := "prodigy logs " + place.ID
	if v.Has("step") {
		if entries, err = stepEntries(place, v.Get("phase"), v.Get("step")); err != nil {
			return err
		}
	} else {
		q := outputs.Query{ItemID: itemOf(r)}
		var number int
		for key, into := range map[string]*int{"attempt": &q.Attempt, "command": &number} {
			if text := v.Get(key); text != "" {
				if *into, err = strconv.Atoi(text); err != nil || *into < 1 {
					http.Error(w, "the "+key+" is not a number", http.StatusBadRequest)
					return nil
				}
			}
		}
		if _, _, err := s.Data.Explain(place, q.ItemID); err != nil {
			return fmt.Errorf("%w: %w", errNoItem, err)
		}
		entries = term.Those(s.Data.Outputs(place, q),
			func(e outputs.Entry) bool { return number == 0 || e.Command == number })
		more += " " + q.ItemID
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := bufio.NewWriter(w)
	writeOutput(out, entries, more)
	_ = out.Flush()
	return nil
}

// stepEntries returns the entries of a step that runs once. Where they stand is known once it has ended.
func stepEntries(place jobs.Job, phase, step string) (iter.Seq2[outputs.Entry, error], error) {
	seen, err := view.Fold(events.Read(place.EventsDir()))
	if err != nil {
		return nil, err
	}
	q := outputs.Query{Step: step}
	for _, known := range seen.Steps {
		if known.Phase == phase && known.Name == step && known.Outputs != nil {
			q.Span = *known.Outputs
		}
	}
	return term.Those(outputs.Read(place.OutputsDir(), q),
		func(e outputs.Entry) bool { return e.ItemID == "" && e.Phase == phase }), nil
}

// writeOutput writes entries as text, each command with a heading, up to outputMost bytes.
func writeOutput(out *bufio.Writer, entries iter.Seq2[outputs.Entry, error], more string) {
	left := outputMost
	var before outputs.Source
	for e, err := range entries {
		if err != nil {
			_, _ = fmt.Fprintf(out, "\n[damaged data skipped: %v]\n", err)
			continue
		}
		if e.Source != before {
			before = e.Source
			_, _ = out.WriteString("\n== ")
			if e.Attempt > 0 {
				_, _ = fmt.Fprintf(out, "attempt %d, ", e.Attempt)
			}
			_, _ = fmt.Fprintf(out, "%s, try %d\n", e.Step, max(e.Try, 1))
		}
		if e.Missing > 0 {
			_, _ = fmt.Fprintf(out, "\n[%d bytes omitted]\n", e.Missing)
		}
		for _, p := range e.Printed {
			_, _ = out.Write(unescaped(p.Text, ""))
			left -= len(p.Text)
		}
		if left < 0 {
			_, _ = fmt.Fprintf(out, "\n[truncated; more: %s]\n", more)
			break
		}
	}
	if before == (outputs.Source{}) {
		_, _ = fmt.Fprintln(out, "output was not kept")
	}
}
