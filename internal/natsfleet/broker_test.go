package natsfleet

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func connected(t *testing.T, f *field) jetstream.JetStream {
	t.Helper()
	h, err := connect(t.Context(), f.address(), "test", provisioned, func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.nc.Close)
	return h.js
}

func streamInfo(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamState {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State
}
