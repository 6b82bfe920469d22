package fleet

import "testing"

// Addresses are printed, and their users may be tokens.
func TestNoSecretOfAnAddressIsShown(t *testing.T) {
	for text, want := range map[string]string{
		"nats://127.0.0.1:4222":             "nats://127.0.0.1:4222",
		"nats://TOKEN@a:4222":               "nats://xxxxx@a:4222",
		"nats://u:pw@a:4222":                "nats://xxxxx@a:4222",
		"nats://u:pw1@a, nats://u:pw2@b":    "nats://xxxxx@a,nats://xxxxx@b",
		"tls://a:4222,tls://b:4222":         "tls://a:4222,tls://b:4222",
		"nats://u:pw1@a,nats://u:pw2@b\x7f": "the given address",
		"nats://my host:4222":               "nats://my host:4222",
		"nats://a:4222,nats://b:\x1b":       `nats://a:4222,nats://b:\x1b`,
	} {
		if got := ShownURL(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
