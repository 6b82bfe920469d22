package natsfleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/fleet"
)

// Whoever cannot reach a broker is told why, and what to do.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no credentials, or unknown ones", nats.ErrAuthorization, "--credentials"},
		{"TLS is wanted", nats.ErrSecureConnRequired, "tls://"},
		{"no TLS", nats.ErrSecureConnWanted, "prodigy broker --dir"},
		{"another certificate", &tls.CertificateVerificationError{Err: io.EOF}, "--host"},
		{"no answer", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "wrong port?"},
		{"no such host", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, "running at this address?"},
		{"anything else", io.EOF, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := explain(c.err)
			if !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) {
				t.Errorf("got %q, want it to have %q", got, c.want)
			}
		})
	}
}

// A broker of a cluster names the others to its clients. One that is connected with it without TLS, on the same machine, must not go on with them in the
// clear when it dies.
func TestAPlainConnectionStaysHere(t *testing.T) {
	t.Parallel()
	start := func(o *server.Options) *server.Server {
		t.Helper()
		o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
		o.Cluster.Name, o.Cluster.Host = "plain", "127.0.0.1"
		for range 12 { // a process that is being started may have its port for a moment, and the server does not try again
			s, err := server.NewServer(o.Clone())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
			if s.Start(); s.ReadyForConnections(5 * time.Second) {
				return s
			}
			s.Shutdown()
			s.WaitForShutdown()
		}
		t.Fatal("the broker is not ready")
		return nil
	}
	port, route, far := freePort(t), freePort(t), freePort(t)
	near := func() *server.Server {
		return start(&server.Options{ServerName: "near", Port: port, Cluster: server.ClusterOpts{Port: route}})
	}
	first := near()
	other := &server.Options{ServerName: "far", Port: far, ClientAdvertise: fmt.Sprintf("0.0.0.0:%d", far), Cluster: server.ClusterOpts{Port: freePort(t)}} // which is no address of the loopback, and leads here
	other.Routes = server.RoutesFromStr(fmt.Sprintf("nats://127.0.0.1:%d", route))
	second := start(other)
	back := make(chan struct{}, 10)
	h, err := connect(t.Context(), fleet.Address{URL: first.ClientURL()}, "test", func(context.Context, *brokerConn) error { return nil }, func() { back <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	if !eventually(func() bool { return second.NumRoutes() > 0 }) {
		t.Fatal("the brokers are no cluster")
	}
	first.Shutdown()
	first.WaitForShutdown()
	near()
	<-back
	if name := h.nc.ConnectedServerName(); name != "near" {
		t.Errorf("it goes on with %s", name)
	}
}

// What people read has no words of the client of the broker, and programs still see what the error is.
func TestErrorsOfTheClientAreSaidInOtherWords(t *testing.T) {
	missing := &jetstream.APIError{Code: 404, ErrorCode: jetstream.JSErrCodeStreamNotFound, Description: "stream not found"}
	odd := &jetstream.APIError{Code: 500, ErrorCode: 1, Description: "insufficient resources"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("fetch the steps: %w", nats.ErrTimeout), "fetch the steps: the broker did not respond in time"},
		{fmt.Errorf("files: %w", context.DeadlineExceeded), "files: the broker did not respond in time"},
		{jetstream.ErrObjectNotFound, "the broker does not have it"},
		{missing, "the broker no longer has data of the fleet"},
		{fmt.Errorf("it is kept: %w", odd), "it is kept: insufficient resources"},
		{nats.ErrBadSubject, "invalid subject"},
		{errGivenBack, errGivenBack.Error()},
	} {
		if got := inWords(c.err); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if inWords(errGivenBack) != errGivenBack {
		t.Error("an error of this program becomes another one")
	}
}
