package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// terminal is the command of scripts that runs a program on a terminal of its own, with what it writes there as its output. What scripts
// have themselves, ttyin, may lose the end of it. The size is given as columns x rows. After -keys stands a fifo: what comes from it is typed.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	size := pty.Winsize{Rows: 24, Cols: 100}
	if len(args) > 0 {
		if n, err := fmt.Sscanf(args[0], "%dx%d", &size.Cols, &size.Rows); n == 2 && err == nil {
			args = args[1:]
		}
	}
	var keys *os.File
	if len(args) > 1 && args[0] == "-keys" {
		var err error
		keys, err = os.OpenFile(ts.MkAbs(args[1]), os.O_RDWR, 0) // it opens at once, and has no end
		ts.Check(err)
		args = args[2:]
	}
	if len(args) == 0 {
		ts.Fatalf("usage: terminal [80x24] [-keys fifo] program [args...]")
	}
	cmd := exec.Command("sh", append([]string{"-c", `exec "$0" "$@"`}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	for name := range strings.FieldsSeq("PATH HOME TMPDIR WORK PRODIGY_HOME LANG TERM NO_COLOR") {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	screen, err := pty.StartWithSize(cmd, &size)
	ts.Check(err)
	if keys != nil {
		defer func() { _ = keys.Close() }()
		go func() { _, _ = io.Copy(screen, keys) }()
	}
	_, _ = io.Copy(ts.Stdout(), screen) // it ends with an error when nobody has the terminal any more
	err = cmd.Wait()
	ts.Check(screen.Close())
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}
