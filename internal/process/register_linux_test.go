package process

import (
	"os"
	"path/filepath"
	"testing"
)

// A register may be of a kernel without inodes, and a leader carries no mark when it has thrown that away.
func TestALeaderIsKnownByItsStart(t *testing.T) {
	for name, startIDOf := range map[string]func(pid int) (string, bool){
		"as now": startIDOf,
		"time":   func(pid int) (string, bool) { m, ok := memberOf(pid); return m.start, ok },
	} {
		leader, another := outlaw(t), outlaw(t)
		startID, ok := startIDOf(leader)
		if !ok {
			t.Fatalf("%s: got no startID of process %d", name, leader)
		}
		path := filepath.Join(t.TempDir(), "processes")
		text := record{pid: leader, startID: startID, boot: BootID(), mark: "mark"}.text()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		endLeftovers(t, path, long, 1)
		if living(t, leader) || !living(t, another) {
			t.Errorf("%s: got leader living %t and another living %t, want the leader ended alone", name, living(t, leader), living(t, another))
		}
	}
}
