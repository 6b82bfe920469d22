package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// signals are the signals of OpenTelemetry, as its variables write them.
var signals = []string{"TRACES", "METRICS", "LOGS"}

// setting returns the value of a variable of the exporter of a signal: its own, or else that of all signals.
func (e Environ) setting(signal, name string) string {
	return cmp.Or(e["OTEL_EXPORTER_OTLP_"+signal+"_"+name], e["OTEL_EXPORTER_OTLP_"+name])
}

// named reports whether the environment names a collector.
func (e Environ) named() bool {
	return slices.ContainsFunc(signals, func(signal string) bool { return e.setting(signal, "ENDPOINT") != "" })
}

// Disabled reports whether the environment turns everything off.
func (e Environ) Disabled() bool {
	return strings.EqualFold(e["OTEL_SDK_DISABLED"], "true") || !slices.ContainsFunc(signals, e.exports)
}

// exports reports whether a signal is exported.
func (e Environ) exports(signal string) bool { return e["OTEL_"+signal+"_EXPORTER"] != "none" }

// Check returns an error for what cannot be done as the environment says.
func (e Environ) Check() error {
	for _, signal := range signals {
		if to := e["OTEL_"+signal+"_EXPORTER"]; to != "" && to != "otlp" && to != "none" {
			return fmt.Errorf("OTEL_%s_EXPORTER=%q is not supported (use otlp or none)", signal, to)
		}
		if p := e.setting(signal, "PROTOCOL"); p != "" && p != "http/protobuf" {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s is not supported; use http/protobuf (port 4318)", p)
		}
	}
	return nil
}

// local is where a collector is if the environment does not say it.
const local = "http://localhost:4318"

// Where returns what the telemetry is sent to, for people.
func (e Environ) Where() string {
	return cmp.Or(e["OTEL_EXPORTER_OTLP_ENDPOINT"], e.setting("TRACES", "ENDPOINT"),
		e.setting("METRICS", "ENDPOINT"), e.setting("LOGS", "ENDPOINT"), local)
}
