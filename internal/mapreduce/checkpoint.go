package mapreduce

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// foldVersion is increased by each change of what state.apply and the projection onto the dead letters make of a log, and of the shape in which
// both are written down: a checkpoint of another version is ignored. Tests notice either change and say what to do.
const foldVersion = 6

// checkpoint is what a log comes to up to one of its records, so that a job can be taken up without reading the log to there. The log
// stays the one truth: without a checkpoint, or with a bad one, the log is read from its beginning.
type checkpoint struct {
	Mark    events.Mark `json:"mark"`
	Policy  []byte      `json:"policy"` // SHA-256 of the policy that the log was folded with: another workflow may have another
	State   *state      `json:"state"`
	Letters *dlq.Memory `json:"letters,omitempty"` // nil: the job has no items
}

// encode returns the contents of the file of the checkpoint: a line that says what it is, with a checksum, and JSON.
func (c checkpoint) encode() ([]byte, error) {
	var file bytes.Buffer
	n, _ := file.Write(checkpointHead(nil)) // room for the one with the checksum
	if err := encodeExactly(&file, c); err != nil {
		return nil, err
	}
	data := file.Bytes()
	copy(data, checkpointHead(data[n:]))
	return data, nil
}

// encodeExactly writes v as JSON in which what steps have captured stays as it was, to the byte.
func encodeExactly(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func checkpointHead(body []byte) []byte {
	return fmt.Appendf(nil, "prodigy checkpoint %d %x\n", foldVersion, sha256.Sum256(body))
}

// errCheckpoint says that a checkpoint is damaged, or of another version.
var errCheckpoint = errors.New("no checkpoint of this version")

// decodeCheckpoint reads what encode wrote for a job with a policy.
func decodeCheckpoint(data []byte, p errorpolicy.Policy) (checkpoint, error) {
	c := checkpoint{State: newState(p)}
	end := bytes.IndexByte(data, '\n') + 1
	if !bytes.Equal(data[:end], checkpointHead(data[end:])) {
		return checkpoint{}, errCheckpoint
	}
	if err := json.Unmarshal(data[end:], &c); err != nil {
		return checkpoint{}, err
	}
	sum, err := sumOf(p)
	if !c.State.complete() || c.State.Seq != c.Mark.Seq || !bytes.Equal(c.Policy, sum) {
		return checkpoint{}, errors.Join(errCheckpoint, err)
	}
	return c, err
}

// complete reports whether a state that was read has all that apply needs.
func (s *state) complete() bool {
	return s != nil && s.Policy != nil && s.Phases != nil && !slices.Contains(slices.Collect(maps.Values(s.Phases)), nil) && s.Running != nil &&
		s.Waiting != nil && s.Retrying != nil && s.Crashes != nil && s.Failures != nil && s.LastTry != nil && s.Circuits != nil
}

// clone returns an independent copy of the state.
func (s *state) clone(p errorpolicy.Policy) (*state, error) {
	var data bytes.Buffer
	if err := encodeExactly(&data, s); err != nil {
		return nil, err
	}
	again := newState(p)
	return again, json.Unmarshal(data.Bytes(), again)
}

// sumOf returns what tells policies apart.
func sumOf(p errorpolicy.Policy) ([]byte, error) {
	data, err := json.Marshal(p)
	sum := sha256.Sum256(data)
	return sum[:], err
}

// found is the checkpoint of a job as it was found.
type found struct {
	checkpoint // Mark is zero if there is none that is whole and of this version and policy
	place      jobs.Job
	policy     errorpolicy.Policy
	usable     bool // the log has the record it was made at; a power loss may have taken that
}

// readCheckpoint reads the checkpoint of a job.
func readCheckpoint(place jobs.Job, p errorpolicy.Policy) found {
	f := found{place: place, policy: p}
	data, err := os.ReadFile(place.CheckpointFile())
	if err != nil {
		return f
	}
	if c, err := decodeCheckpoint(data, p); err == nil {
		f.checkpoint, f.usable = c, events.Holds(place.EventsDir(), c.Mark)
	}
	return f
}

// restored is the state of a job at a record, and the records after it.
type restored struct {
	state *state
	rest  iter.Seq2[events.Record, error]
}

// restore returns the state at the checkpoint, or of nothing if that is not usable. The queue, if it is not nil, is put to the same record.
func (f found) restore(queue *dlq.Projection) (restored, error) {
	whole := restored{newState(f.policy), events.Read(f.place.EventsDir())}
	if !f.usable || queue != nil && f.Letters == nil {
		return whole, nil
	}
	if queue != nil {
		if ok, err := queue.Restore(*f.Letters, f.Mark.Seq); !ok || err != nil {
			return whole, err
		}
	}
	return restored{f.State, events.ReadBehind(f.place.EventsDir(), f.Mark)}, nil
}
