// Package cli is the command line of prodigy.
//
// Each command is in cmd_NAME.go, those of a group such as dlq in cmd_GROUP.go; root.go has the table of commands.
// find.go finds the job that is meant, options.go has the flags of all commands that run one, and tools.go what it needs
// of this machine. runjob.go runs it: printer.go turns its records into lines, live.go shows its progress, and
// summary.go prints how it ended. Package term draws and prints. exit.go maps errors to exit codes, and console.go
// decides what goes to stdout and stderr.
package cli

import (
	"context"
	"os"

	"prodigy/internal/fleet"
)

// Main runs the program with its arguments, without its name, and returns the exit code. Backend reaches the broker
// of a fleet.
func Main(args []string, backend fleet.Backend) int {
	growStack(0)
	return runArgs(args, backend)
}

// growStack makes the stack as large at once as reading a workflow needs. To grow it in steps, each time from deeper
// calls, takes a twentieth of the time of a short command.
//
//go:noinline
func growStack(depth int) byte {
	if depth == 0 {
		return 0
	}
	var room [32 << 10]byte // never used: to call the function is enough
	return room[depth%len(room)] + growStack(depth-1)
}

// runArgs is Main on a stack that is large enough.
func runArgs(args []string, backend fleet.Backend) int {
	con := newConsole(os.Stdout, os.Stderr, os.Getenv)
	con.backend = backend
	args = meant(args)
	root := newRootCommandFor(con, args)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if err != nil {
		explain(con, cmd, err)
	}
	con.close()
	return exitCode(err)
}
