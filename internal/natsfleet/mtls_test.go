package natsfleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"prodigy/internal/fleet"
)

// authority writes the certificate of an authority, and one that it has signed with its key, and returns their paths.
func authority(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	caPEM, certPEM, keyPEM := certificates([]broker{{host: "127.0.0.1"}})
	ca, cert, key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, text := range map[string]string{ca: caPEM, cert: certPEM, key: keyPEM} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ca, cert, key
}

// A broker that exists already may want a certificate of each side. Who has none, or one that it does not accept, is told so.
func TestABrokerThatWantsCertificates(t *testing.T) {
	f := &field{t: t, root: t.TempDir()}
	ca, cert, key := authority(t)
	otherCA, otherCert, otherKey := authority(t)
	seed := keyPair(nkeys.CreateUser)
	nkey := filepath.Join(f.root, "nkey")
	if err := os.WriteFile(nkey, []byte(seed.seed), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	config := filepath.Join(f.root, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream { store_dir: %q }\ntls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }\nauthorization { users = [ { nkey: %s } ] }\n",
		port, filepath.Join(f.root, "store"), cert, key, ca, seed.public)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.restartFrom(config)
	defer func() { f.broker.Shutdown(); f.broker.WaitForShutdown() }()
	url := fmt.Sprintf("tls://127.0.0.1:%d", port)
	for _, c := range []struct {
		name string
		a    fleet.Address
		want string // in the error; empty: there is none
	}{
		{"all that it wants", fleet.Address{CA: ca, Cert: cert, Key: key, NKey: nkey}, ""},
		{"no certificate", fleet.Address{CA: ca, NKey: nkey}, "it requires a certificate of an authority that it trusts: set PRODIGY_FLEET_CERT and PRODIGY_FLEET_KEY"},
		{"one of another authority", fleet.Address{CA: ca, Cert: otherCert, Key: otherKey, NKey: nkey}, "it requires a certificate of an authority that it trusts"},
		{"another authority of the broker", fleet.Address{CA: otherCA, Cert: cert, Key: key, NKey: nkey}, "its certificate was issued by an authority that is not known here"},
		{"no authority of the broker", fleet.Address{Cert: cert, Key: key, NKey: nkey}, "PRODIGY_FLEET_CA"},
		{"the key of another certificate", fleet.Address{CA: ca, Cert: cert, Key: otherKey, NKey: nkey}, "the certificate " + cert + " with the key " + otherKey + ":"},
		{"a certificate that is not there", fleet.Address{CA: ca, Cert: cert + "x", Key: key, NKey: nkey}, "the certificate " + cert + "x with the key " + key + ":"},
		{"an authority that is not there", fleet.Address{CA: ca + "x", Cert: cert, Key: key, NKey: nkey}, "the CA certificate: open " + ca + "x:"},
		{"an authority that is none", fleet.Address{CA: key, Cert: cert, Key: key, NKey: nkey}, "no certificate found in " + key},
		{"no NKEY", fleet.Address{CA: ca, Cert: cert, Key: key}, "PRODIGY_FLEET_NKEY"},
		{"an NKEY that is not there", fleet.Address{CA: ca, Cert: cert, Key: key, NKey: nkey + "x"}, "the NKEY in " + nkey + "x:"},
		{"an NKEY that is none", fleet.Address{CA: ca, Cert: cert, Key: key, NKey: config}, "the NKEY in " + config + ": nkeys: no nkey seed found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.a.URL = url
			h, err := connect(t.Context(), c.a, "test", responsive, func() {})
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v", err)
			case c.want == "":
				h.nc.Close()
			case err == nil:
				h.nc.Close()
				t.Error("it was let in")
			case !strings.Contains(err.Error(), c.want):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
