package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/term"
)

// printing returns how the run prints what items print, or nil if it does not.
func (o jobOptions) printing() *jobs.Printing {
	p := jobs.Printing{Mode: string(o.echo.mode()), Tag: o.echo.tag, Print: o.print, KeepOrder: o.keepOrder}
	if o.joblog != "" {
		p.Joblog, _ = filepath.Abs(o.joblog) // it was opened before
	}
	if p == (jobs.Printing{}) {
		return nil
	}
	return &p
}

// printAsBefore takes over how the first run of a job printed what items print, unless flags say something else, and
// finds out what is still to be printed of earlier runs: what they have not shown, or all of it with --keep-order.
func (o *jobOptions) printAsBefore(con *console, place jobs.Job) error {
	meta, err := place.ReadMeta()
	if err != nil {
		return err
	}
	if first := meta.Printing; first != nil {
		o.joblog = first.Joblog
		if con.format != term.JSON && o.echo.mode() == "" && !o.print && !o.keepOrder {
			o.print, o.keepOrder = first.Print, first.KeepOrder
			o.echo.usual, o.echo.tag = term.EchoMode(first.Mode), first.Tag
			o.printsOn = true
		}
	}
	if o.printsOn || o.keepOrder {
		o.ended, err = endedBefore(place, !o.printsOn)
	}
	return err
}

// noteShown makes the echo write down whose output it has shown, so that a later run shows that of the others. What is
// written down is no more durable than what was shown: a kill loses neither.
func noteShown(echo *term.Echo, place jobs.Job) {
	file, err := os.OpenFile(place.ShownFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return // and a later run shows it again
	}
	echo.Shown = func(index int) { _, _ = fmt.Fprintln(file, index) }
}

// endedItem is what earlier runs of a job have done about the output of an item.
type endedItem uint8

const (
	notEnded endedItem = iota
	notShown           // it has ended
	wasShown
)

// endedBefore returns the items of a job that have ended, by index. Without all it leaves out what earlier runs have
// shown of them. It is called before the next run, in which more of them end.
func endedBefore(place jobs.Job, all bool) ([]endedItem, error) {
	var ended []endedItem
	err := eachEnded(place, func(row job.Result) error {
		ended = append(ended, make([]endedItem, max(row.Index+1-len(ended), 0))...)
		ended[row.Index] = notShown
		return nil
	})
	if err != nil || all {
		return ended, err
	}
	shown, err := os.ReadFile(place.ShownFile())
	for index := range strings.FieldsSeq(string(shown)) {
		if i, err := strconv.Atoi(index); err == nil && i < len(ended) && ended[i] == notShown {
			ended[i] = wasShown
		}
	}
	return ended, check.Unless(err, fs.ErrNotExist)
}

// printEnded prints the output of the items of a job that had ended and were not shown.
func (o jobOptions) printEnded(to *term.Echo, place jobs.Job) error {
	byCommands := o.echo.mode() != ""
	late := map[string]int{}
	err := eachEnded(place, func(row job.Result) error {
		switch {
		case row.Index >= len(o.ended) || o.ended[row.Index] == notEnded:
			return nil
		case o.ended[row.Index] == wasShown:
			return to.Printed(row.Index, "")
		case byCommands:
			late[row.ItemID] = row.Index
			return nil
		case row.Status != "success":
			row.Output = ""
		}
		return to.Printed(row.Index, row.Output)
	})
	if err != nil || len(late) == 0 {
		return err
	}
	err = o.printStored(to, place, late)
	for _, index := range slices.Sorted(maps.Values(late)) {
		to.Finished(index)
	}
	return err
}

// printStored gives to what is stored of the output of some items, whose indexes are given by their ids.
func (o jobOptions) printStored(to *term.Echo, place jobs.Job, late map[string]int) error {
	var batch bool
	if o.echo.tag {
		w, err := loadRecorded(place)
		if err != nil {
			return err
		}
		batch = w.Map.Batch > 0
	}
	for e, err := range conversationsOf(place, outputs.Query{}) {
		if err != nil {
			return err
		}
		index, wanted := late[e.ItemID]
		if !wanted || e.Provisional {
			continue
		}
		from := term.EchoSource{Item: index, Attempt: e.Attempt, Step: e.Step, Try: e.Try}
		if o.echo.tag {
			it, _, err := recordedItem(place, e.ItemID)
			if err != nil {
				return err
			}
			from.Tag = func() string { return tagOf(it.Data, batch) }
		}
		stdout, stderr := to.Streams(from)
		if e.Missing > 0 {
			_, _ = fmt.Fprintf(stdout, "… [%d bytes left out] …\n", e.Missing)
		}
		for _, part := range e.Printed {
			if part.Stream == outputs.Stderr {
				_, _ = stderr.Write(part.Text)
			} else {
				_, _ = stdout.Write(part.Text)
			}
		}
	}
	return nil
}

// eachEnded calls do with the result of each item of a job that has ended, in the order of the items.
func eachEnded(place jobs.Job, do func(job.Result) error) error {
	for row, err := range mapped(resultsOf(place), readResult) {
		if errors.Is(err, job.ErrNoItems) {
			return nil
		}
		if err == nil {
			err = do(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printRest prints what is still to be printed of a completed job, and writes its joblog.
func (o jobOptions) printRest(con *console, place jobs.Job) error {
	err := o.printAsBefore(con, place)
	if err == nil && o.joblog != "" {
		err = writeJoblog(place, o.joblog)
	}
	if err != nil || len(o.ended) == 0 {
		return err
	}
	rest := term.NewEcho(cmp.Or(o.echo.mode(), term.Grouped), o.keepOrder, con.out, con.raw)
	if o.printsOn {
		noteShown(rest, place)
	}
	return errors.Join(o.printEnded(rest, place), rest.Close())
}
