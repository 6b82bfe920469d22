package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// preparedAtMost is how many bytes the packages of prodigy may allocate before main begins, all together: more than twice what they do.
// Maps of a few dozen words are fine: all of those here do not show in the time of `prodigy version`.
const preparedAtMost = 32 << 10

// What a package prepares is paid for by each start, whatever the command. Bytes are counted, since they are the same each time.
func TestPackagesPrepareNextToNothing(t *testing.T) {
	program := exec.Command(os.Args[0], "-test.run=^$")
	program.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, trace)
	}
	seen, sum := 0, 0
	for lines := bufio.NewScanner(bytes.NewReader(trace)); lines.Scan(); {
		pkg, size, ok := initialized(lines.Text())
		if ok && strings.HasPrefix(pkg, "prodigy/internal/") {
			t.Logf("%s: %d bytes", pkg, size)
			seen, sum = seen+1, sum+size
		}
	}
	if seen == 0 || sum > preparedAtMost {
		t.Errorf("%d packages of prodigy prepare %d bytes at the start, want some and no more than %d", seen, sum, preparedAtMost)
	}
}

// initialized reads a line that the runtime prints of a package: https://pkg.go.dev/runtime#hdr-Environment_Variables
func initialized(line string) (pkg string, size int, ok bool) {
	var at, clock float64
	n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes", &pkg, &at, &clock, &size)
	return pkg, size, n == 4
}
