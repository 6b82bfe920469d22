// Package natsfleet carries the messages of a fleet over NATS JetStream: the coordinator of a job (coordinator.go), the
// worker (worker.go), and a broker for a first fleet (broker.go).
//
// What a coordinator knows of its job is its jobState, with the fleet.Ledger that decides; what a worker knows is its
// workerState. Each is given to one function at a time, by turn: it waits for nothing, so that nobody waits for it.
// What takes long, such as what is asked of the broker, is done between two turns.
//
// Coordinators and workers talk by plain messages: fleet.WorkerMessage and fleet.CoordinatorMessage. Both keep what
// they have said until the other has it, and say it again when it may have been lost. The broker keeps three things:
// the bucket prodigy-locks who has a job, the object store prodigy-files files, and the
// stream PRODIGY_OUT what workers have to report while the coordinator is away. Whatever it loses of that is made again:
// package fleet says why that is safe.
package natsfleet

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/fleet"
)

const (
	outStream   = "PRODIGY_OUT"
	locksBucket = "prodigy-locks"
	filesStore  = "prodigy-files"

	maxBody   = 256 << 10 // bytes of a message; what is larger goes in pieces
	pieceSize = 192 << 10 // bytes of a piece, which takes a third more in JSON

	requestTime = 5 * time.Second
)

// Backend is a fleet.Backend over NATS.
type Backend struct{}

var _ fleet.Backend = Backend{}

// ErrNoBroker is wrapped by the error of a broker that cannot be reached at the start.
var ErrNoBroker = errors.New("the broker cannot be reached")

// errRefused is wrapped by the error of a broker that was reached, and that does not know who wants to use it.
var errRefused = errors.New("the broker rejects the credentials")

var errLostConnection = errors.New("the connection to the broker was lost")

// brokerConn is a connection to the broker.
type brokerConn struct {
	nc *nats.Conn
	js jetstream.JetStream
	id string // what all instances on this connection begin with

	// curve is the pair of keys that secrets are sealed with and for, new for each connection, and curveID its public
	// key.
	curve   nkeys.KeyPair
	curveID string

	denied context.Context // ends, with the reason, when the broker does not let these credentials do something
	deny   context.CancelCauseFunc
}

// connect reaches the broker, and calls ready until that has found out that it can be used. who is shown by it.
// onReconnect is called whenever the connection is there again.
func connect(
	ctx context.Context, a fleet.Address, who string, ready func(ctx context.Context, h *brokerConn) error,
	onReconnect func(),
) (*brokerConn, error) {
	list, err := servers(a)
	plain := false // to some of them
	for _, u := range list {
		plain = plain || !encrypted(u)
		if !encrypted(u) && !a.Insecure && !fleet.Loopback(u.Hostname()) {
			return nil, fleet.Refusef("the connection to %s is not encrypted, which gives anyone on the network a "+
				"shell on every worker: use tls://, or --insecure on a trusted network", u.Host)
		}
	}
	if err != nil {
		return nil, err
	}
	h := &brokerConn{id: newInstance(), curve: check.Must(nkeys.CreateCurveKeys())}
	h.curveID = check.Must(h.curve.PublicKey())
	h.denied, h.deny = context.WithCancelCause(context.Background())
	options := []nats.Option{
		nats.Name("prodigy " + who), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1),
		nats.Timeout(requestTime),
		nats.IgnoreAuthErrorAbort(), // a broker that reads its users again refuses for a moment
		nats.ReconnectHandler(func(*nats.Conn) { onReconnect() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			// The client of the object store removes what it could send only in part. A worker may not; the coordinator
			// does it when the job has ended.
			if errors.Is(err, nats.ErrPermissionViolation) &&
				!strings.Contains(err.Error(), "$JS.API.STREAM.PURGE.OBJ_"+filesStore) {
				h.deny(fleet.Refusef("permission denied by the broker: %w", inWords(err)))
			}
		}),
	}
	if !a.Insecure && plain {
		// A broker of a cluster names the others to its clients, which would go on with one of them when it dies.
		options = append(options, nats.IgnoreDiscoveredServers())
	}
	if options, err = h.authenticated(options, a); err != nil {
		return nil, err
	}
	if h.nc, err = nats.Connect(a.URL, options...); err != nil {
		what := ErrNoBroker
		if errors.Is(err, nats.ErrAuthorization) {
			what = errRefused
		}
		return nil, fmt.Errorf("%w at %s: %w", what, fleet.ShownURL(a.URL), explain(err))
	}
	if h.js, err = jetstream.New(h.nc); err == nil {
		err = h.until(ctx, func(ctx context.Context) error { return ready(ctx, h) })
	}
	if err != nil {
		h.nc.Close()
		return nil, fmt.Errorf("the broker at %s: %w", fleet.ShownURL(a.URL), inWords(err))
	}
	return h, nil
}

