package process

import (
	"os"
	"path/filepath"
	"testing"
)

// A register may have been written on a kernel without numbers, and its leaders carry no mark when they have
// thrown it away.
func TestALeaderIsKnownByItsNumberAndByItsStart(t *testing.T) {
	for name, startIDOf := range map[string]func(pid int) (string, bool){
		"number": numberOf,
		"start":  func(pid int) (string, bool) { m, ok := memberOf(pid); return m.start, ok },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "number" && !hasNumbers() {
				t.Skip("this kernel gives processes no numbers")
			}
			leader, another := outlaw(t), outlaw(t)
			startIDs := make(map[int]string)
			for _, pid := range []int{leader, another} {
				startID, ok := startIDOf(pid)
				if !ok {
					t.Fatalf("got no startID of process %d", pid)
				}
				startIDs[pid] = startID
			}
			if name == "number" && startIDs[leader] == startIDs[another] {
				t.Errorf("got %s for two processes", startIDs[leader])
			}
			path := filepath.Join(t.TempDir(), "processes")
			text := record{pid: leader, startID: startIDs[leader], boot: BootID(), mark: "mark"}.text()
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			endLeftovers(t, path, long, 1)
			if living(t, leader) || !living(t, another) {
				t.Errorf("got leader living %t and another living %t, want the leader ended alone", living(t, leader), living(t, another))
			}
		})
	}
}
