// Command prodigy-fleet is prodigy with the broker's client and server. It is started by prodigy for what needs them, so that all else starts without.
package main

import (
	"os"

	"prodigy/internal/cli"
	"prodigy/internal/natsfleet"
)

func main() { os.Exit(cli.Main(os.Args[1:], natsfleet.Link{}, nil)) }
