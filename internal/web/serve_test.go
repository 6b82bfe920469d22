package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// short are limits that a test can wait for.
var short = Limits{
	Header: 60 * time.Millisecond, Read: 120 * time.Millisecond, Write: 120 * time.Millisecond, Idle: 60 * time.Millisecond, HeaderBytes: 4 << 10, Connections: 4,
}

// limited serves a list of jobs, whose names are told by list, and returns its address.
func limited(t *testing.T, l Limits, list func() []jobs.Job) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	s := &Server{Token: token, Hosts: []string{address}, Limits: l, Data: Data{
		Jobs:    func() ([]jobs.Job, error) { return list(), nil },
		Summary: func(jobs.Job) (job.Summary, error) { return job.Summary{}, nil },
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return s.Serve(ctx, listener) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	return address
}

func none() []jobs.Job { return nil }

func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil { // of a test that fails
		t.Fatal(err)
	}
	return conn
}

// ended reads until the server ends the connection, and returns what it said.
func ended(t *testing.T, conn net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(conn)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Fatal("the connection is not ended")
	}
	return string(said)
}

// request is a whole one, with the cookie.
func request(address, method, path, more string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\n%s", method, path, address, cookieName(address), token, more)
}

func TestNobodyHoldsAConnectionWithoutARequest(t *testing.T) {
	t.Parallel()
	address := limited(t, short, none)
	for name, text := range map[string]string{
		"silence":              "",
		"half a header":        "GET / HTTP/1.1\r\nHost: " + address + "\r\nX: ",
		"a body that is late":  request(address, "POST", "/jobs/x/retry", "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken="),
		"an idle connection":   request(address, "GET", "/ui.css", "\r\n"),
		"a header without end": request(address, "GET", "/", "X: "+strings.Repeat("x", 16<<10)+"\r\n\r\n"),
	} {
		said := ended(t, dial(t, address, text))
		if strings.HasPrefix(name, "a header") && !strings.HasPrefix(said, "HTTP/1.1 431") {
			t.Errorf("%s: got %.60q, want 431", name, said)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	s := &Server{Token: token, Hosts: []string{address}, Limits: short, Data: Data{Jobs: func() ([]jobs.Job, error) { return nil, nil }}}
	server := s.http(t.Context())
	var open, most atomic.Int64
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	var g errgroup.Group
	g.Go(func() error { return server.Serve(netutil.LimitListener(listener, short.Connections)) })
	var silent []net.Conn
	for range 5 * short.Connections {
		silent = append(silent, dial(t, address, ""))
	}
	asked := dial(t, address, request(address, "GET", "/ui.css", "Connection: close\r\n\r\n"))
	if said := ended(t, asked); !strings.HasPrefix(said, "HTTP/1.1 200") {
		t.Errorf("whoever comes after many silent connections gets %.60q", said)
	}
	for _, conn := range silent {
		ended(t, conn)
	}
	if got := most.Load(); got > int64(short.Connections)+1 { // the state of one that closes is told after its place is free
		t.Errorf("got %d connections at once, want %d", got, short.Connections)
	}
	_ = server.Close()
	_ = g.Wait()
}

// A stream lasts longer than the limits of a request and an answer.
func TestAStreamStaysAlive(t *testing.T) {
	t.Parallel()
	var more atomic.Bool
	address := limited(t, short, func() []jobs.Job {
		if more.Load() {
			return []jobs.Job{{ID: "later-job"}}
		}
		return nil
	})
	conn := dial(t, address, request(address, "GET", "/live/jobs", "\r\n"))
	in := bufio.NewReader(conn)
	read := func(want string) {
		t.Helper()
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended before %q: %v", want, err)
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}
	read("event: page")
	ended(t, dial(t, address, request(address, "POST", "/jobs/x/retry", "Content-Length: 100\r\n\r\nx"))) // every limit has passed now
	more.Store(true)
	read("<tbody>")
}
