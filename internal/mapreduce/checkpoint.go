package mapreduce

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// foldVersion counts the changes of what state.apply, the queue of dead letters and the snapshots of both make of a log. Each change makes
// it one more: a checkpoint of another version is passed over.
const foldVersion = 3

// checkpoint is what a log comes to up to one of its records, so that a job can be taken up without reading the log to there. The log
// stays the one truth: without a checkpoint, or with a bad one, the log is read from its beginning.
type checkpoint struct {
	Mark    events.Mark   `json:"mark"`
	Policy  []byte        `json:"policy"` // SHA-256 of the policy that the log was folded with: a mended workflow may have another
	State   snapshot      `json:"state"`
	Letters *dlq.Snapshot `json:"letters,omitempty"` // nil: the job has no items
}

// encode returns the contents of the file of the checkpoint: a line that says what it is, with a checksum, and JSON.
func (c checkpoint) encode() ([]byte, error) {
	var file bytes.Buffer
	n, _ := file.Write(checkpointHead(nil)) // room for the one with the checksum
	e := json.NewEncoder(&file)
	e.SetEscapeHTML(false) // what steps have given stays as it was, to the byte
	if err := e.Encode(c); err != nil {
		return nil, err
	}
	data := file.Bytes()
	copy(data, checkpointHead(data[n:]))
	return data, nil
}

func checkpointHead(body []byte) []byte {
	return fmt.Appendf(nil, "prodigy checkpoint %d %x\n", foldVersion, sha256.Sum256(body))
}

// errCheckpoint says that a checkpoint is damaged, or of another version.
var errCheckpoint = errors.New("no checkpoint of this version")

// decodeCheckpoint reads what encode wrote for a job with a policy.
func decodeCheckpoint(data []byte, p errorpolicy.Policy) (checkpoint, error) {
	c := checkpoint{State: snapshot{Policy: errorpolicy.New(p)}}
	end := bytes.IndexByte(data, '\n') + 1
	if !bytes.Equal(data[:end], checkpointHead(data[end:])) {
		return c, errCheckpoint
	}
	if err := json.Unmarshal(data[end:], &c); err != nil {
		return checkpoint{}, err
	}
	sum, err := sumOf(p)
	if c.State.Policy == nil || c.State.Seq != c.Mark.Seq || !bytes.Equal(c.Policy, sum) {
		return c, errors.Join(errCheckpoint, err)
	}
	return c, err
}

// sumOf returns what tells policies apart.
func sumOf(p errorpolicy.Policy) ([]byte, error) {
	data, err := json.Marshal(p)
	sum := sha256.Sum256(data)
	return sum[:], err
}

// readCheckpoint returns the checkpoint of a job. It is not ok when there is none, when it is not of this policy and version, whole, or when
// the log does not have the record it was made at: a power loss may have taken that.
func readCheckpoint(place jobs.Job, p errorpolicy.Policy) (c checkpoint, ok bool) {
	data, err := os.ReadFile(place.CheckpointFile())
	if err == nil {
		c, err = decodeCheckpoint(data, p)
	}
	return c, err == nil && events.Holds(place.EventsDir(), c.Mark)
}

// past is what a log comes to as far as a checkpoint knows, and the records behind that.
type past struct {
	state *state
	rest  iter.Seq2[events.Record, error]
}

// recall returns the past of a job. Its queue, if there is one, is put to the same place.
func recall(place jobs.Job, p errorpolicy.Policy, queue *dlq.Projection) (past, error) {
	whole := past{newState(p), events.Read(place.EventsDir())}
	c, ok := readCheckpoint(place, p)
	if !ok || queue != nil && c.Letters == nil {
		return whole, nil
	}
	if queue != nil {
		if ok, err := queue.Restore(*c.Letters, c.Mark.Seq); !ok || err != nil {
			return whole, err
		}
	}
	return past{c.State.state(), events.ReadBehind(place.EventsDir(), c.Mark)}, nil
}
