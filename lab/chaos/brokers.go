//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/testenv"
)

// node is a broker.
type node struct {
	cmd         *exec.Cmd
	port, route int              // of clients, and of the others
	ways        []*testenv.Proxy // to the others, by their number; it has none to itself
}

// cable is what joins a process with all brokers.
type cable []*testenv.Proxy

// url returns the address of the brokers at the end of a cable.
func (r *round) url(c cable) string {
	var urls []string
	for _, p := range c {
		urls = append(urls, r.scheme()+p.Addr())
	}
	return strings.Join(urls, ",")
}

func (c cable) set(cut bool, ways ...testenv.Way) {
	for _, p := range c {
		p.Set(cut, ways...)
	}
}

// layCables gives all brokers their ports, and makes what joins them with each other and with the other processes.
func (r *round) layCables() error {
	free := func() (port int, err error) { // of those that the system gives to no connection: a broker that is started again needs it again
		for range 100 {
			port = 10_000 + rand.IntN(20_000)
			var l net.Listener
			if l, err = net.Listen("tcp", address(port)); err == nil {
				return port, l.Close()
			}
		}
		return 0, err
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
		r.brokers[i] = &node{port: port, route: route, ways: make([]*testenv.Proxy, len(r.brokers))}
	}
	var err error
	for i, from := range r.brokers {
		for k, to := range r.brokers {
			if i != k {
				if from.ways[k], err = testenv.NewProxy(address(to.route)); err != nil {
					return err
				}
			}
		}
	}
	for i := range workers + len(r.users) {
		c := make(cable, len(r.brokers))
		for k, n := range r.brokers {
			if c[k], err = testenv.NewProxy(address(n.port)); err != nil {
				return err
			}
		}
		if i < workers {
			r.cables = append(r.cables, c)
		} else {
			r.users[i-workers].cable = c
		}
	}
	return nil
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func (r *round) removeCables() {
	cables := slices.Clone(r.cables)
	for _, u := range r.users {
		cables = append(cables, u.cable)
	}
	for _, c := range cables {
		for _, p := range c {
			p.Close()
		}
	}
	for _, n := range r.brokers {
		for _, p := range n.ways {
			if p != nil {
				p.Close()
			}
		}
	}
}

func (r *round) store(i int) string {
	if r.secure {
		return filepath.Join(r.fleetDir(), "broker", "jetstream")
	}
	return filepath.Join(r.dir, "store"+strconv.Itoa(i))
}

func (r *round) startBroker(i int) error {
	n := r.brokers[i]
	args := []string{"broker", "--listen", address(n.port), "--store", r.store(i), "--insecure"} // users have homes of their own
	if r.secure {
		args = []string{"broker", "--listen", address(n.port), "--dir", filepath.Join(r.fleetDir(), "broker")}
	}
	if len(r.brokers) > 1 {
		var routes strings.Builder // that to itself too: those who begin without a disk wait for a majority of so many
		for _, p := range n.ways {
			to := address(n.route)
			if p != nil {
				to = p.Addr()
			}
			fmt.Fprintf(&routes, "    \"nats-route://%s\"\n", to)
		}
		// Nobody may be told a way that is no cable.
		text := fmt.Sprintf("server_name: n%d\ncluster {\n  name: lab\n  listen: %q\n  no_advertise: true\n  routes: [\n%s  ]\n}\n", i, address(n.route), routes.String())
		config := filepath.Join(r.dir, fmt.Sprintf("n%d.conf", i))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		args = append(args, "--config", config)
	}
	cmd, err := r.start(brokerName(i), r.dir, filepath.Join(r.dir, "home"), "", args...)
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
				p.Set(cut)
			}
		}
	}
}

