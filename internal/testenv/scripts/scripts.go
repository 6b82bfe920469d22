// Package scripts runs scripts of commands as tests. The test binary of a package is each of the programs that its
// scripts run.
package scripts

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"prodigy/internal/testenv"
)

// take is how long all scripts of a test may take on the slowest machine.
const take = 10 * time.Minute

// Main runs the tests of a package, or one of its programs when the test binary was started by that name.
func Main(m *testing.M, programs map[string]func()) {
	if strings.HasSuffix(os.Args[0], ".test") {
		handDownSignals()
	}
	testscript.Main(inMemory{m}, programs)
}

// inMemory keeps the files of tests in memory. The programs are made before: beside the test binary they are links to it, and elsewhere
// copies.
type inMemory struct{ *testing.M }

func (m inMemory) Run() int {
	testenv.UseMemory()
	return m.M.Run()
}

// handDownSignals lets the commands that tests start hear the signals that a shell ignores for what it starts in the background, such as
// these tests. What is caught here is not ignored there.
func handDownSignals() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Run runs scripts, each with a PRODIGY_HOME of its own. One that waits for ever fails with its output and the line it has come to, long
// before go test gives up.
func Run(t *testing.T, p testscript.Params) {
	t.Helper()
	take := take
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
		env.Setenv("PRODIGY_HOME", filepath.Join(env.WorkDir, "home"))
		if setup == nil {
			return nil
		}
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