// explain returns why a broker could not be reached, and what to do about it.
func explain(err error) error {
	hint := "is the broker running at this address?"
	var wrongCert *tls.CertificateVerificationError
	var timeout net.Error
	var network *net.OpError
	switch {
	case errors.Is(err, nats.ErrNoServers): // all have refused
		return errors.New("connection refused: is the broker running? (start one with: prodigy broker)")
	case errors.Is(err, nats.ErrAuthorization):
		hint = "it requires credentials that it knows: pass a file created by prodigy fleet init with " +
			"--credentials, or an NKEY file with PRODIGY_FLEET_NKEY, and reload the broker after a change of its " +
			"users (kill -HUP); a broker started without a configuration accepts only its own user, who needs " +
			"the same PRODIGY_HOME"
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		hint = "only one side uses TLS: use --credentials or tls:// with a broker that has certificates (prodigy " +
			"broker --dir), and nats:// with others"
	case errors.As(err, &wrongCert):
		hint = "its certificate was issued by an authority that is not known here (set PRODIGY_FLEET_CA, or use " +
			"--credentials), or for other hosts than the one in the address (--host of prodigy fleet init)"
	case errors.As(err, &timeout) && timeout.Timeout():
		hint = "not a NATS server (wrong port?)"
	case (errors.As(err, &network) || errors.Is(err, io.EOF)) && errors.Is(err, nats.ErrTLS), network != nil &&
		network.Op == "remote error":
		hint = "it requires a certificate of an authority that it trusts: set PRODIGY_FLEET_CERT and PRODIGY_FLEET_KEY"
	case network == nil:
		return err
	}
	return inWords(fmt.Errorf("%w: %s", err, hint))
}

// clientWords are errors of the client of the broker, and what they say to those who do not know it.
var clientWords = []struct {
	err   error
	words string
}{
	{nats.ErrAuthorization, "access denied"},
	{nats.ErrPermissionViolation, "permission denied"},
	{nats.ErrSecureConnRequired, "the connection is not encrypted"},
	{nats.ErrSecureConnWanted, "the connection cannot be encrypted"},
	{nats.ErrNkeysNotSupported, "it does not ask for a key"},
	{nats.ErrTimeout, "the broker did not respond in time"},
	{context.DeadlineExceeded, "the broker did not respond in time"},
	{nats.ErrNoResponders, "the broker's storage does not respond"},
	{jetstream.ErrNoStreamResponse, "the broker's storage does not respond"},
	{nats.ErrConnectionClosed, "the connection was closed"},
	{nats.ErrMaxPayload, "it is larger than the broker's maximum message size"},
	{jetstream.ErrObjectNotFound, "the broker does not have it"},
	{jetstream.ErrBucketNotFound, "the broker no longer has data of the fleet"},
	{jetstream.ErrStreamNotFound, "the broker no longer has data of the fleet"},
	{jetstream.ErrConsumerNotFound, "the broker no longer has data of the job"},
	{jetstream.ErrJetStreamNotEnabled, "JetStream is not enabled: start nats-server with --jetstream"},
	{jetstream.ErrJetStreamNotEnabledForAccount, "JetStream is not enabled for the account of these credentials: it needs " +
		"JetStream"},
}

