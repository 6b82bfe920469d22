package events

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aboutIDs are ids that a quick look at a line could take for one another, or that are escaped in it.
var aboutIDs = []string{"item_1", "item_10", "1", "a/b", "a", "b", `q"uote`, "line\nbreak", "žluť", "<script>", `back\slash`, "/", "%2F"}

// About yields what Read does, but for the records about other items.
func TestAboutYieldsWhatReadDoesOfAnItem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log, err := Create(dir, "job-1", now, Options{Durability: None})
	if err != nil {
		t.Fatal(err)
	}
	log.Append(now, JobStarted{Mode: "mapreduce"})
	for i, id := range aboutIDs {
		log.Append(now, AgentStarted{AttemptID: AttemptID{
			ItemID: id, ItemIndex: i, AgentID: "job-1/" + id + "/1",
			Attempt: 1,
		}})
		log.Append(now, StepRetrying{ItemID: id, Error: `{"seq":1,"item_id":"item_1"}`})
		log.Append(now, StepCompleted{Step: id})
		log.Append(now, DLQItemRemoved{ItemID: id})
	}
	log.Append(now, JobPaused{Reason: "item_1"})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(aboutIDs, "unknown", "") {
		var want []Record
		for r, err := range Read(dir) {
			if err != nil {
				t.Fatal(err)
			}
			if about := Subject(r.Event); about == "" || about == id {
				want = append(want, r)
			}
		}
		var got []Record
		for r, err := range About(dir, id) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("about %q (-want +got):\n%s", id, diff)
		}
	}
}

// A line that another program has written is decoded, whatever its head looks like.
func TestAboutReadsLinesOfOthers(t *testing.T) {
	lines := []string{
		`{"seq":1,"time":"2026-01-02T03:04:05.000000Z","job_id":"j","correlation_id":"j","type":"JobPaused"}`,
		`{"seq": 2, "type": "AgentStarted", "item_id": "é", "item_index": 0, "attempt": 1, "worker": 1, "time": "2026-01-02T03:04:05Z", "job_id": "j", "correlation_id": "j/x"}`,
		`{"seq":3,"time":"2026-01-02T03:04:05.000000Z","job_id":"j","correlation_id":"j/\u00e9","type":"AgentStarted","item_id":"\u00e9","item_index":0,"attempt":1,"worker":1}`,
		`{"seq":4,"time":"2026-01-02T03:04:05.000000Z","job_id":"j","correlation_id":"j","type":"AgentStarted","item_id":"x","item_index":0,"attempt":1,"worker":1}`,
		`{"seq":5,"time":"2026-01-02T03:04:05.000000Z","job_id":"j","correlation_id":"j","type":"AgentStarted","item_id":"é","item_index":0,"attempt":1,"worker":1}`,
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "events-1.jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []int64
	for r, err := range About(dir, "é") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Seq)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 5}, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}
