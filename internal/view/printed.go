package view

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
)

// PrintedOf returns the entries of a job that match a query. Those of an item are found by the log, without reading all
// others. Of an attempt that goes on, or was killed with its run, the log only says when it began.
func PrintedOf(job jobs.Job, q outputs.Query) iter.Seq2[outputs.Entry, error] {
	whole := outputs.Read(job.OutputsDir(), q)
	if q.ItemID == "" {
		return whole
	}
	var spans []outputs.Span
	var begun, lost time.Time // of the attempt that has not ended, and of the first one that never did
	for r, err := range events.About(job.EventsDir(), q.ItemID) {
		if err != nil {
			return whole
		}
		if _, begins := r.Event.(events.AgentStarted); begins {
			if lost.IsZero() {
				lost = begun
			}
			begun = r.Time
		}
		if end, ok := events.EndOf(r.Event); ok && end.Ran {
			begun = time.Time{}
		}
		if span := events.Printed(r.Event); span != nil && events.Subject(r.Event) != "" {
			spans = append(spans, *span)
		}
	}
	spans = apart(spans)
	if lost.IsZero() {
		lost = begun
	}
	if !lost.IsZero() {
		rest := outputs.Since(job.OutputsDir(), lost) // from where on everything is read
		for n := len(spans) - 1; n >= 0 && spans[n].Offset+spans[n].Length > rest; n-- {
			rest = min(rest, spans[n].Offset)
			spans = spans[:n]
		}
		spans = append(spans, outputs.Span{Offset: rest})
	}
	return func(yield func(outputs.Entry, error) bool) {
		for _, span := range spans {
			q.Span = span
			for e, err := range outputs.Read(job.OutputsDir(), q) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// apart returns spans in their order, and as one those that overlap: of two attempts that ran at once.
func apart(spans []outputs.Span) (list []outputs.Span) {
	slices.SortFunc(spans, func(a, b outputs.Span) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, s := range spans {
		last := len(list) - 1
		if last < 0 || s.Offset >= list[last].Offset+list[last].Length {
			list = append(list, s)
			continue
		}
		list[last].Length = max(list[last].Length, s.Offset+s.Length-list[last].Offset)
	}
	return list
}

// FailedOnly yields the entries of commands that failed or were stopped, each when its end is known. A command without
// an end was stopped with its run.
func FailedOnly(entries iter.Seq2[outputs.Entry, error]) iter.Seq2[outputs.Entry, error] {
	return func(yield func(outputs.Entry, error) bool) {
		held := map[outputs.Source][]outputs.Entry{}
		var order []outputs.Source
		release := func(s outputs.Source) bool {
			for _, e := range held[s] {
				if !yield(e, nil) {
					return false
				}
			}
			delete(held, s)
			return true
		}
		for e, err := range entries {
			if err != nil || e.Limit != "" {
				if !yield(e, err) {
					return
				}
				continue
			}
			if e.First && len(held[e.Source]) > 0 && !release(e.Source) { // of a run that died
				return
			}
			if e.End != nil && !e.End.Failed && !e.End.Stopped {
				delete(held, e.Source)
				continue
			}
			if len(held[e.Source]) == 0 && e.End == nil {
				order = append(order, e.Source)
			}
			held[e.Source] = append(held[e.Source], e)
			if e.End != nil && !release(e.Source) {
				return
			}
		}
		for _, s := range order {
			if !release(s) {
				return
			}
		}
	}
}

// Output notes what a command has printed. Without it no attempt has Printed. What is of an attempt that is
// not known to run may have come before the record of its start.
func (j *Job) Output(e outputs.Entry) {
	switch line := lastLine(e); {
	case e.ItemID == "":
		j.StepNow = e.Step
		if line != "" {
			j.Printed = line
		}
	case e.End != nil:
		delete(j.printed, e.ItemID)
		if a := j.byID[e.ItemID]; a != nil && a.Due.IsZero() && a.Step == e.Step {
			a.Step = ""
		}
	case line != "":
		j.printed[e.ItemID] = printedLine{e.Step, line}
		if a := j.byID[e.ItemID]; a != nil && !a.Due.After(e.Time) && (e.First || a.Step == "") {
			a.Step = e.Step // the log does not say which one runs
		}
		if len(j.printed) > printedKept {
			maps.DeleteFunc(j.printed, func(id string, _ printedLine) bool { return j.byID[id] == nil })
		}
	}
}

const (
	printedKept = 4096 // lines of attempts that may not run any more
	lineKept    = 400  // bytes of a line
)

// lastLine returns the last line of an entry that is not blank, without its end if it is long.
func lastLine(e outputs.Entry) string {
	for _, part := range slices.Backward(e.Printed) {
		text := bytes.TrimSpace(part.Text)
		text = bytes.TrimSpace(text[bytes.LastIndexAny(text, "\r\n")+1:]) // a bar of progress begins its line again
		if len(text) > 0 {
			return string(text[:min(len(text), lineKept)])
		}
	}
	return ""
}