// worded is an error that says in other words what it is.
type worded struct {
	error
	text string
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.error }

// inWords returns an error without the words of the client of the broker, for people.
func inWords(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	api, answered := errors.AsType[*jetstream.APIError](err)
	for _, w := range clientWords {
		if !errors.Is(err, w.err) {
			continue
		}
		if answered {
			text = strings.ReplaceAll(text, api.Error(), w.words)
		}
		text = strings.ReplaceAll(text, w.err.Error(), w.words)
		text = strings.ReplaceAll(text, "nats: Authorization Violation", w.words) // as the server says it
	}
	if answered {
		text = strings.ReplaceAll(text, api.Error(), api.Description)
	}
	text = strings.ReplaceAll(text, "nats: ", "")
	if text == err.Error() {
		return err
	}
	return worded{err, text}
}

// authenticated adds how the broker and this side prove who they are.
func (h *brokerConn) authenticated(options []nats.Option, a fleet.Address) (_ []nats.Option, err error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	authority := []byte(a.CAPEM)
	if a.CA != "" {
		if authority, err = os.ReadFile(a.CA); err != nil {
			return nil, fleet.Refusef("the CA certificate: %w", err)
		}
	}
	if len(authority) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(authority) {
			return nil, fleet.Refusef("the CA certificate: no certificate found in %s",
				cmp.Or(a.CA, "the credentials (ca)"))
		}
	}
	if a.Cert != "" {
		cert, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fleet.Refusef("the certificate %s with the key %s: %w", a.Cert, a.Key, err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	if conf.RootCAs != nil || conf.Certificates != nil {
		options = append(options, nats.Secure(conf))
	}
	if a.Seed == "" {
		if a.NKey == "" {
			return options, nil
		}
		key, err := nats.NkeyOptionFromSeed(a.NKey)
		if err != nil {
			return nil, fleet.Refusef("the NKEY in %s: %w", a.NKey, err)
		}
		return append(options, key), nil
	}
	pair, id, err := pairOf(a.Seed)
	if err != nil {
		return nil, fleet.Refusef("the key (seed) in the credentials cannot be read: copy the file again, or "+
			"create a new one with prodigy fleet add: %w", err)
	}
	options = append(options, nats.Nkey(id, pair.Sign))
	if a.Role != fleet.OwnerRole { // whose workers and coordinators all have the same key
		h.id = id
		options = append(options, nats.CustomInboxPrefix(inboxOf(id)))
	}
	return options, nil
}

// instance returns a name for this process that no other one ever has.
func (h *brokerConn) instance() string { return h.id + "-" + newInstance() }

// servers returns the addresses of the brokers of a fleet: of one, or of those of a cluster.
func servers(a fleet.Address) (list []*url.URL, err error) {
	for one := range strings.SplitSeq(a.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || !check.Among("nats tls ws wss", u.Scheme) {
			return nil, fleet.Refusef("invalid broker URL %q: use nats://HOST:4222 or tls://HOST:4222", fleet.ShownURL(one))
		}
		list = append(list, u)
	}
	return list, nil
}

// encrypted reports whether the scheme of an address is one with TLS.
func encrypted(u *url.URL) bool { return u.Scheme == "tls" || u.Scheme == "wss" }

// leastLease returns how short a lease may be.
func leastLease(a fleet.Address) time.Duration {
	list, err := servers(a)
	if err != nil || slices.ContainsFunc(list, func(u *url.URL) bool { return !fleet.Loopback(u.Hostname()) }) {
		return fleet.LeastLease
	}
	return fleet.LeastHere
}

// responsive reports whether the broker answers. One that has just started may not, and then never does.
func responsive(ctx context.Context, h *brokerConn) error {
	_, err := h.js.AccountInfo(ctx)
	return err
}

// until calls do until it succeeds, the broker denies it, or 30 seconds have passed.
func (h *brokerConn) until(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	defer context.AfterFunc(h.denied, cancel)()
	err := persist(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return do(ctx)
	}, func(err error) bool {
		return !isAny(err, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount)
	})
	if err == nil {
		return nil
	}
	return cmp.Or(context.Cause(h.denied), err)
}

