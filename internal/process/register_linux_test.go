package process

import (
	"os"
	"path/filepath"
	"testing"
)

// A leader carries no mark when it has thrown that away.
func TestALeaderIsKnownByItsStart(t *testing.T) {
	leader, another := outlaw(t), outlaw(t)
	startID, ok := startIDOf(leader)
	if !ok {
		t.Fatalf("got no startID of process %d", leader)
	}
	path := filepath.Join(t.TempDir(), "processes")
	text := record{pid: leader, startID: startID, boot: BootID(), mark: "mark"}.text()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	endLeftovers(t, path, long, 1)
	if living(t, leader) || !living(t, another) {
		t.Errorf("got leader living %t and another living %t, want the leader ended alone", living(t, leader), living(t, another))
	}
}
