//go:build unix

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestACommandKilledForMemoryIsToldFromOthers: the commands count up what the kernel would.
func TestACommandKilledForMemoryIsToldFromOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.events")
	kill := "printf 'low 0\\noom 3\\noom_kill 5\\noom_group_kill 0\\n' > " + file + "; "
	for name, c := range map[string]struct {
		script string
		want   bool
	}{
		"killed, and the kernel has killed":     {kill + "kill -9 $$", true},
		"a program of the shell":                {kill + "sh -c 'kill -9 $$'; exit $?", true},
		"killed by somebody else":               {"kill -9 $$", false},
		"a failure while another was killed":    {kill + "exit 1", false},
		"a success while another was killed":    {kill + "exit 0", false},
		"ended by its time limit, and by force": {kill + "trap '' TERM; sleep 5", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte("low 0\noom 3\noom_kill 4\noom_group_kill 0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			exit, err := Run(t.Context(), Command{Argv: []string{"sh", "-c", c.script}, OOM: &OOMKills{paths: []string{"/nowhere", file}}, Timeout: time.Second})
			if err != nil || exit.OOM != c.want {
				t.Errorf("got %+v, %v, want OOM %v", exit, err, c.want)
			}
		})
	}
}

// Each command reads the count, of a file that may be long.
func TestReadingTheCountMakesNoGarbage(t *testing.T) {
	file := strings.NewReader("low 0\noom 3\noom_kill 4\n")
	if n := testing.AllocsPerRun(100, func() { oomCount(file) }); n > 0 {
		t.Errorf("got %g allocations", n)
	}
}

func TestTheCountOfThisSystemIsRead(t *testing.T) {
	first, ok := NewOOMKills().count()
	if again, still := NewOOMKills().count(); still != ok || again < first {
		t.Errorf("got %d %v, then %d %v", first, ok, again, still)
	}
	var none *OOMKills
	if n, ok := none.count(); n != 0 || ok {
		t.Errorf("nobody counts: got %d %v", n, ok)
	}
}
