package release

import (
	"bytes"
	"testing"
)

// The order in which files are found does not change an archive, nor does when it is made.
func TestTheSameFilesGiveTheSameArchive(t *testing.T) {
	a, b := file{"a", 0o755, []byte("one")}, file{"b/c", 0o644, []byte("two")}
	for name, pack := range map[string]func(string, []file) ([]byte, error){"tar.gz": tarGz, "zip": zipped} {
		first, err := pack("d", []file{a, b})
		if err != nil {
			t.Fatal(err)
		}
		second, err := pack("d", []file{b, a})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s: the archives differ", name)
		}
	}
}
