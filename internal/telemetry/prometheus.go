package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"prodigy/internal/check"
)

// metricsServer has the metrics of a job fetched over HTTP, at /metrics. There is no authentication: whoever reaches
// the address can read them.
type metricsServer struct {
	net.Listener
	server  http.Server
	serving sync.WaitGroup
}

// listen begins to serve at an address. It fails when the address cannot be had.
func listen(address string, m *Metrics) (*metricsServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(m.text(time.Now()))
	})
	s := &metricsServer{Listener: listener}
	s.server = http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	s.serving.Go(func() {
		_ = s.server.Serve(netutil.LimitListener(listener, connections)) // until close
	})
	return s, nil
}

// close ends the server. What is being fetched has a moment to come to its end.
func (s *metricsServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	s.serving.Wait()
}

// connections bounds how many connections are open at once. Scrapers need one.
const connections = 32

// metricsFile keeps the metrics in a file, for the textfile collector of node_exporter.
type metricsFile struct {
	path    string
	metrics *Metrics

	// Closed by close, so that the writing goroutine ends.
	end chan struct{}

	writing sync.WaitGroup

	// The error of the last write. Only read once the goroutine has ended.
	err error
}

// keep writes the file at once, and then again and again until close. It fails when the file cannot be written.
func keep(path string, m *Metrics) (*metricsFile, error) {
	f := &metricsFile{path: path, metrics: m, end: make(chan struct{})}
	if err := f.write(); err != nil {
		return nil, err
	}
	f.writing.Go(func() {
		tick := time.NewTicker(metricsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.err = f.write()
			case <-f.end:
				f.err = f.write()
				return
			}
		}
	})
	return f, nil
}

// close writes the file for the last time, and returns the error of that.
func (f *metricsFile) close() error {
	close(f.end)
	f.writing.Wait()
	return f.err
}

// write replaces the file as a whole, so that nobody reads half of it. Its mode lets others read it, since
// the collector is another user.
func (f *metricsFile) write() error {
	dir, name := filepath.Split(f.path)
	temporary, err := os.CreateTemp(cmp.Or(dir, "."), "."+name+"-*") // the collector reads *.prom only
	if err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	_, err = temporary.Write(f.metrics.text(time.Now()))
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the metrics: %w", err), os.Remove(temporary.Name()))
	}
	return nil
}

// text returns the metrics in Prometheus' text format, version 0.0.4.
func (m *Metrics) text(now time.Time) []byte {
	var b bytes.Buffer
	for _, f := range m.families(now) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, escape(f.help), f.name, f.kind())
		for _, s := range f.samples {
			if s.counts == nil {
				writeSample(&b, f.name, s.labels, s.value)
				continue
			}
			sum := uint64(0)
			for i, n := range s.counts.counts {
				sum += n
				le := "+Inf"
				if i < len(bounds) {
					le = inText(bounds[i])
				}
				writeSample(&b, f.name+"_bucket", append(s.labels[:len(s.labels):len(s.labels)], label{"le", le}),
					float64(sum))
			}
			writeSample(&b, f.name+"_sum", s.labels, s.counts.sum.Seconds())
			writeSample(&b, f.name+"_count", s.labels, float64(s.counts.n))
		}
	}
	return b.Bytes()
}

// writeSample writes a line of the text format: the name, the labels in braces, and the value.
func writeSample(b *bytes.Buffer, name string, labels []label, value float64) {
	words := check.Each(labels, func(l label) string {
		return l.name + `="` + strings.ReplaceAll(escape(l.value), `"`, `\"`) + `"`
	})
	fmt.Fprintf(b, "%s{%s} %s\n", name, strings.Join(words, ","), inText(value))
}

// inText writes a number in as few digits as give the same number again.
func inText(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// escape makes a text one line, as the format asks for. Bytes that are not UTF-8 are replaced.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\ufffd"))
}
