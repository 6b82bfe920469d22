// Command prodigy runs commands over a list of items, retries what fails, keeps what failed for good, and can be
// resumed after a crash. Its command line is package cli. What reaches a broker is given to it here, so that
// its tests can use it.
package main

import (
	"os"
	"runtime"

	"prodigy/internal/cli"
	"prodigy/internal/natsfleet"
)

func main() {
	// nats-server can serve a profile of the memory, for which each program with it samples its own
	runtime.MemProfileRate = 0
	os.Exit(cli.Main(os.Args[1:], natsfleet.Backend{}))
}
