package events

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"iter"
	"path/filepath"
	"slices"

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
			yield(line{}, cannotRead(err))
			return
		}
		at := slices.IndexFunc(files, func(path string) bool {
			return filepath.Base(jobs.UnpackedName(path)) == m.File
		})
		number, err := 0, errNoMark
		if at >= 0 {
			number, err = m.number(files[at])
		}
		if err != nil {
			yield(line{}, err)
			return
		}
		checked := false
		inTurn(files[at:], behind{number - 1, m.Offset}, m.Seq-1, new(seals), func(l line, err error) bool {
			if !checked && (err != nil || !bytes.Equal(m.Sum, sumOf(append(bytes.Clone(l.text), '\n')))) {
				l, err = line{}, errNoMark
			}
			checked = true
			return yield(l, err) && err == nil
		})
	}
}

// number returns the number of the line in the file at path that is marked: the records in a file are without gaps.
func (m Mark) number(path string) (int, error) {
	for l, err := range scanFile(path, behind{}, false, new(seals)) {
		if err != nil || l.seq > m.Seq {
			break
		}
		return int(m.Seq - l.seq + 1), nil
	}
	return 0, errNoMark
}
