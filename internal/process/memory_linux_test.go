package process

import (
	"os"
	"os/exec"
	"testing"
)

func TestAFileInMemoryIsReadByOthersAndGoneWhenClosed(t *testing.T) {
	file, path, err := MemoryFile("first\nsecond\n")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // each that opens it reads from the start
		if out, err := exec.Command("cat", path).CombinedOutput(); err != nil || string(out) != "first\nsecond\n" {
			t.Errorf("got %q, %v", out, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v, want a regular file of its user", info.Mode(), err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is still there", path)
	}
}
