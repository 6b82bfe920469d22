package metrics

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
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Server has the metrics of a job fetched over HTTP, at /metrics. There is no authentication: whoever reaches
// the address can read them.
type Server struct {
	listener net.Listener
	server   http.Server
	serving  sync.WaitGroup
}

// Listen begins to serve at an address. It fails when the address cannot be had.
func Listen(address string, families func(time.Time) []Family) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		_ = Write(&b, families(time.Now())) // a buffer takes all
		w.Header().Set("Content-Type", ContentType)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(b.Bytes())
	})
	s := &Server{listener: listener}
	s.server = http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	s.serving.Go(func() {
		_ = s.server.Serve(netutil.LimitListener(listener, connections)) // until Close
	})
	return s, nil
}

// Addr returns the address with its port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server. What is being fetched has a moment to come to its end.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	s.serving.Wait()
}

// connections bounds how many connections are open at once. Scrapers need one.
const connections = 32

// File keeps the metrics in a file, for the textfile collector of node_exporter.
type File struct {
	path     string
	families func(time.Time) []Family
	end      chan struct{}
	writing  sync.WaitGroup
	err      error // of the last write
}

// Keep writes the file at once, and then again and again until Close. It fails when the file cannot be written.
func Keep(path string, every time.Duration, families func(time.Time) []Family) (*File, error) {
	f := &File{path: path, families: families, end: make(chan struct{})}
	if err := f.write(); err != nil {
		return nil, err
	}
	f.writing.Go(func() {
		tick := time.NewTicker(every)
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

// Close writes the file for the last time, and returns the error of that.
func (f *File) Close() error {
	close(f.end)
	f.writing.Wait()
	return f.err
}

// write replaces the file as a whole, so that nobody reads half of it. Its mode lets others read it, since
// the collector is another user.
func (f *File) write() error {
	var b bytes.Buffer
	_ = Write(&b, f.families(time.Now())) // a buffer takes all
	dir, name := filepath.Split(f.path)
	temporary, err := os.CreateTemp(cmp.Or(dir, "."), "."+name+"-*") // the collector reads *.prom only
	if err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	_, err = temporary.Write(b.Bytes())
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the metrics: %w", err), os.Remove(temporary.Name()))
	}
	return nil
}
