//go:build unix

package damage

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
)

// compressing is a directory in which the log is compressed just after its files were listed for the first time.
type compressing struct {
	fstest.MapFS
	listed bool
}

func (c *compressing) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := c.MapFS.ReadDir(name)
	if !c.listed {
		c.listed = true
		c.MapFS["log.zst"] = c.MapFS["log"]
		delete(c.MapFS, "log")
	}
	return entries, err
}

func TestASnapshotHoldsWhatIsCompressedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "killed")
	running := &compressing{MapFS: fstest.MapFS{"checkpoint": {Data: []byte("c")}, "log": {Data: []byte("l")}}}
	snapshot(dir, running)
	if data, err := os.ReadFile(filepath.Join(dir, "log.zst")); err != nil || string(data) != "l" {
		t.Errorf("got %q, %v, want the log", data, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "log")); err == nil {
		t.Error("the log is there under two names")
	}
}

// A sample of what make attack-damage does on a larger scale. Damage that is never told would mean that nothing is damaged at all.
func TestASampleOfDamagesIsHarmlessOrTold(t *testing.T) {
	o := options{seed: 10, trials: 80, dir: t.TempDir()}
	made := prepare(o.dir)
	for _, j := range made {
		for _, name := range []string{"checkpoint", "workflow.1.yml"} {
			if !slices.ContainsFunc(j.files, func(path string) bool { return filepath.Base(path) == name }) {
				t.Errorf("no %s among the files that are damaged: %v", name, j.files)
			}
		}
	}
	counts := map[string]int{}
	for n := range o.trials {
		class, detail := trial(o, made, n)
		if counts[class]++; class == silent {
			t.Errorf("trial %d: %s", n, detail)
		}
	}
	if counts[told] < 20 || counts[harmless] == 0 {
		t.Errorf("got %v, want many that are told and some that are harmless", counts)
	}
}
