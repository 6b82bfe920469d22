package telemetry

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"prodigy/internal/check"
)

// jsonTransport sends what the exporters encode as protobuf as JSON, which the SDK does not speak.
type jsonTransport struct{ signal string }

// RoundTrip implements http.RoundTripper.
func (t jsonTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Content-Type") == "application/json" { // the exporter of spans speaks it
		return http.DefaultTransport.RoundTrip(r)
	}
	body, err := readAll(r)
	if err != nil {
		return nil, err
	}
	var m proto.Message
	switch t.signal {
	case "TRACES":
		m = &tracepb.ExportTraceServiceRequest{}
	case "METRICS":
		m = &metricspb.ExportMetricsServiceRequest{}
	default:
		m = &logspb.ExportLogsServiceRequest{}
	}
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	if body, err = encodeJSON(m); err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	sent := r.Clone(r.Context())
	sent.Body, sent.ContentLength, sent.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	sent.Header.Del("Content-Encoding")
	sent.Header.Set("Content-Type", "application/json")
	return http.DefaultTransport.RoundTrip(sent)
}

// readAll reads the body of a request, which may be compressed.
func readAll(r *http.Request) ([]byte, error) {
	defer check.Quietly(r.Body.Close)
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// encodeJSON encodes a message as OTLP says: as Protobuf's JSON, but for enums, which are numbers, and for
// the names of traces and spans, which are hexadecimal.
func encodeJSON(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if err := hexIDs(tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// hexIDs replaces the base64 of the names of traces and spans in a tree of JSON by hexadecimal digits.
func hexIDs(tree any) error {
	switch v := tree.(type) {
	case []any:
		for _, one := range v {
			if err := hexIDs(one); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, one := range v {
			id, isText := one.(string)
			switch {
			case isText && (name == "traceId" || name == "spanId" || name == "parentSpanId"):
				raw, err := base64.StdEncoding.DecodeString(id)
				if err != nil {
					return err
				}
				v[name] = hex.EncodeToString(raw)
			default:
				if err := hexIDs(one); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
