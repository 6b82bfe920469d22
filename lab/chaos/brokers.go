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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/testenv"
	"prodigy/lab/try"
)

// node is a broker.
type node struct {
	cmd         *try.Process
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
func (r *round) layCables() {
	free := func() int { // of those that the system gives to no connection: a broker that is started again needs it again
		for {
			port := 10_000 + rand.IntN(20_000)
			if l, err := net.Listen("tcp", address(port)); err == nil {
				try.Check(l.Close())
				return port
			}
		}
	}
	for i := range r.brokers {
		r.brokers[i] = &node{port: free(), route: free(), ways: make([]*testenv.Proxy, len(r.brokers))}
	}
	for i, from := range r.brokers {
		for k, to := range r.brokers {
			if i != k {
				from.ways[k] = r.cableTo(to.route)
			}
		}
	}
	for i := range workers + len(r.users) {
		c := make(cable, len(r.brokers))
		for k, n := range r.brokers {
			c[k] = r.cableTo(n.port)
		}
		if i < workers {
			r.cables = append(r.cables, c)
		} else {
			r.users[i-workers].cable = c
		}
	}
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// cableTo makes a way to a port, which is closed with the round.
func (r *round) cableTo(port int) *testenv.Proxy {
	p := try.To(testenv.NewProxy(address(port)))
	r.proxies = append(r.proxies, p)
	return p
}

func (r *round) removeCables() {
	for _, p := range r.proxies {
		p.Close()
	}
}

func (r *round) store(i int) string {
	if r.secure {
		return filepath.Join(r.fleetDir(), "broker", "jetstream")
	}
	return filepath.Join(r.dir, "store"+strconv.Itoa(i))
}

func (r *round) startBroker(i int) {
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
		try.Write(config, text)
		args = append(args, "--config", config)
	}
	n.cmd = r.start(brokerName(i), r.dir, filepath.Join(r.dir, "home"), "", args...)
}

// awaitBrokers returns when all brokers take connections.
func (r *round) awaitBrokers() {
	until := time.Now().Add(time.Minute)
	for _, n := range r.brokers {
		for {
			conn, err := net.Dial("tcp", address(n.port))
			if err == nil {
				_ = conn.Close()
				break
			}
			try.FailIf(time.Now().After(until), "a broker does not start: %w", err)
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// restartBrokers kills brokers, and starts them after a pause, perhaps without what they have kept.
func (r *round) restartBrokers(pause time.Duration, wipe bool, which ...int) {
	for _, i := range which {
		kill(r.brokers[i].cmd)
	}
	time.Sleep(pause)
	for _, i := range which {
		if wipe {
			try.Check(os.RemoveAll(r.store(i)))
		}
		r.startBroker(i)
	}
	r.awaitBrokers()
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
func (r *round) ask(do func(ctx context.Context, js jetstream.JetStream)) error {
	var urls []string
	for _, n := range r.brokers {
		urls = append(urls, r.scheme()+address(n.port))
	}
	return try.Catch(func() {
		nc := try.To(nats.Connect(strings.Join(urls, ","), append(r.asLab(), nats.Timeout(2*time.Second))...))
		defer nc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		do(ctx, try.To(jetstream.New(nc)))
	})
}

// leader returns the broker that leads the stream of reports, or other if there is none now.
func (r *round) leader(other int) int {
	_ = r.ask(func(ctx context.Context, js jetstream.JetStream) {
		if c := try.To(js.Stream(ctx, "PRODIGY_OUT")).CachedInfo().Cluster; c != nil {
			other = try.To(strconv.Atoi(strings.TrimPrefix(c.Leader, "n")))
		}
	})
	return other
}

// lookForLeftovers mends everything, and looks what is left of the jobs at the brokers and on the workers.
func (r *round) lookForLeftovers(v *verdict) {
	for i, n := range r.brokers {
		n.cmd.Signal(syscall.SIGCONT)
		r.cutBroker(i, false)
	}
	for i, w := range r.workers {
		w.Signal(syscall.SIGCONT)
		r.cables[i].set(false)
	}
	time.Sleep(200 * time.Millisecond)
	left := try.To(r.leftovers())
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
				sweep := r.start("sweep", u.dir, u.home(), r.url(u.cable), "fleet", "sweep")
				if <-sweep.Done; sweep.ProcessState.ExitCode() == 0 || time.Now().After(until) {
					break
				}
			}
		}
		if left := try.To(r.leftovers()); len(left) > 0 {
			v.bad = append(v.bad, "after a sweep the broker still has "+strings.Join(left, ", "))
		}
	}
	forgets := 2*try.To(time.ParseDuration(r.lease)) + 20*time.Second // a worker forgets a silent job after two leases
	for until := time.Now().Add(forgets); ; time.Sleep(250 * time.Millisecond) {
		left, err := r.onWorkers()
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(until) {
			try.Check(err)
			v.bad = append(v.bad, "workers still have "+strings.Join(left, ", "))
			return
		}
	}
}

// onWorkers names what workers still know or keep of the jobs.
func (r *round) onWorkers() (left []string, err error) {
	seen := map[string]bool{}
	err = r.ask(func(ctx context.Context, js jetstream.JetStream) {
		inbox := nats.NewInbox()
		answers := try.To(js.Conn().SubscribeSync(inbox))
		try.Check(js.Conn().PublishRequest("prodigy.nodes", inbox, nil))
		for {
			m, err := answers.NextMsg(500 * time.Millisecond)
			if errors.Is(err, nats.ErrTimeout) {
				return
			}
			try.Check(err)
			var node struct {
				Name string
				Jobs map[string]string
			}
			try.Check(json.Unmarshal(m.Data, &node))
			seen[node.Name] = true
			for key := range node.Jobs {
				left = append(left, node.Name+": job "+key)
			}
		}
	})
	for i, w := range r.workers {
		if w.Ended() {
			continue // since the broker was away when it began
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
		err = r.ask(func(ctx context.Context, js jetstream.JetStream) {
			s, err := js.Stream(ctx, "PRODIGY_OUT")
			if errors.Is(err, jetstream.ErrStreamNotFound) { // its disk was lost at the very end
				return
			}
			try.Check(err)
			if n := s.CachedInfo().State.Msgs; n > 0 {
				left = append(left, fmt.Sprintf("%d reports", n))
			}
			consumers := s.ConsumerNames(ctx)
			for name := range consumers.Name() {
				left = append(left, "consumer "+name)
			}
			if err := consumers.Err(); !errors.Is(err, jetstream.ErrEndOfData) {
				try.Check(err)
			}
			kv := try.To(js.KeyValue(ctx, "prodigy-locks"))
			keys, err := kv.Keys(ctx)
			if !errors.Is(err, jetstream.ErrNoKeysFound) {
				try.Check(err)
			}
			for _, key := range keys {
				lock := try.To(kv.Get(ctx, key))
				if !strings.Contains(string(lock.Value()), `"over":true`) {
					left = append(left, "lock "+key)
				}
			}
			store := try.To(js.ObjectStore(ctx, "prodigy-files"))
			objects, err := store.List(ctx)
			if !errors.Is(err, jetstream.ErrNoObjectsFound) {
				try.Check(err)
			}
			for _, o := range objects {
				left = append(left, o.Name)
			}
		})
		if err == nil || time.Now().After(until) {
			return left, err
		}
	}
}
