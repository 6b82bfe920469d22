//go:build unix

package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"prodigy/lab/try"
)

// record is what the judge wants to know of a line of the log.
type record struct {
	Seq       int    `json:"seq"`
	Type      string `json:"type"`
	ItemID    string `json:"item_id"`
	AgentID   string `json:"agent_id"`
	Attempt   int    `json:"attempt"`
	Action    string `json:"action"`
	ErrorType string `json:"error_type"`
	Reason    string `json:"reason"`
	ID        string `json:"id"` // of a step

	Commit  string   `json:"commit"`   // with workspaces: what an attempt did
	Head    string   `json:"head"`     // and the result so far
	ItemIDs []string `json:"item_ids"` // that were merged, or are verified

	Time    time.Time  `json:"time"`
	RetryAt *time.Time `json:"retry_at"`
	Metrics *counts    `json:"metrics"`

	DurationMS float64 `json:"duration_ms"`
}

// counts are what a job says of itself at its end.
type counts struct {
	Total      int `json:"total_items"`
	Successful int `json:"successful"`
	Failed     int `json:"failed"`
	Skipped    int `json:"skipped"`
	Rejected   int `json:"rejected"`
}

// logBytes returns all whole lines of the log.
func (r *round) logBytes() []byte {
	files, _ := filepath.Glob(filepath.Join(r.home(), "events", "*", "*", "events-*.jsonl*"))
	slices.Sort(files)
	var all []byte
	for i, f := range files {
		name, packed := strings.CutSuffix(f, ".zst")
		if packed && i > 0 && files[i-1] == name {
			continue // it was killed between the two: they say the same
		}
		data, err := os.ReadFile(f)
		if packed && err == nil {
			data, err = unpack(data)
		}
		if err != nil {
			continue // the judge will miss its records
		}
		all = append(all, data[:bytes.LastIndexByte(data, '\n')+1]...)
	}
	return all
}

// logFile returns a file of the log of the job. A run that was killed before its first record has left a job without one.
func (r *round) logFile() string {
	files, _ := filepath.Glob(filepath.Join(r.home(), "events", "*", "*", "events-*"))
	i := slices.IndexFunc(files, func(name string) bool {
		data, err := os.ReadFile(name)
		return err == nil && (bytes.IndexByte(data, '\n') >= 0 || strings.HasSuffix(name, ".zst"))
	})
	try.FailIf(i < 0, "log not found")
	return files[i]
}

func unpack(data []byte) ([]byte, error) {
	z := try.To(zstd.NewReader(nil))
	defer z.Close()
	return z.DecodeAll(data, nil)
}

// linesOf reads lines of JSON.
func linesOf[T any](what string, data []byte) (all []T) {
	for line := range bytes.Lines(data) {
		var one T
		try.FailIf(json.Unmarshal(line, &one) != nil, "a line of %s is not JSON: %q", what, line)
		all = append(all, one)
	}
	return all
}

func parseLog(data []byte) (all []record, err error) {
	err = try.Catch(func() { all = linesOf[record]("the log", data) })
	return all, err
}

// begun reports whether the job has a log: before that, nothing has run and there is nothing to resume.
func (r *round) begun() bool { return len(r.logBytes()) > 0 }

// last reports whether the log ends with this event.
func (r *round) last(event string) bool {
	all, err := parseLog(r.logBytes())
	return err == nil && len(all) > 0 && all[len(all)-1].Type == event
}

// snap keeps what is certain now that the last run was cut short.
func (r *round) snap() {
	r.cut[r.runs] = true
	s := snapshot{log: r.logBytes(), settled: map[string]int{}}
	all, err := parseLog(s.log)
	if err != nil {
		return // the judge will tell
	}
	for _, rec := range all {
		switch rec.Type {
		case "AgentCompleted":
			s.settled[rec.ItemID] = begins(r.effects(rec.ItemID))
		case "StepCompleted":
			s.settled["step."+rec.ID] = begins(r.effects("step." + rec.ID))
		}
	}
	r.before = append(r.before, s)
	r.early = append(r.early, r.tooEarly(all)...)
}

