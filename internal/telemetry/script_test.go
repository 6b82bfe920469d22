package telemetry_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"prodigy/internal/cli"
	"prodigy/internal/natsfleet"
	"prodigy/internal/testenv/scripts"
)

// The test binary is prodigy too.
func TestMain(m *testing.M) {
	scripts.Main(m, map[string]func(){
		"prodigy":   func() { os.Exit(cli.Main(os.Args[1:], natsfleet.Backend{})) },
		"collector": fakeCollector,
	})
}

func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	scripts.Run(t, testscript.Params{Dir: "../../testdata/script/otel"})
}

// fakeCollector is the program collector of scripts: it takes OTLP over HTTP until it is interrupted. The file of its first argument gets its address, the
// one of its second a line for each span, with its traceparent, its parent and its name.
func fakeCollector() {
	spans, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m tracepb.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &m) != nil {
			return
		}
		for _, s := range m.ResourceSpans[0].ScopeSpans[0].Spans {
			_, _ = fmt.Fprintf(spans, "00-%s-%s-01 <%s> %s\n", hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), s.Name)
		}
	}))
	if err := os.WriteFile(os.Args[1], []byte(server.URL), 0o600); err != nil {
		panic(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	server.Close()
}
