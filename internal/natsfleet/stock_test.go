package natsfleet

import (
	"bytes"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

var natsServer = flag.String("nats-server", "", "the nats-server `PROGRAM` that these tests run on; empty: the one that is a part of prodigy")

// testBroker is what the tests do with a broker.
type testBroker interface {
	ClientURL() string
	Addr() net.Addr
	Shutdown()
	WaitForShutdown()
}

// embedded returns the broker of a test that is about the one in prodigy.
func (f *field) embedded() *server.Server {
	f.t.Helper()
	s, ok := f.broker.(*server.Server)
	if !ok {
		f.t.Fatal("this test is about the broker in prodigy: run it without -nats-server")
	}
	return s
}

// stock is a nats-server in a process of its own.
type stock struct {
	cmd  *exec.Cmd
	addr *net.TCPAddr
	log  string
}

func (s *stock) ClientURL() string { return "nats://" + s.addr.String() }
func (s *stock) Addr() net.Addr    { return s.addr }
func (s *stock) Shutdown()         { _ = s.cmd.Process.Signal(syscall.SIGTERM) }
func (s *stock) WaitForShutdown()  { _ = s.cmd.Wait() }

// startStock starts a nats-server. It listens on port; 0: on what its configuration says, or else any.
func (f *field) startStock(port int, args ...string) *stock {
	f.t.Helper()
	s := &stock{log: filepath.Join(f.root, "nats.log")}
	if port > 0 {
		args = append(args, "--addr", "127.0.0.1", "--port", strconv.Itoa(port))
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command(*natsServer, args...)
	s.cmd.Stderr = log
	if err := s.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	s.await(f, "Server is ready")
	text, err := os.ReadFile(s.log)
	if err != nil {
		f.t.Fatal(err)
	}
	const listens = "Listening for client connections on "
	_, rest, _ := strings.Cut(string(text), listens)
	address, _, _ := strings.Cut(rest, "\n")
	_, digits, err := net.SplitHostPort(address)
	if err != nil {
		f.t.Fatalf("%v in %s", err, text)
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		f.t.Fatal(err)
	}
	s.addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n}
	return s
}

// reload has it read its configuration again.
func (s *stock) reload(f *field) {
	f.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		f.t.Fatal(err)
	}
	s.await(f, "Reloaded server configuration")
}

// await waits until it has logged something.
func (s *stock) await(f *field, what string) {
	f.t.Helper()
	var text []byte
	said := eventually(func() bool {
		text, _ = os.ReadFile(s.log)
		return bytes.Contains(text, []byte(what))
	})
	if !said {
		f.t.Fatalf("nats-server does not say %q: %s", what, text)
	}
}
