// Command prodigy-fleet is prodigy with the broker's client and server. It is started by prodigy for what needs them, so that all else starts without.
package main

import (
	"os"
	"runtime/debug"

	"prodigy/internal/cli"
	"prodigy/internal/natsfleet"
)

func main() {
	// Coordinators, workers and brokers run for days beside what they run, and hold a few megabytes, of which most would be garbage.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	os.Exit(cli.Main(os.Args[1:], natsfleet.Backend{}, nil))
}
