package job

import (
	"testing"
)

func TestOnlyTheUserAndRootMaySteerAJob(t *testing.T) {
	for peer, want := range map[int]bool{1000: true, 0: true, 1001: false, 65534: false} {
		if err := allowed(peer, 1000); (err == nil) != want {
			t.Errorf("user %d of a job of user 1000: got %v, want allowed %t", peer, err, want)
		}
	}
}
