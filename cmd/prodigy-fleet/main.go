// Command prodigy-fleet is prodigy with what only fleets need: NATS. prodigy runs it when a command needs it.
package main

import (
	"os"
	"runtime/debug"
	"slices"

	"prodigy/internal/cli"
	"prodigy/internal/natsfleet"
)

func main() {
	// A coordinator runs for days beside other work and may hold tens of thousands of attempts, with as much garbage again if it were not for this. The heaps of
	// workers and brokers are so small that they would be collected for every few attempts.
	if os.Getenv("GOGC") == "" && !slices.Contains(os.Args, "worker") && !slices.Contains(os.Args, "broker") {
		debug.SetGCPercent(50)
	}
	os.Exit(cli.Main(os.Args[1:], natsfleet.Backend{}, nil))
}
