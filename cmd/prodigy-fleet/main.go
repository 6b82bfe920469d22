// Command prodigy-fleet is prodigy with the broker's client and server, and with OpenTelemetry's SDK. It is started by prodigy for what needs them, so
// that all else starts without.
package main

import (
	"os"

	"prodigy/internal/cli"
	"prodigy/internal/natsfleet"
	"prodigy/internal/otlp"
)

func main() { os.Exit(cli.Main(os.Args[1:], natsfleet.Link{}, otlp.Export)) }
