// Prodigy runs commands over a list of items, retries what fails, keeps what failed for good, and can go on after a crash.
package main

import (
	"context"
	"os"
)

// Set by the linker.
var (
	version     string
	logFileSize string // bytes of a file of the log before the next is begun, for make torture; empty: the default of the log
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
