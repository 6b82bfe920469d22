package natsfleet

import (
	"encoding/base64"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// signature says who has signed something.
type signature struct {
	by  string // public key
	sig string // in base64
}

// What is signed. Each is about something else, so that a signature of one is none of another.
const (
	signedJob    = "job"    // about the key of the job
	signedDown   = "down"   // about the subject, which has the instance that it is for
	signedAnswer = "answer" // about the key of the job and the id of the call
	signedName   = "name"   // about the key of the worker that has it
)

// signedText returns what is signed: the body, and before it what it is and what it is about.
func signedText(kind, about string, body []byte) []byte {
	return append([]byte("prodigy fleet\x00"+kind+"\x00"+about+"\x00"), body...)
}

// signer signs what a coordinator says. A nil one signs nothing.
type signer struct {
	pair   nkeys.KeyPair
	public string
}

// newSigner returns the signer with a seed; none without.
func newSigner(seed string) (*signer, error) {
	if seed == "" {
		return nil, nil
	}
	pair, public, err := pairOf(seed)
	// a key that proves to a broker who one is signs what the broker wants
	if err == nil && !nkeys.IsValidPublicAccountKey(public) {
		err = errors.New("not a key for signing jobs")
	}
	if err != nil {
		return nil, fleet.Refusef("sign in the credentials: %w", err)
	}
	return &signer{pair, public}, nil
}

// sign returns the signature of a body, or the zero signature if the signer is nil.
func (s *signer) sign(kind, about string, body []byte) signature {
	if s == nil {
		return signature{}
	}
	sig := check.Must(s.pair.Sign(signedText(kind, about, body))) // it was made from a seed
	return signature{s.public, base64.StdEncoding.EncodeToString(sig)}
}

const (
	keyHeader = "Prodigy-Key"
	sigHeader = "Prodigy-Signature"
)

// message returns a signed message.
func (s *signer) message(subject, kind, about string, body []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: body}
	if s != nil {
		g := s.sign(kind, about, body)
		m.Header = nats.Header{keyHeader: {g.by}, sigHeader: {g.sig}}
	}
	return m
}

// trust are the public keys of coordinators whose jobs a worker runs. An empty one trusts all.
type trust map[string]nkeys.KeyPair

// newTrust returns the trust in public keys.
func newTrust(keys []string) (trust, error) {
	t := trust{}
	for _, key := range keys {
		pair, err := nkeys.FromPublicKey(key)
		if err == nil && !nkeys.IsValidPublicAccountKey(key) {
			err = errors.New("not a public key for signed jobs")
		}
		if err != nil {
			return nil, fleet.Refusef("--trust %q: %w", key, err)
		}
		t[key] = pair
	}
	return t, nil
}

var (
	errUnsigned = errors.New("not signed: this worker runs only jobs signed by a coordinator that it trusts")
	errStranger = errors.New("signed by an untrusted coordinator")
	errForged   = errors.New("invalid signature: the message was modified or replayed")
)

// check returns why something is not to be believed.
func (t trust) check(g signature, kind, about string, body []byte) error {
	if len(t) == 0 {
		return nil
	}
	pair := t[g.by]
	sig, err := base64.StdEncoding.DecodeString(g.sig)
	switch {
	case g.by == "":
		return errUnsigned
	case pair == nil:
		return errStranger
	case err != nil, pair.Verify(signedText(kind, about, body), sig) != nil:
		return errForged
	}
	return nil
}

// checkMessage is check for a message.
func (t trust) checkMessage(m *nats.Msg, kind, about string) error {
	return t.check(signature{m.Header.Get(keyHeader), m.Header.Get(sigHeader)}, kind, about, m.Data)
}

// bareJob returns what is signed of the entry of a job.
func bareJob(j fleet.Job) []byte {
	j.By, j.Sig = "", ""
	return encoded(j)
}

// signJob signs the entry of a job.
func (s *signer) signJob(key string, j fleet.Job) fleet.Job {
	g := s.sign(signedJob, key, bareJob(j))
	j.By, j.Sig = g.by, g.sig
	return j
}

// name returns the signature by which a worker with a key is believed to have a name. With an empty name it may have
// any.
func (s *signer) name(key, name string) string {
	return s.sign(signedName, key, []byte(name)).sig
}

// isNamed reports whether a worker has the name that it says, as far as there are signatures of names: by is the key
// that makes them. One without credentials may have any.
func isNamed(by, instance, name, sig string) bool {
	id := fleet.IDOf(instance)
	if by == "" || !nkeys.IsValidPublicUserKey(id) {
		return true
	}
	t, err := newTrust([]string{by})
	g := signature{by, sig}
	return err == nil && (t.check(g, signedName, id, []byte(name)) == nil || t.check(g, signedName, id, nil) == nil)
}

// pairOf returns the pair of keys with a seed, and the public one of them.
func pairOf(seed string) (pair nkeys.KeyPair, public string, err error) {
	if pair, err = nkeys.FromSeed([]byte(seed)); err == nil {
		public, err = pair.PublicKey()
	}
	return pair, public, err
}
