// Command prodigy-otel is prodigy with OpenTelemetry's SDK. It is started by prodigy to export a job, so that all else starts without.
package main

import (
	"os"

	"prodigy/internal/cli"
	"prodigy/internal/otlp"
)

func main() { os.Exit(cli.Main(os.Args[1:], nil, otlp.Export)) }
