package mapreduce

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var recordAs = flag.String("record", "", "record golden jobs of this version as `NAME` for package job, which must not exist there")

// go test ./internal/job -update then writes what they fold to.
func TestRecordGoldenLogs(t *testing.T) {
	if *recordAs == "" {
		t.Skip("nothing is to be recorded")
	}
	recordGolden(t, filepath.Join("..", "job", "testdata", "golden", *recordAs))
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
}
