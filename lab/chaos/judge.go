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

	"prodigy/lab/try"
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
func (r *round) judge(v *verdict, u *user, j *job) {
	badIf := func(is bool, format string, args ...any) {
		if is {
			v.bad = append(v.bad, j.name+": "+fmt.Sprintf(format, args...))
		}
	}
	started, back, settled := map[string]int{}, map[string]int{}, map[string]int{}
	lost := map[string]bool{} // attempts of which no late end is known
	id, logs := u.log(j)
	for _, path := range logs {
		data := try.To(os.ReadFile(path))
		for line := range bytes.Lines(data) {
			var rec record
			try.Check(json.Unmarshal(line, &rec))
			key := rec.ItemID + "/" + strconv.Itoa(rec.Attempt)
			switch rec.Type {
			case "AgentStarted":
				started[key]++
				badIf(settled[rec.ItemID] > 0, "%s was begun after its work was recorded", key)
			case "AgentInterrupted":
				back[key]++
			case "AgentLost":
				lost[key] = true
				v.lost++
			case "AgentEndedLate":
				badIf(!lost[key], "%s has ended late, and was not lost or had ended late before", key)
				lost[key] = false
				v.late++
			case "AgentCompleted":
				settled[rec.ItemID]++
				want := fmt.Sprintf("%s %d", j.name, rec.ItemIndex+1)
				badIf(strings.TrimSpace(rec.Output) != want && !j.space, "%s has printed %q, want %q", key, rec.Output, want)
			case "AgentFailed":
				v.stopped++
				badIf(rec.Action != "retry" || rec.ErrorType != "timeout", "%s failed", key)
			case "StepRetrying":
				badIf(true, "%s has a try that failed: %s", key, rec.Error)
			}
		}
	}
	badIf(len(settled) != r.items, "%d items were settled, want %d", len(settled), r.items)
	for item, n := range settled {
		badIf(n != 1, "%s was settled %d times", item, n)
	}
	files := try.To(filepath.Glob(filepath.Join(j.dir, "witness", "*")))
	badIf(len(files) != r.items, "%d items have run, want %d", len(files), r.items)
	for _, path := range files {
		witness(v, path, id, started, back)
	}
	if j.files {
		for i := 1; i <= r.items; i++ {
			want := fmt.Sprintf("%s %d the data of %s\n", j.name, i, j.name)
			text, err := os.ReadFile(filepath.Join(j.dir, "out", strconv.Itoa(i)))
			badIf(err != nil || string(text) != want, "item %d has made %q, want %q (%v)", i, text, want, err)
		}
	}
	if j.space {
		r.judgeWork(badIf, u, j, id)
	}
}

// witness compares what the executions of an item wrote with the log.
func witness(v *verdict, path, jobID string, started, back map[string]int) {
	f := try.To(os.Open(path))
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
}

func (u *user) repository() string { return filepath.Join(u.dir, "repo") }

// makeRepository makes the repository that the jobs of a user are run in.
func (r *round) makeRepository(u *user) {
	try.Check(os.MkdirAll(u.repository(), 0o700))
	var lines strings.Builder
	for i := range 4 * (r.items + 1) {
		fmt.Fprintf(&lines, "line %d\n", i+1)
	}
	for name, text := range map[string]string{"lines": lines.String(), ".gitignore": "ignored/\n"} {
		try.Check(os.WriteFile(filepath.Join(u.repository(), name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "Ada"}, {"config", "user.email", "ada@example.com"}, {"add", "-A"}, {"commit", "-qm", "first"}} {
		_ = try.To(try.Git(u.repository(), args...))
	}
}

// judgeWork looks, by git alone, whether the work of each item is in the result, once.
func (r *round) judgeWork(badIf func(is bool, format string, args ...any), u *user, j *job, id string) {
	look := func(args ...string) string {
		out, err := try.Git(u.repository(), args...)
		badIf(err != nil, "%v", err)
		return out
	}
	changed := look("status", "--porcelain")
	badIf(changed != "", "the checkout is changed: %s", changed)
	branches := strings.Fields(look("for-each-ref", "--format=%(refname)", "refs/heads/prodigy/"))
	branches = slices.DeleteFunc(branches, func(name string) bool { return !strings.Contains(name, id) })
	if len(branches) != 1 {
		badIf(true, "results: %q", branches)
		return
	}
	branch := branches[0]
	merged := map[string]int{}
	for subject := range strings.Lines(look("log", "--first-parent", "--format=%s", branch)) {
		merged[strings.TrimSpace(subject)]++
	}
	files := strings.Split(look("ls-tree", "--name-only", branch), "\n")
	lines := strings.Split(look("show", branch+":lines"), "\n")
	for i := 1; i <= r.items; i++ {
		n := merged[j.name+": item_"+strconv.Itoa(i-1)]
		badIf(n != 1, "item %d was merged %d times", i, n)
		badIf(!slices.Contains(files, "item-"+strconv.Itoa(i)) || i%5 == 2 && !slices.Contains(files, "big-"+strconv.Itoa(i)), "item %d: what it made is not in the result", i)
		if at := i * 4; at < len(lines) && strings.Count(lines[at]+" ", " "+strconv.Itoa(i)+" ") != 1+strings.Count("line "+strconv.Itoa(at+1)+" ", " "+strconv.Itoa(i)+" ") {
			badIf(true, "item %d: the line %q", i, lines[at])
		}
	}
	badIf(len(merged) != r.items+1, "the result has %d commits, want %d", len(merged), r.items+1)
	look("fsck", "--strict", "--no-dangling")
	hubs, err := filepath.Glob(filepath.Join(u.home(), "state", "*", id, "git", "hub"))
	badIf(err != nil || len(hubs) > 0, "all was delivered, and hubs are left: %q, %v", hubs, err)
}
