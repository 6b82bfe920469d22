package cli

import (
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// terminal is the command of scripts that runs a program on a terminal of its own, with what it writes there as its output. What scripts
// have themselves, ttyin, may lose the end of it. The size is given as columns x rows.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	size := pty.Winsize{Rows: 24, Cols: 100}
	if len(args) > 0 {
		if n, err := fmt.Sscanf(args[0], "%dx%d", &size.Cols, &size.Rows); n == 2 && err == nil {
			args = args[1:]
		}
	}
	if len(args) == 0 {
		ts.Fatalf("usage: terminal [80x24] program [args...]")
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
	_, _ = io.Copy(ts.Stdout(), screen) // it ends with an error when nobody has the terminal any more
	err = cmd.Wait()
	ts.Check(screen.Close())
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}
