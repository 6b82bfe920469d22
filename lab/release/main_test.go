package release

import (
	"bytes"
	"testing"
)

// The order in which files are found does not change an archive, nor does when it is made.
func TestTheSameFilesGiveTheSameArchive(t *testing.T) {
	a, b := file{"a", 0o755, []byte("one")}, file{"b/c", 0o644, []byte("two")}
	for name, pack := range map[string]func(string, []file) []byte{"tar.gz": tarGz, "zip": zipped} {
		if !bytes.Equal(pack("d", []file{a, b}), pack("d", []file{b, a})) {
			t.Errorf("%s: the archives differ", name)
		}
	}
}
