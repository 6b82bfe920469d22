package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
)

// Serve runs a broker until ctx ends, or its store is removed.
func (Backend) Serve(ctx context.Context, o fleet.BrokerOptions) error {
	s, err := startBroker(o)
	if err != nil {
		return err
	}
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	forget, err := introduce(s, o)
	if err != nil {
		return err
	}
	defer forget()
	if o.Config == "" {
		if o.Insecure {
			o.Say("anyone who can reach this broker can use it, and so has a shell on every worker (--insecure)")
		}
		o.Say("broker ready: prodigy worker --join " + s.ClientURL())
	} else {
		o.Say("broker ready at " + s.ClientURL())
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	store := storeWatch{measure: limit.MachineNow}
	dir := s.JetStreamConfig().StoreDir
	began, err := os.Stat(dir)
	if err != nil {
		return err
	}
	for {
		select {
		case <-tick.C:
			if now, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(began, now) {
				return fmt.Errorf("storage %s was deleted while the broker was running: restart the broker "+
					"(running jobs resend their data)", dir)
			}
			s = store.look(s, o)
		case <-ctx.Done():
			return nil
		case <-o.Reload:
			config, err := brokerConfig(o)
			if err == nil {
				err = s.ReloadOptions(config)
			}
			if err != nil {
				o.Say("configuration not reloaded: " + err.Error())
				continue
			}
			o.Say("configuration reloaded")
		}
	}
}

// brokerConfig returns the configuration of a broker.
func brokerConfig(o fleet.BrokerOptions) (*server.Options, error) {
	config := &server.Options{}
	if o.Config != "" {
		var err error
		if config, err = server.ProcessConfigFile(o.Config); err != nil {
			return nil, fleet.Refusef("the configuration of the broker: %w", err)
		}
	}
	if o.Config == "" || o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return nil, fleet.Refusef("--listen %s: must be HOST:PORT, such as 127.0.0.1:4222", o.Listen)
		}
		if config.Port, err = strconv.Atoi(port); err != nil {
			return nil, fleet.Refusef("--listen %s: the port must be a number", o.Listen)
		}
		config.Host = host
	}
	if o.Store != "" {
		config.StoreDir = o.Store
	}
	if config.TLSConfig == nil && !fleet.Loopback(config.Host) && !o.Insecure {
		return nil, fleet.Refusef("%s without TLS gives anyone who can reach it a shell on every worker: listen "+
			"on 127.0.0.1, use --dir with a directory created by prodigy fleet init, or pass --insecure on "+
			"a trusted network", hostPort(config.Host, config.Port))
	}
	if config.Port == 0 && o.Listen != "" {
		config.Port = server.RANDOM_PORT
	}
	if ownerOnly(o) {
		owner, err := ownerOf(o)
		if err != nil {
			return nil, err
		}
		config.Nkeys = []*server.NkeyUser{{Nkey: owner}}
	} else if o.Config != "" && !o.Insecure && letsAllIn(config) {
		return nil, fleet.Refusef("%s gives anyone who can reach the broker a shell on every worker: add an "+
			"authorization, require client certificates, or pass --insecure", o.Config)
	}
	config.JetStream, config.NoSigs, config.NoLog = true, true, true
	config.ServerName = cmp.Or(config.ServerName, "prodigy-broker")
	return config, nil
}

// ownerOnly reports whether only the owner of a broker may use it.
func ownerOnly(o fleet.BrokerOptions) bool { return o.Config == "" && o.Home != "" && !o.Insecure }

// letsAllIn reports whether a configuration lets everybody in.
func letsAllIn(c *server.Options) bool {
	return len(c.Users)+len(c.Nkeys)+len(c.TrustedOperators)+len(c.TrustedKeys) == 0 && c.Username == "" &&
		c.Authorization == "" && c.AuthCallout == nil &&
		c.CustomClientAuthentication == nil && !c.TLSVerify
}

// ownerOf returns the public key of the owner of a broker. The credentials are made unless they are there: those who
// use the broker come back to it when it is started again. Jobs are signed, so that nobody who has got hold of the
// address meanwhile has anything run.
func ownerOf(o fleet.BrokerOptions) (public string, err error) {
	path := fleet.OwnerFile(o.Home, o.Listen)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := check.Unless(makeOwner(path, o.Listen), fs.ErrExist); err != nil {
			return "", err
		}
		data, err = os.ReadFile(path)
	}
	var c fleet.Credentials
	if err == nil {
		c, err = fleet.ParseCredentials(data)
	}
	if err == nil {
		_, public, err = pairOf(c.Seed)
	}
	if err != nil {
		return "", fleet.Refusef("the credentials of the broker's owner, %s: %w: remove the file, and the broker "+
			"creates new ones", path, err)
	}
	return public, nil
}

