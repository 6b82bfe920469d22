// Command prodigy runs commands over a list of items, retries what fails, keeps what failed for good, and can be resumed after a crash.
// All of it is package cli.
package main

import (
	"os"

	"prodigy/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], nil, nil)) }