// leaderless reports whether an error may be over in a moment: nobody has answered, who did has no leader to ask, or
// the connection is being made again.
func leaderless(err error) bool {
	api, answered := errors.AsType[*jetstream.APIError](err)
	return answered && api.Code == 503 || isAny(err, nats.ErrNoResponders, nats.ErrTimeout,
		jetstream.ErrNoStreamResponse, nats.ErrReconnectBufExceeded, errLostConnection, context.DeadlineExceeded)
}

// isAny reports whether an error is one of several.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// ensureStreams makes the stream and the buckets of a fleet, unless they are there. In a cluster three brokers keep
// each message. A worker may not call it: it has no right to make them.
func ensureStreams(ctx context.Context, h *brokerConn) error {
	js, replicas := h.js, 1
	if h.nc.ConnectedClusterName() != "" && len(h.nc.Servers()) >= clusterSize {
		replicas = clusterSize
	}
	// Each takes the broker a while to make, and they do not need each other.
	var all errgroup.Group
	all.Go(func() error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: outStream, Subjects: []string{"prodigy.out.>"}, Retention: jetstream.WorkQueuePolicy,
			Discard: jetstream.DiscardNew, Replicas: replicas, MaxAge: longestKept,
		})
		return check.Unless(err, jetstream.ErrStreamNameAlreadyInUse) // another has been quicker
	})
	all.Go(func() error {
		_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: locksBucket, Replicas: replicas, TTL: longestKept,
		})
		return check.Unless(err, jetstream.ErrBucketExists)
	})
	all.Go(func() error {
		_, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: filesStore, Replicas: replicas, TTL: longestKept,
		})
		return check.Unless(err, jetstream.ErrBucketExists)
	})
	return all.Wait()
}

// longestKept is how long the broker keeps anything. What is needed for longer, coordinators give it again.
const longestKept = 30 * 24 * time.Hour

// clusterSize is how many brokers of a cluster keep each message.
const clusterSize = 3

// subscribe has take get what is said on a subject. What a stream of the broker delivers there is not: no member of a
// fleet speaks that way, but each that may read a stream can name any subject for it.
func (h *brokerConn) subscribe(subject string, take nats.MsgHandler) (*nats.Subscription, error) {
	s, err := h.nc.Subscribe(subject, func(m *nats.Msg) {
		if !strings.HasPrefix(m.Reply, "$JS.") {
			take(m)
		}
	})
	if err == nil {
		err = s.SetPendingLimits(-1, -1)
	}
	return s, err
}

// subscribeAll is subscribe for several subjects.
func (h *brokerConn) subscribeAll(takes map[string]nats.MsgHandler) error {
	for subject, take := range takes {
		if _, err := h.subscribe(subject, take); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for some time, and reports false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool { return duration.Sleep(ctx, d) == nil }

// persist calls do until it succeeds, ctx ends, or again reports false of its error, with growing pauses between the
// calls.
func persist(ctx context.Context, do func(ctx context.Context) error, again func(err error) bool) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := do(ctx)
		if err == nil || ctx.Err() != nil || !again(err) || !pause(ctx, wait) {
			return err
		}
	}
}

// keepTrying calls do, which has some seconds each time, until it succeeds or ctx ends.
func keepTrying(ctx context.Context, do func(ctx context.Context) error) error {
	return persist(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		return do(ctx)
	}, func(error) bool { return true })
}