// tooEarly looks whether the journal of the dead letters runs ahead of the log, which a crash must not find.
func (r *round) tooEarly(all []record) (wrong []error) {
	failed, settled := map[string]bool{}, map[string]bool{}
	for _, rec := range all {
		switch {
		case rec.Type == "AgentFailed" && (rec.Action == "dlq" || rec.Action == "stop"):
			failed[rec.ItemID] = true
		case rec.Type == "AgentCompleted":
			settled[rec.ItemID] = true
		}
	}
	for _, o := range r.journal() {
		if o.Seq > len(all) {
			wrong = append(wrong, fmt.Errorf("the dead letters had followed record %d at kill %d, and the log has %d", o.Seq, r.kills, len(all)))
		}
		if o.Op == "remove" && !settled[o.ItemID] {
			wrong = append(wrong, fmt.Errorf("%s was no dead letter any more at kill %d, and its success not in the log", o.ItemID, r.kills))
		}
		if (o.Op == "add" || o.Op == "update") && !failed[o.ItemID] {
			wrong = append(wrong, fmt.Errorf("%s was a dead letter at kill %d, and its failure not in the log", o.ItemID, r.kills))
		}
	}
	return wrong
}

// effect is a line that an agent has left.
type effect struct {
	word, run, attempt, pid string
	value                   string // of a step
}

// effects returns what the agents of an item have left, in order.
func (r *round) effects(name string) []effect {
	data, err := os.ReadFile(filepath.Join(r.dir, "effects", name))
	if err != nil {
		return nil
	}
	var all []effect
	for line := range strings.Lines(string(data)) {
		words := append(strings.Fields(line), "", "", "", "") // it may have been killed while it wrote
		value := strings.TrimSpace(strings.Join(words[4:], " "))
		all = append(all, effect{words[0], words[1], words[2], words[3], value})
	}
	return all
}

func begins(all []effect) int {
	n := 0
	for _, e := range all {
		if e.word == "begin" {
			n++
		}
	}
	return n
}

// deadLetters returns the items that the journal of the dead letter queue leaves.
func (r *round) deadLetters() map[string]bool {
	left := map[string]bool{}
	for _, o := range r.journal() {
		switch o.Op {
		case "add", "update":
			left[o.ItemID] = true
		case "remove":
			delete(left, o.ItemID)
		}
	}
	return left
}

// letterOp is a line of the journal of the dead letter queue.
type letterOp struct {
	Op     string `json:"op"`  // add, update, remove, or mark, which is about no item
	Seq    int    `json:"seq"` // of the record that it follows
	ItemID string `json:"item_id"`
}

// journal returns its whole lines.
func (r *round) journal() (all []letterOp) {
	files, _ := filepath.Glob(filepath.Join(r.home(), "dlq", "*", "*", "dlq.jsonl"))
	for _, f := range files {
		data := try.To(os.ReadFile(f))
		all = append(all, linesOf[letterOp]("the dead letter queue", data[:bytes.LastIndexByte(data, '\n')+1])...)
	}
	// A mark says how far the log has been followed, and is about no item.
	return slices.DeleteFunc(all, func(o letterOp) bool { return o.Op == "mark" })
}

// row is a line of results.jsonl.
type row struct {
	ItemID string `json:"item_id"`
	Index  int    `json:"index"`
	Status string `json:"status"`
	Output string `json:"output"`
}

func (r *round) results() []row {
	files, _ := filepath.Glob(filepath.Join(r.home(), "state", "*", "*", "results.jsonl"))
	try.FailIf(len(files) != 1, "%d files of results", len(files))
	return linesOf[row]("the results", try.To(os.ReadFile(files[0])))
}
