package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/jobs"
)

// Environ is what OpenTelemetry's variables say of a process: see its specification of the SDK's configuration.
type Environ map[string]string

// EnvironOf returns the variables of OpenTelemetry in an environment. One that is empty counts as one that is not set.
func EnvironOf(environ []string) Environ {
	e := Environ{}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			e[name] = strings.TrimSpace(value)
		}
	}
	return e
}

// Signals returns the signals of OpenTelemetry, as its variables write them.
func Signals() []string { return []string{"TRACES", "METRICS", "LOGS"} }

// Named reports whether the environment names a collector.
func (e Environ) Named() bool {
	found := e["OTEL_EXPORTER_OTLP_ENDPOINT"] != ""
	for _, signal := range Signals() {
		found = found || e["OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"] != ""
	}
	return found
}

// Disabled reports whether the environment turns everything off.
func (e Environ) Disabled() bool {
	if strings.EqualFold(e["OTEL_SDK_DISABLED"], "true") {
		return true
	}
	return !slices.ContainsFunc(Signals(), e.Exports)
}

// Exports reports whether a signal is exported.
func (e Environ) Exports(signal string) bool { return e["OTEL_"+signal+"_EXPORTER"] != "none" }

// The protocols of OTLP that are spoken.
const (
	Protobuf = "http/protobuf"
	JSON     = "http/json"
)

// Protocol returns the protocol of a signal.
func (e Environ) Protocol(signal string) string {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if e[name] != "" {
			return e[name]
		}
	}
	return Protobuf
}

// Check returns an error for what cannot be done as the environment says.
func (e Environ) Check() error {
	for _, signal := range Signals() {
		if to := e["OTEL_"+signal+"_EXPORTER"]; to != "" && to != "otlp" && to != "none" {
			return fmt.Errorf("OTEL_%s_EXPORTER is %q: only otlp and none are supported", signal, to)
		}
		switch p := e.Protocol(signal); {
		case p == "grpc":
			return errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc: only http/protobuf and http/json are supported, which collectors take at port 4318")
		case p != Protobuf && p != JSON:
			return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only http/protobuf and http/json are supported", p)
		case p == JSON && (e["OTEL_EXPORTER_OTLP_CERTIFICATE"] != "" ||
			e["OTEL_EXPORTER_OTLP_"+signal+"_CERTIFICATE"] != ""):
			return errors.New("OTEL_EXPORTER_OTLP_CERTIFICATE is supported with http/protobuf only")
		}
	}
	return nil
}

// Endpoint returns where a signal is sent if the environment does not say it, or nothing.
func (e Environ) Endpoint(signal string) string {
	if e["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" || e["OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"] != "" {
		return ""
	}
	return "http://localhost:4318/v1/" + strings.ToLower(signal)
}

// Where returns what the telemetry is sent to, for people.
func (e Environ) Where() string {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
	} {
		if e[name] != "" {
			return e[name]
		}
	}
	return "http://localhost:4318"
}

// Export exports a job. The error is for what could not begin; what did not reach the collector is in the Report.
type Export func(context.Context, Options) (Report, error)

// Options are what an Export is given.
type Options struct {
	Job     jobs.Job
	Version string   // of prodigy
	Environ []string // with the variables of OpenTelemetry

	// The record that what is exported begins with; what ended before it was exported by others, or is not
	// wanted.
	From int64

	// Over, when set, says that the job is being run: its records are exported as they come. When Over is
	// closed, those that there are are the last.
	Over <-chan struct{}

	// Patience is how long what is left may take when Over is closed.
	Patience time.Duration

	// Progress, when set, is called from time to time.
	Progress func(Report)
}

// Report is how much was exported.
type Report struct {
	Spans Count
	Logs  Count
	Error string // the last; empty: there was none
}

// Count is how many there were, and how many of them the collector took.
type Count struct {
	Made int
	Sent int
	Lost int // given up; the others are on their way, or were not sent before the end
}
