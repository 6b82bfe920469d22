//go:build unix

package damage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
)

// harm is one damage to a file.
type harm struct {
	path  string // within the home
	what  string
	crash bool                     // what is left is what a crash can leave
	do    func(data []byte) []byte // nil: the file is deleted
}

// randomHarm draws a damage to a file. Newest is the file of the log that a crash can cut short.
func randomHarm(r *rand.Rand, path, newest string, size int) harm {
	h := harm{path: path}
	at, n := r.IntN(max(1, size)), 1+r.IntN(8)
	switch r.IntN(10) {
	case 0, 1, 2:
		bit := r.IntN(8)
		h.what = fmt.Sprintf("bit %d of byte %d flipped", bit, at)
		h.do = func(b []byte) []byte { b[at] ^= 1 << bit; return b }
	case 3:
		h.what = fmt.Sprintf("%d bytes cut out at %d", n, at)
		h.do = func(b []byte) []byte { return append(b[:at], b[min(len(b), at+n):]...) }
	case 4:
		h.what = fmt.Sprintf("cut short at %d", at)
		h.crash = path == newest
		h.do = func(b []byte) []byte { return b[:at] }
	case 5:
		n *= 64
		h.what = fmt.Sprintf("%d bytes zeroed at %d", n, at)
		h.do = func(b []byte) []byte { clear(b[at:min(len(b), at+n)]); return b }
	case 6:
		h.what = "deleted"
		h.crash = path == newest // as if it had been begun and nothing in it been synced
	case 7, 8, 9:
		kind, first, second := r.IntN(3), r.IntN(1<<20), r.IntN(1<<20)
		h.what = [...]string{"a line deleted", "a line doubled", "two lines swapped"}[kind]
		h.crash = path == newest && kind == 0
		h.do = func(b []byte) []byte { return linesHarmed(b, kind, first, second) }
	}
	return h
}

func linesHarmed(b []byte, kind, first, second int) []byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	if n := len(lines); n > 1 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	i, j := first%len(lines), second%len(lines)
	switch kind {
	case 0:
		lines = append(lines[:i:i], lines[i+1:]...)
	case 1:
		lines = append(lines[:i+1:i+1], lines[i:]...)
	case 2:
		lines[i], lines[j] = lines[j], lines[i]
	}
	return bytes.Join(lines, nil)
}

// apply damages the file. It reports whether that changed anything.
func (h harm) apply(path string) (bool, error) {
	if h.do == nil {
		return true, os.Remove(path)
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return false, err
	}
	harmed := h.do(bytes.Clone(data))
	return !bytes.Equal(harmed, data), os.WriteFile(path, harmed, 0o600)
}
