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
	"prodigy/internal/duration"
)

// serve has the metrics of a job fetched over HTTP, at /metrics of an address, until end is called. It returns the
// address that it has got. There is no authentication: whoever reaches the address can read them.
func (m *Metrics) serve(address string) (at string, end func() error, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(m.text(time.Now()))
	})
	server := &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = server.Serve(netutil.LimitListener(listener, connections)) // until end
	})
	return listener.Addr().String(), func() error { // what is being fetched has a moment to come to its end
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		serving.Wait()
		return nil
	}, nil
}

// connections bounds how many connections are open at once. Scrapers need one.
const connections = 32

// keep keeps the metrics in a file, for the textfile collector of node_exporter: it writes it at once, and then again
// and again until end is called, which does so for the last time. It fails when the file cannot be written.
func (m *Metrics) keep(path string) (end func() error, err error) {
	if err := m.write(path); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	written := make(chan error, 1)
	go func() {
		for duration.Sleep(ctx, metricsEvery) == nil {
			_ = m.write(path) // the last one counts
		}
		written <- m.write(path)
	}()
	return func() error {
		cancel()
		return <-written
	}, nil
}

// write replaces a file as a whole, so that nobody reads half of it. Its mode lets others read it, since
// the collector is another user.
func (m *Metrics) write(path string) error {
	dir, name := filepath.Split(path)
	temporary, err := os.CreateTemp(cmp.Or(dir, "."), "."+name+"-*") // the collector reads *.prom only
	if err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	_, err = temporary.Write(m.text(time.Now()))
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
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
