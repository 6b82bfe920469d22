// Command prodigy runs commands over a list of items, retries what fails, keeps what failed for good, and can be resumed after a crash.
//
// Each command is one file, cmd_NAME.go; root.go has the table of commands. A run is shown by a printer (records to lines), a region (the
// live lines) and a screen (the terminal); exit.go maps errors to exit codes, and console.go decides what goes to stdout and stderr.
package main

import (
	"context"
	"os"
)

// Set by the linker.
var (
	version     string
	logFileSize string // size in bytes at which the next log file begins, for make torture; empty: the default
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is main without the exit.
func run(args []string) int {
	con := newConsole(os.Stdout, os.Stderr, os.Getenv)
	root := newRootCommandFor(con, args)
	root.SetArgs(args)
	var p profiles
	p.add(root)
	cmd, err := root.ExecuteContextC(context.Background())
	if e := p.end(); err == nil {
		err = e
	}
	if err != nil {
		explain(con.err, cmd, err)
	}
	con.close()
	return exitCode(err)
}
