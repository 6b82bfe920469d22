package natsfleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/fleet"
)

func connected(t *testing.T, f *field) jetstream.JetStream {
	t.Helper()
	h, err := connect(t.Context(), f.address(), "test", ensureStreams, func() {})
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

// A broker whose store was removed keeps nothing any more, and would not say why. It ends instead.
func TestABrokerWhoseStoreIsRemovedEnds(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"all": "", "what is in it": "jetstream"} {
		store, said := filepath.Join(t.TempDir(), "store"), new(log)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		ended := make(chan error, 1)
		go func() {
			ended <- Backend{}.Serve(ctx, fleet.BrokerOptions{Listen: "127.0.0.1:0", Store: store, Say: said.add})
		}()
		if !eventually(func() bool { return strings.Contains(said.String(), "broker ready") }) {
			t.Fatalf("%s: the broker is not ready: %s", name, said)
		}
		if err := os.Rename(filepath.Join(store, dir), filepath.Join(t.TempDir(), "away")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "was deleted while the broker was running") {
				t.Errorf("%s: got %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: the broker goes on, and said %q", name, said)
		}
	}
}
