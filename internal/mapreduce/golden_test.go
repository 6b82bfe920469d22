package mapreduce

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

var recordAs = flag.String("record", "", "record the golden jobs of this version under testdata/golden/`NAME`, which must not exist")

// folded is what a golden log must fold to, in this version and every later one.
type folded struct {
	State   State                `json:"state"`
	Seq     int64                `json:"seq"`
	Status  []errorpolicy.Status `json:"status"` // by item index
	Waiting []int                `json:"waiting"`
	Metrics errorpolicy.Metrics  `json:"metrics"`
}

// Logs that an earlier version has written are never rewritten: whoever upgrades in the middle of a job has one like them.
func TestGoldenLogsFoldAsTheyDidWhenTheyWereWritten(t *testing.T) {
	if *recordAs != "" {
		recordGolden(t, filepath.Join("testdata", "golden", *recordAs))
	}
	logs, err := filepath.Glob("testdata/golden/*/*/events-*.jsonl")
	if err != nil || len(logs) == 0 {
		t.Fatalf("got %d golden logs, %v, want some", len(logs), err)
	}
	for _, log := range logs {
		dir := filepath.Dir(log)
		source, err := os.ReadFile(filepath.Join(dir, "workflow.yml"))
		if err != nil {
			t.Fatal(err)
		}
		var want folded
		data, err := os.ReadFile(filepath.Join(dir, "folded.json"))
		if err == nil {
			err = json.Unmarshal(data, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, fold(t, dir, string(source))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}
		checkLastWord(t, dir, want)
	}
}

// checkLastWord checks that the last record of a log alone says what all of them come to, when it is an end.
func checkLastWord(t *testing.T, dir string, want folded) {
	t.Helper()
	last, err := lastWord(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sum Summary
	if whole := sum.ended(last); whole != (want.State == Completed || want.State == Failed) {
		t.Errorf("%s: got %t, want that it is an end when the job is %q", dir, whole, want.State)
	} else if whole && (sum.State != string(want.State) || !cmp.Equal(sum.Metrics, want.Metrics)) {
		t.Errorf("%s: got %s with %+v, want %s with %+v", dir, sum.State, sum.Metrics, want.State, want.Metrics)
	}
}

func fold(t *testing.T, dir, source string) folded {
	t.Helper()
	s := newState(parse(t, source).ErrorPolicy)
	for r, err := range events.Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		s.apply(r)
	}
	f := folded{State: s.Ended, Seq: s.Seq, Metrics: s.Policy.Metrics()}
	for i := range s.Status.Len() {
		f.Status = append(f.Status, s.Status.At(i))
	}
	f.Waiting = slices.Sorted(maps.Keys(s.Waiting))
	return f
}

func recordGolden(t *testing.T, root string) {
	t.Helper()
	if _, err := os.Stat(root); err == nil {
		t.Fatalf("%s is there: golden logs are not rewritten", root)
	}
	for name, k := range kinds() {
		c := config(t, fake(k.reply))
		whole := runInBubble(t, c, k.source)
		log := readLog(t, whole.Job)
		dir := filepath.Join(root, strings.ReplaceAll(name, " ", "-"))
		writeGolden(t, dir, k.source, log)
		if i := strings.Index(log, `"retry_at"`); i > 0 {
			writeGolden(t, dir+"-killed", k.source, log[:i+strings.Index(log[i:], "\n")+1])
		}
	}
}

func writeGolden(t *testing.T, dir, source, log string) {
	t.Helper()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write("events-20000101T000000.000000Z.jsonl", log)
	write("workflow.yml", source)
	data, err := json.MarshalIndent(fold(t, dir, source), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	write("folded.json", string(data)+"\n")
}
