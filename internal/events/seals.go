package events

import (
	"bytes"
	"errors"

	"prodigy/internal/jobs"
)

// seals checks the checksums of the lines of a log in their order, over its files. The zero value has seen no
// line.
//
// Logs of versions that knew no checksums have lines without. This version goes on with them, so that lines
// with checksums follow, but only from where it began: at the first record of a run, or of what people do
// between runs. From there on every line must have one. A line that lost its checksum by damage therefore
// does not pass as one of an earlier version.
type seals struct {
	lines    jobs.SealedLines
	unsealed bool // a line without a checksum was seen
}

var errUnsealedBefore = errors.New("the preceding records have no checksum, " +
	"but this one has, and does not start a run")

func (s *seals) check(text []byte) error {
	sealed := s.lines.Required
	if err := s.lines.Check(text); err != nil {
		return err
	}
	if !s.lines.Required {
		s.unsealed = true
	} else if !sealed && s.unsealed && !beginsRun(text) {
		return errUnsealedBefore
	}
	return nil
}

// checkBefore is for those who read a log from its end: it checks a line and whether the one after it, nil
// behind the last, may follow.
func checkBefore(text, later []byte) error {
	sealed, err := jobs.CheckSeal(text)
	if err != nil || later == nil {
		return err
	}
	followed, _ := jobs.CheckSeal(later)
	switch {
	case sealed && !followed:
		return errors.New("the next record has no checksum")
	case !sealed && followed && !beginsRun(later):
		return jobs.ErrNoSeal
	}
	return nil
}

// beginsRun reports whether a line is the first that a run or a person writes to the log of a job.
func beginsRun(text []byte) bool {
	for _, e := range []Event{JobResumed{}, DLQItemRemoved{}, DLQItemsEvicted{}} {
		if bytes.Contains(text, appendQuoted([]byte(`"type":`), TypeOf(e))) {
			return true
		}
	}
	return false
}
