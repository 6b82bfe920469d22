//go:build unix

package chaos

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// record is what the judge reads of a line of the log.
type record struct {
	Type      string `json:"type"`
	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
	Attempt   int    `json:"attempt"`
	Action    string `json:"action"`
	ErrorType string `json:"error_type"`
	Output    string `json:"output"`
	Error     string `json:"error"`
}

// beat is a line that a command has written.
type beat struct {
	attempt int
	at      int64
}

// judge compares what was to be done by a job with what its log says, what its commands say, and what they have made.
func (r *round) judge(v *verdict, u *user, j *job) error {
	bad := func(format string, args ...any) { v.bad = append(v.bad, j.name+": "+fmt.Sprintf(format, args...)) }
	started, back, settled := map[string]int{}, map[string]int{}, map[string]int{}
	lost := map[string]bool{} // attempts of which no late end is known
	id, logs, err := u.log(j)
	if err != nil {
		return err
	}
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			var rec record
			if err := json.Unmarshal(line, &rec); err != nil {
				return err
			}
			key := rec.ItemID + "/" + strconv.Itoa(rec.Attempt)
			switch rec.Type {
			case "AgentStarted":
				started[key]++
				if settled[rec.ItemID] > 0 {
					bad("%s was begun after its work was recorded", key)
				}
			case "AgentInterrupted":
				back[key]++
			case "AgentLost":
				lost[key] = true
				v.lost++
			case "AgentEndedLate":
				if !lost[key] {
					bad("%s has ended late, and was not lost or had ended late before", key)
				}
				lost[key] = false
				v.late++
			case "AgentCompleted":
				settled[rec.ItemID]++
				if want := fmt.Sprintf("%s %d", j.name, rec.ItemIndex+1); strings.TrimSpace(rec.Output) != want && !j.space {
					bad("%s has printed %q, want %q", key, rec.Output, want)
				}
			case "AgentFailed":
				if v.stopped++; rec.Action != "retry" || rec.ErrorType != "timeout" {
					bad("%s failed", key)
				}
			case "StepRetrying":
				bad("%s has a try that failed: %s", key, rec.Error)
			}
		}
	}
	if len(settled) != r.items {
		bad("%d items were settled, want %d", len(settled), r.items)
	}
	for item, n := range settled {
		if n != 1 {
			bad("%s was settled %d times", item, n)
		}
	}
	files, err := filepath.Glob(filepath.Join(j.dir, "witness", "*"))
	if err != nil {
		return err
	}
	if len(files) != r.items {
		bad("%d items have run, want %d", len(files), r.items)
	}
	for _, path := range files {
		if err := witness(v, path, id, started, back); err != nil {
			return err
		}
	}
	if j.files {
		for i := 1; i <= r.items; i++ {
			want := fmt.Sprintf("%s %d the data of %s\n", j.name, i, j.name)
			if text, err := os.ReadFile(filepath.Join(j.dir, "out", strconv.Itoa(i))); err != nil || string(text) != want {
				bad("item %d has made %q, want %q (%v)", i, text, want, err)
			}
		}
	}
	if j.space {
		r.judgeWork(bad, u, j, id)
	}
	return nil
}

// witness compares what the executions of an item wrote with the log.
func witness(v *verdict, path, jobID string, started, back map[string]int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	item := filepath.Base(path)
	spans := map[string][]beat{} // by execution
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 5 {
			continue // it was killed while it wrote
		}
		if words[0] != jobID || words[1] != item {
			v.bad = append(v.bad, fmt.Sprintf("%s of job %s says that it is %s of %s", item, jobID, words[1], words[0]))
		}
		attempt, _ := strconv.Atoi(words[2])
		at, _ := strconv.ParseInt(words[4], 10, 64)
		name := words[2] + "/" + words[3]
		spans[name] = append(spans[name], beat{attempt, at})
	}
	var list [][]beat
	runs := map[string]int{}
	for _, span := range spans {
		list = append(list, span)
		runs[item+"/"+strconv.Itoa(span[0].attempt)]++
	}
	v.executions += len(list)
	for key, n := range runs {
		if started[key] == 0 {
			v.bad = append(v.bad, fmt.Sprintf("%s of %s has run and has no record", key, jobID))
		}
		if more := n - 1 - back[key]; more > 0 {
			v.twice += more
			v.bad = append(v.bad, fmt.Sprintf("%s of %s has run %d times, and was given back %d times", key, jobID, n, back[key]))
		}
	}
	slices.SortFunc(list, func(a, b []beat) int { return cmp.Compare(a[0].at, b[0].at) })
	for i, after := range list {
		for _, before := range list[:i] {
			n, m := before[0].attempt, after[0].attempt
			if by := before[len(before)-1].at - after[0].at; by > 0 {
				v.lap++
				v.bad = append(v.bad, fmt.Sprintf("two executions of %s of %s overlap by %s, attempts %d and %d", item, jobID, time.Duration(by), n, m))
			}
		}
	}
	return nil
}
