package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptsTake is how long all scripts of a test may take on the slowest machine.
const scriptsTake = 10 * time.Minute

// runScripts runs scripts. One that waits for ever fails with its output and the line it has come to, long before go test gives up.
func runScripts(t *testing.T, p testscript.Params) {
	t.Helper()
	take := scriptsTake
	if end, ok := t.Deadline(); ok {
		take = min(take, time.Until(end))
	}
	p.Deadline = time.Now().Add(take)
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		// Of the time before the deadline a command has a twentieth to end, and the script another one to tell of it. Only the command
		// that the script waits for is told to; what it has started may hold on to its output.
		last := time.AfterFunc(time.Until(p.Deadline)-take/20, func() { killAll(env.WorkDir) })
		env.Defer(func() { last.Stop() })
		return setup(env)
	}
	testscript.Run(t, p)
}

// killAll kills what runs for the script with that working directory, where the system shows it.
func killAll(dir string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, []byte("WORK="+dir+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Signal(syscall.SIGKILL)
			}
		}
	}
}
