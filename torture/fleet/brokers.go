//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// node is a broker.
type node struct {
	cmd         *exec.Cmd
	port, route int      // of clients, and of the others
	ways        []*proxy // to the others, by their number; nil: to itself
}

// cable is what joins a process with all brokers.
type cable []*proxy

func (c cable) url() string {
	var urls []string
	for _, p := range c {
		urls = append(urls, p.url())
	}
	return strings.Join(urls, ",")
}

func (c cable) set(cut bool) {
	for _, p := range c {
		p.set(cut)
	}
}

// layCables gives all brokers their ports, and makes what joins them with each other and with the other processes.
func (r *round) layCables() error {
	free := func() (int, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		return l.Addr().(*net.TCPAddr).Port, l.Close()
	}
	for i := range r.brokers {
		port, err := free()
		if err != nil {
			return err
		}
		route, err := free()
		if err != nil {
			return err
		}
		r.brokers[i] = &node{port: port, route: route, ways: make([]*proxy, len(r.brokers))}
	}
	var err error
	for i, from := range r.brokers {
		for k, to := range r.brokers {
			if i != k {
				if from.ways[k], err = newProxy(address(to.route)); err != nil {
					return err
				}
			}
		}
	}
	for range workers + 1 {
		c := make(cable, len(r.brokers))
		for i, n := range r.brokers {
			if c[i], err = newProxy(address(n.port)); err != nil {
				return err
			}
		}
		r.cables = append(r.cables, c)
	}
	return nil
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func (r *round) removeCables() {
	for _, c := range r.cables {
		for _, p := range c {
			p.close()
		}
	}
	for _, n := range r.brokers {
		for _, p := range n.ways {
			if p != nil {
				p.close()
			}
		}
	}
}

func (r *round) store(i int) string { return filepath.Join(r.dir, "store"+strconv.Itoa(i)) }

func (r *round) startBroker(i int) error {
	n := r.brokers[i]
	args := []string{"broker", "--listen", address(n.port), "--store", r.store(i)}
	if len(r.brokers) > 1 {
		var routes strings.Builder
		for _, p := range n.ways {
			if p != nil {
				fmt.Fprintf(&routes, "    \"nats-route://%s\"\n", p.listener.Addr())
			}
		}
		// Nobody may be told a way that is no cable.
		text := fmt.Sprintf("server_name: n%d\ncluster {\n  name: lab\n  listen: %q\n  no_advertise: true\n  routes: [\n%s  ]\n}\n", i, address(n.route), routes.String())
		config := filepath.Join(r.dir, fmt.Sprintf("n%d.conf", i))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		args = append(args, "--config", config)
	}
	cmd, err := r.start("broker"+strconv.Itoa(i), "", args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	n.cmd = cmd
	return err
}

// awaitBrokers returns when all brokers take connections.
func (r *round) awaitBrokers() error {
	until := time.Now().Add(time.Minute)
	for _, n := range r.brokers {
		for {
			conn, err := net.Dial("tcp", address(n.port))
			if err == nil {
				_ = conn.Close()
				break
			}
			if time.Now().After(until) {
				return fmt.Errorf("a broker does not start: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// restartBrokers kills brokers, and starts them after a pause, perhaps without what they have kept.
func (r *round) restartBrokers(pause time.Duration, wipe bool, which ...int) error {
	for _, i := range which {
		r.kill(r.brokers[i].cmd)
	}
	time.Sleep(pause)
	for _, i := range which {
		if wipe {
			if err := os.RemoveAll(r.store(i)); err != nil {
				return err
			}
		}
		if err := r.startBroker(i); err != nil {
			return err
		}
	}
	return r.awaitBrokers() // who begins without a broker ends at once
}

// cutBroker cuts a broker off from the others, or joins it with them again.
func (r *round) cutBroker(b int, cut bool) {
	for i, n := range r.brokers {
		for k, p := range n.ways {
			if p != nil && (i == b || k == b) {
				p.set(cut)
			}
		}
	}
}

// ask has do ask the brokers something.
func (r *round) ask(do func(ctx context.Context, js jetstream.JetStream) error) error {
	var urls []string
	for _, n := range r.brokers {
		urls = append(urls, "nats://"+address(n.port))
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.Timeout(2*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return do(ctx, js)
}

// leader returns the broker that leads the stream of reports, or other if there is none now.
func (r *round) leader(other int) int {
	_ = r.ask(func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, "PRODIGY_OUT")
		if err == nil && s.CachedInfo().Cluster != nil {
			if n, err := strconv.Atoi(strings.TrimPrefix(s.CachedInfo().Cluster.Leader, "n")); err == nil {
				other = n
			}
		}
		return err
	})
	return other
}

// leftovers names what the brokers still have of the job.
func (r *round) leftovers() (left []string, err error) {
	for i := range r.brokers {
		r.cutBroker(i, false)
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) { // a cluster may have no leader for some seconds
		left = nil
		err = r.ask(func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, "PRODIGY_OUT")
			if errors.Is(err, jetstream.ErrStreamNotFound) { // its disk was lost at the very end
				return nil
			}
			if err != nil {
				return err
			}
			if n := s.CachedInfo().State.Msgs; n > 0 {
				left = append(left, fmt.Sprintf("%d reports", n))
			}
			consumers := s.ConsumerNames(ctx)
			for name := range consumers.Name() {
				left = append(left, "consumer "+name)
			}
			if err := consumers.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
				return err
			}
			kv, err := js.KeyValue(ctx, "prodigy-jobs")
			if err != nil {
				return err
			}
			keys, err := kv.Keys(ctx)
			if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
				return err
			}
			left = append(left, keys...)
			store, err := js.ObjectStore(ctx, "prodigy-files")
			if err != nil {
				return err
			}
			objects, err := store.List(ctx)
			if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
				return err
			}
			for _, o := range objects {
				left = append(left, o.Name)
			}
			return nil
		})
		if err == nil || time.Now().After(until) {
			return left, err
		}
	}
}