// ask has do ask the brokers something.
func (r *round) ask(do func(ctx context.Context, js jetstream.JetStream) error) error {
	var urls []string
	for _, n := range r.brokers {
		urls = append(urls, r.scheme()+address(n.port))
	}
	nc, err := nats.Connect(strings.Join(urls, ","), append(r.asLab(), nats.Timeout(2*time.Second))...)
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

// lookForLeftovers mends everything, and looks what is left of the jobs at the brokers and on the workers.
func (r *round) lookForLeftovers(v *verdict) error {
	for i, n := range r.brokers {
		_ = n.cmd.Process.Signal(syscall.SIGCONT)
		r.cutBroker(i, false)
	}
	for i, w := range r.workers {
		_ = w.Process.Signal(syscall.SIGCONT)
		r.cables[i].set(false)
	}
	time.Sleep(200 * time.Millisecond)
	left, err := r.leftovers()
	if err != nil {
		return err
	}
	if v.left = len(left); v.left > 0 {
		fmt.Printf("  the broker still has %s\n", strings.Join(left, ", "))
		for _, u := range r.users {
			said, _ := os.ReadFile(filepath.Join(r.dir, u.name+".log"))
			for line := range strings.Lines(string(said)) {
				if strings.Contains(line, "broker") {
					fmt.Printf("    %s: %s", u.name, line)
				}
			}
		}
		for _, u := range r.users {
			u.cable.set(false)
			for until := time.Now().Add(time.Minute); ; time.Sleep(time.Second) { // a cluster may have no leader for some seconds
				sweep, err := r.start("sweep", u.dir, u.home(), r.url(u.cable), "fleet", "sweep")
				if err != nil {
					return err
				}
				if <-r.ended(sweep); sweep.ProcessState.ExitCode() == 0 || time.Now().After(until) {
					break
				}
			}
		}
		if left, err = r.leftovers(); err != nil {
			return err
		}
		if len(left) > 0 {
			v.bad = append(v.bad, "after a sweep the broker still has "+strings.Join(left, ", "))
		}
	}
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(250 * time.Millisecond) {
		if left, err = r.onWorkers(); err == nil && len(left) == 0 {
			return nil
		}
		if time.Now().After(until) {
			break
		}
	}
	if err == nil {
		v.bad = append(v.bad, "workers still have "+strings.Join(left, ", "))
	}
	return err
}

// onWorkers names what workers still know or keep of the jobs.
func (r *round) onWorkers() (left []string, err error) {
	seen := map[string]bool{}
	err = r.ask(func(ctx context.Context, js jetstream.JetStream) error {
		inbox := nats.NewInbox()
		answers, err := js.Conn().SubscribeSync(inbox)
		if err != nil {
			return err
		}
		if err := js.Conn().PublishRequest("prodigy.nodes", inbox, nil); err != nil {
			return err
		}
		for {
			m, err := answers.NextMsg(500 * time.Millisecond)
			if errors.Is(err, nats.ErrTimeout) {
				return nil
			}
			if err != nil {
				return err
			}
			var node struct {
				Name string
				Jobs map[string]string
			}
			if err := json.Unmarshal(m.Data, &node); err != nil {
				return err
			}
			seen[node.Name] = true
			for key := range node.Jobs {
				left = append(left, node.Name+": job "+key)
			}
		}
	})
	for i, w := range r.workers {
		select {
		case <-r.ended(w):
			continue // since the broker was away when it began
		default:
		}
		if !seen[workerName(i)] {
			left = append(left, workerName(i)+": no answer")
		}
		dirs, _ := filepath.Glob(filepath.Join(r.dir, "home", "workers", workerName(i), "jobs", "*"))
		for _, dir := range dirs {
			left = append(left, workerName(i)+": "+filepath.Base(dir))
		}
	}
	return left, err
}

// leftovers names what the brokers still have of the job.
func (r *round) leftovers() (left []string, err error) {
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
			kv, err := js.KeyValue(ctx, "prodigy-locks")
			if err != nil {
				return err
			}
			keys, err := kv.Keys(ctx)
			if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
				return err
			}
			for _, key := range keys {
				lock, err := kv.Get(ctx, key)
				if err != nil {
					return err
				}
				if !strings.Contains(string(lock.Value()), `"over":true`) {
					left = append(left, "lock "+key)
				}
			}
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
