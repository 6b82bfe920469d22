package natsfleet

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"prodigy/internal/fleet"
)

// Whoever cannot reach a broker is told why, and what to do.
func TestExplain(t *testing.T) {
	known := fleet.Address{URL: "tls://b:4222", Seed: "seed"}
	for _, c := range []struct {
		name string
		a    fleet.Address
		err  error
		want string
	}{
		{"no credentials", fleet.Address{}, nats.ErrAuthorization, "--credentials"},
		{"unknown credentials", known, nats.ErrAuthorization, "kill -HUP"},
		{"TLS is wanted", fleet.Address{}, nats.ErrSecureConnRequired, "tls://"},
		{"no TLS", known, nats.ErrSecureConnWanted, "prodigy broker --dir"},
		{"another certificate", known, &tls.CertificateVerificationError{Err: io.EOF}, "--host"},
		{"no answer", known, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "is it the right port?"},
		{"no such host", known, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, "is this its address?"},
		{"anything else", known, io.EOF, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := explain(c.a, c.err)
			if !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) {
				t.Errorf("got %q, want it to have %q", got, c.want)
			}
		})
	}
}

func TestDialErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := l.Addr().String()
	if got := dialErrors("nats://" + open).Error(); !strings.Contains(got, open+" listens, and does not answer as a NATS server does") {
		t.Errorf("of one that listens: %s", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := dialErrors("nats://" + open).Error(); !strings.Contains(got, open) || !strings.Contains(got, `"prodigy broker" starts one`) {
		t.Errorf("of one that does not: %s", got)
	}
	if got := dialErrors("tls://" + open + ",nats://" + open).Error(); strings.Count(got, open) != 2 || !strings.Contains(got, "is this its address?") {
		t.Errorf("of two: %s", got)
	}
}