// makeOwner makes the file of these credentials at once, unless somebody else does.
func makeOwner(path, address string) error {
	user, _ := newKey(nkeys.CreateUser)
	sign, public := newKey(nkeys.CreateAccount)
	data := check.Must(yaml.Marshal(fleet.Credentials{
		Role: fleet.OwnerRole, URL: "nats://" + address, Seed: user,
		Sign: sign, Trust: []string{public},
	}))
	data = append([]byte("# Credentials of the owner of a broker, who runs jobs and workers with them. Keep them "+
		"secret.\n"), data...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return jobs.WriteNew(path, data)
}

// introduce has the owner of a broker find the credentials by the address that the broker has got. Forget is to be
// called when the broker ends. A broker that lets everybody in takes those away that were made for one at its address
// before.
func introduce(s *server.Server, o fleet.BrokerOptions) (forget func(), err error) {
	forget = func() {}
	if o.Home == "" {
		return forget, nil
	}
	path, made := fleet.OwnerFile(o.Home, s.Addr().String()), fleet.OwnerFile(o.Home, o.Listen)
	switch {
	case !ownerOnly(o):
		err = check.Unless(os.Remove(path), fs.ErrNotExist)
	case made != path:
		var data []byte
		if data, err = os.ReadFile(made); err == nil {
			err = jobs.WriteFile(path, data)
		}
		forget = func() { _ = os.Remove(path) }
	}
	return forget, err
}

// startBroker starts a broker.
func startBroker(o fleet.BrokerOptions) (*server.Server, error) {
	config, err := brokerConfig(o)
	if err != nil {
		return nil, err
	}
	if config.Port > 0 { // the server would only be found not to be ready, after a while
		if err := canListen(hostPort(config.Host, config.Port)); err != nil {
			return nil, fmt.Errorf("the broker cannot listen: %w (is another broker running? choose another port "+
				"with --listen HOST:PORT)", err)
		}
	}
	return startServer(config)
}

// canListen returns why nobody can listen on an address now. No process is started meanwhile, which would listen there
// too until it runs its program.
func canListen(address string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// startServer starts a nats-server in this process.
func startServer(config *server.Options) (*server.Server, error) {
	s, err := server.NewServer(config)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("the broker is not ready on %s:%d after 10s: is another process using one of the "+
			"ports of its configuration?", config.Host, config.Port)
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, fmt.Errorf("the broker cannot use its storage %s: check that it is writable and not used by "+
			"another broker, or choose another directory with --store", config.StoreDir)
	}
	return s, nil
}

// storeWatch follows whether the disk of a broker is full. After that nats-server refuses what it is to keep, or turns
// its store off, until it is started again.
type storeWatch struct {
	// measure returns what the disk of a directory has left.
	measure func(dirs ...string) (limit.Machine, error)
	// full is set when the disk was full, until another server was started. port is that of the server then.
	full bool
	port int
}

// The disk of a broker is full when it has fewer bytes than leastRoom. It has room again when it has roomAgain, or a
// twentieth of the disk if that is less.
const (
	leastRoom = 1 << 20
	roomAgain = 256 << 20
)

// look returns s, or a server in its place that has all that was kept, once there is room again on a disk that was
// full.
func (w *storeWatch) look(s *server.Server, o fleet.BrokerOptions) *server.Server {
	config, err := brokerConfig(o)
	if err != nil {
		return s
	}
	m, err := w.measure(config.StoreDir)
	if !w.full {
		if s.JetStreamEnabled() && (err != nil || m.DiskFree >= leastRoom) {
			return s
		}
		w.full = true
		if a, ok := s.Addr().(*net.TCPAddr); ok {
			w.port = a.Port
		}
		o.Say("the disk of " + config.StoreDir + " is full: waiting for free space")
	}
	if err == nil && m.DiskFree < min(m.DiskTotal/20, roomAgain) {
		return s
	}
	s.Shutdown()
	s.WaitForShutdown()
	config.Port = w.port
	next, err := startServer(config)
	if err != nil {
		return s // the next time
	}
	w.full = false
	o.Say("there is free space again, and the broker stores data again")
	return next
}

// gather asks all workers something and returns the answers that come within a moment.
func gather(ctx context.Context, a fleet.Address, subject string, data []byte) ([]*nats.Msg, error) {
	h, err := connect(ctx, a, "observer", func(context.Context, *brokerConn) error { return nil }, func() {})
	if err != nil {
		return nil, err
	}
	defer h.nc.Close()
	inbox := h.nc.NewInbox()
	sub, err := h.nc.SubscribeSync(inbox)
	if err == nil {
		err = h.nc.PublishRequest(subject, inbox, data)
	}
	if err != nil {
		return nil, err
	}
	var answers []*nats.Msg
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	defer context.AfterFunc(h.denied, cancel)()
	for {
		m, err := sub.NextMsgWithContext(wait)
		if h.denied.Err() != nil {
			return nil, context.Cause(h.denied)
		}
		if errors.Is(err, nats.ErrNoResponders) || wait.Err() != nil {
			return answers, nil
		}
		if err != nil {
			return nil, err
		}
		answers = append(answers, m)
	}
}

// Nodes returns the workers that answer, and those that coordinators have heard of and that do not.
func (Backend) Nodes(ctx context.Context, a fleet.Address, programs ...string) ([]fleet.Node, error) {
	if err := a.May(fleet.ObserverRole); err != nil {
		return nil, err
	}
	answers, err := gather(ctx, a, nodesSubject, encoded(fleet.NodesAsk{Programs: programs}))
	var nodes, heard []fleet.Node
	for _, m := range answers {
		var n fleet.Node
		var roster rosterAnswer
		if json.Unmarshal(m.Data, &n) == nil && n.Instance != "" {
			n.Ago = 0 // whatever it says
			if !isNamed(a.Names, n.Instance, n.Name, n.NameSig) {
				n.Name = fleet.IDOf(n.Instance)
			}
			fleet.Shift(&n, fleet.Offset(n.Now, time.Now()))
			nodes = append(nodes, n)
		} else if json.Unmarshal(m.Data, &roster) == nil {
			heard = append(heard, roster.Heard...)
		}
	}
	return withSilent(nodes, heard), err
}

// Drain asks workers to finish.
func (Backend) Drain(ctx context.Context, a fleet.Address, name string) (int, error) {
	if err := a.May(fleet.CoordinatorRole); err != nil {
		return 0, err
	}
	answers, err := gather(ctx, a, drainSubject, []byte(name))
	n := 0
	for _, m := range answers {
		if len(m.Data) > 0 {
			n++
		}
	}
	return n, err
}
