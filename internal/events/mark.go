package events

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// Position is a position between two lines of a log. It stays valid when the file is compressed.
type Position struct {
	File   string `json:"file"`   // its name, as it was before it was compressed
	Offset int64  `json:"offset"` // in the file, as it was before it was compressed
}

// Mark is a record of a log and where its line begins, for a reader that wants to begin behind it.
type Mark struct {
	Position
	Seq    int64    `json:"seq"`
	Sum    []byte   `json:"sum"`              // SHA-256 of the line
	Before []Closed `json:"before,omitempty"` // the files before that of the line
}

// MarkOf returns the mark of a record of the log in dir that ends at a position. The record is one that
// Append returned.
func MarkOf(dir string, r Record, end Position) (Mark, error) {
	line, err := Encode(r)
	if err != nil {
		return Mark{}, err
	}
	before, err := closedBefore(dir, end.File)
	end.Offset -= int64(len(line))
	return Mark{Position: end, Seq: r.Seq, Sum: sumOf(line), Before: before}, err
}

func sumOf(line []byte) []byte {
	sum := sha256.Sum256(line)
	return sum[:]
}

// Holds reports whether the log in dir has the record of the mark, to the byte, where the mark says, and
// before it the files that were there, with nothing done to them since but their compression. It does not
// read these.
func Holds(dir string, m Mark) bool {
	before, err := closedBefore(dir, m.File)
	if err != nil || !slices.EqualFunc(m.Before, before, Closed.became) {
		return false
	}
	for _, err := range from(dir, m) {
		return err == nil
	}
	return false
}

// ReadBehind is Read without the records up to that of the mark, which the log holds. Damage before that goes
// unnoticed.
func ReadBehind(dir string, m Mark) iter.Seq2[Record, error] {
	return records(only(from(dir, m), func(l line) bool { return l.seq != m.Seq }))
}

// errNoMark says that a log does not have the record of a mark.
var errNoMark = errors.New("the marked record is missing from the log")

// from yields the line of a mark and those behind it.
func from(dir string, m Mark) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		files, err := logFiles(dir)
		if err != nil {
			yield(line{}, fmt.Errorf("read the event log: %w", err))
			return
		}
		at := slices.IndexFunc(files, func(path string) bool {
			return filepath.Base(jobs.UnpackedName(path)) == m.File
		})
		if at < 0 {
			yield(line{}, errNoMark)
			return
		}
		last, sums := m.Seq-1, new(seals)
		if m.readFile(files[at], at == len(files)-1, sums, func(l line, err error) bool {
			if err == nil && l.seq != last+1 {
				err = l.outOfTurn(last)
			}
			last = l.seq
			return yield(l, err) && err == nil
		}) {
			inTurn(files[at+1:], last, sums, yield)
		}
	}
}

// readFile yields the lines of the file from the one that is marked on. It returns false when the reading is over.
func (m Mark) readFile(path string, newest bool, sums *seals, yield func(line, error) bool) bool {
	number, err := m.number(path)
	if err != nil {
		yield(line{}, err)
		return false
	}
	f, err := jobs.OpenPacked(path)
	if err == nil {
		defer check.Quietly(f.Close)
		err = jobs.Skip(f, m.Offset)
	}
	if err != nil {
		yield(line{}, fmt.Errorf("read the event log: %w", err))
		return false
	}
	checked, lines := false, newLineReader(f, path, newest, sums)
	lines.number = number - 1
	return lines.lines(func(l line, err error) bool {
		if !checked && (err != nil || l.seq != m.Seq || !bytes.Equal(m.Sum, sumOf(append(bytes.Clone(l.text), '\n')))) {
			l, err = line{}, errNoMark
		}
		checked = true
		return yield(l, err) && err == nil
	})
}

// number returns the number of the line in the file at path that is marked: the records in a file are without gaps.
func (m Mark) number(path string) (int, error) {
	for l, err := range scanFile(path, false, new(seals)) {
		if err != nil || l.seq > m.Seq {
			break
		}
		return int(m.Seq - l.seq + 1), nil
	}
	return 0, errNoMark
}
