package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"prodigy/internal/mapreduce"
)

// itemOutput prints what items printed: as each of them ends or, ordered, in the order of the items. Output that must wait for an earlier item
// is held in a temporary file, so that a slow item costs no memory.
type itemOutput struct {
	w       io.Writer
	ordered bool

	next int          // index of the item whose output is printed next
	held map[int]span // of items that ended before it
	file *os.File     // nil: none was needed
	size int64        // of file
}

// span is a part of the temporary file.
type span struct{ offset, length int64 }

// ended prints the output of the item at index, or holds it until all items before that have ended. Items that failed have none.
// Ordered, only the first end of an item counts.
func (o *itemOutput) ended(index int, output string) error {
	switch {
	case !o.ordered:
		return o.print(output)
	case index < o.next || o.isHeld(index):
		return nil
	case index > o.next:
		return o.hold(index, output)
	}
	if err := o.print(output); err != nil {
		return err
	}
	for o.next++; ; o.next++ {
		part, ok := o.held[o.next]
		if !ok {
			return nil
		}
		if err := o.printHeld(part); err != nil {
			return err
		}
		delete(o.held, o.next)
	}
}

func (o *itemOutput) isHeld(index int) bool {
	_, held := o.held[index]
	return held
}

func (o *itemOutput) print(output string) error {
	if output == "" {
		return nil
	}
	_, err := fmt.Fprintln(o.w, output)
	return err
}

func (o *itemOutput) hold(index int, output string) error {
	if o.file == nil {
		file, err := os.CreateTemp("", "prodigy-output-*") // mode 0600
		if err != nil {
			return err
		}
		o.file, o.held = file, map[int]span{}
	}
	n, err := o.file.WriteAt([]byte(output), o.size)
	o.held[index] = span{o.size, int64(n)}
	o.size += int64(n)
	return err
}

func (o *itemOutput) printHeld(part span) error {
	if part.length == 0 {
		return nil
	}
	if _, err := io.Copy(o.w, io.NewSectionReader(o.file, part.offset, part.length)); err != nil {
		return err
	}
	_, err := fmt.Fprintln(o.w)
	return err
}

// endedBefore prints the outputs of the items of a job that have ended so far. What earlier runs have printed of them is not known.
func (o *itemOutput) endedBefore(jobID string) error {
	job, err := findJob(jobName{id: jobID, all: true})
	if err != nil {
		return err
	}
	err = eachResult(job, func(line []byte) error {
		var row resultRow
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		if row.Status != "success" {
			row.Output = ""
		}
		return o.ended(row.Index, row.Output)
	})
	if errors.Is(err, mapreduce.ErrNoItems) {
		return nil
	}
	return err
}

// close prints the output that still waits for an item that has not ended, and removes the file.
func (o *itemOutput) close() error {
	var err error
	for _, index := range slices.Sorted(maps.Keys(o.held)) {
		if err == nil {
			err = o.printHeld(o.held[index])
		}
	}
	if o.file != nil {
		_ = o.file.Close()
		_ = os.Remove(o.file.Name())
	}
	o.held, o.file = nil, nil
	return err
}
