package dlq

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// maxKept is how many bytes of evidence of items that wait for their next attempt are held in memory. There
// may be a million of them.
const maxKept = 8 << 20

// evidence keeps failures until the letter of their item is written, or is not: the first few MiB in memory,
// the others in a file. That needs no care, because the log has them all.
type evidence struct {
	path string
	// file is nil as long as nothing has been put there.
	file *os.File
	size int64 // of the file
	// out is how many failures in the file are still wanted.
	out  int
	held int // bytes in memory
}

// exhibit is a failure in memory, or where it is in the file.
type exhibit struct {
	failure *Failure
	offset  int64
	length  int
}

// MarshalJSON encodes the failure of an exhibit that is in memory.
func (x exhibit) MarshalJSON() ([]byte, error) {
	if x.failure == nil {
		return nil, errors.New("the failure is in the spill file")
	}
	return json.Marshal(x.failure)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (x *exhibit) UnmarshalJSON(data []byte) error {
	*x = exhibit{failure: new(Failure)}
	return json.Unmarshal(data, x.failure)
}

// weight is about how much memory f takes.
func (f Failure) weight() int {
	n := 256 + len(f.Message) + len(f.StdoutTail) + len(f.StderrTail)
	for _, r := range f.Retries {
		n += 32 + len(r.Error)
	}
	return n
}

func (v *evidence) keep(f Failure) (exhibit, error) {
	if w := f.weight(); v.held+w <= maxKept {
		v.held += w
		return exhibit{failure: &f}, nil
	}
	x, err := v.write(f)
	if err != nil {
		return exhibit{}, fmt.Errorf("store the failures of waiting items: %w", err)
	}
	return x, nil
}

func (v *evidence) write(f Failure) (exhibit, error) {
	if v.file == nil {
		file, err := os.OpenFile(v.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return exhibit{}, err
		}
		v.file = file
	}
	data, err := json.Marshal(f)
	if err != nil {
		return exhibit{}, err
	}
	data = jobs.Seal(data, 0)
	if _, err := v.file.WriteAt(data, v.size); err != nil {
		return exhibit{}, err
	}
	x := exhibit{offset: v.size, length: len(data)}
	v.size += int64(len(data))
	v.out++
	return x, nil
}

// errDamaged says that the bytes of a failure are not those that were written. The log has them too: a resume
// makes the file anew.
var errDamaged = errors.New("damaged, but complete in the log; resume rebuilds it")

// all returns the failures that exhibits stand for.
func (v *evidence) all(history []exhibit) ([]Failure, error) {
	failures := make([]Failure, len(history), len(history)+1)
	for i, x := range history {
		if x.failure != nil {
			failures[i] = *x.failure
			continue
		}
		data := make([]byte, x.length)
		_, err := v.file.ReadAt(data, x.offset)
		if sealed, wrong := jobs.CheckSeal(data); err == nil && (!sealed || wrong != nil) {
			err = errDamaged
		}
		if err == nil {
			err = json.Unmarshal(data, &failures[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %d bytes from %d: read the failures of an item: %w", v.path, x.length,
				x.offset, err)
		}
	}
	return failures, nil
}

// drop forgets exhibits. When none in the file is wanted any more, it begins anew.
func (v *evidence) drop(history []exhibit) {
	for _, x := range history {
		if x.failure != nil {
			v.held -= x.failure.weight()
			continue
		}
		if v.out--; v.out == 0 {
			v.size = 0
		}
	}
}

// close removes the file, also one that a killed run has left.
func (v *evidence) close() error {
	var err error
	if v.file != nil {
		err = v.file.Close()
		v.file = nil
	}
	return errors.Join(err, check.Unless(os.Remove(v.path), os.ErrNotExist))
}
