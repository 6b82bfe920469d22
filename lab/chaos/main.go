//go:build unix

// Package chaos runs jobs on a fleet of processes while it kills, freezes and restarts them and cuts their cables, and looks whether anything was lost or done twice.
//
// What really ran is told by witnesses that the commands themselves write; what prodigy believes is read from the log of the job.
package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nkeys"

	"prodigy/internal/testenv"
	"prodigy/lab/try"
)

// Main is the tool.
func Main() {
	rounds := flag.Int("rounds", 10, "how many jobs to run")
	seed := flag.Uint64("seed", 0, "of the first round; 0: a random one")
	items := flag.Int("items", 300, "of all jobs of a round together")
	jobs := flag.Int("jobs", 0, "how many jobs run at once, each of another user; 0: 1 to 3, another number each round")
	after := flag.Int("after", 0, "how many jobs each user runs, one after the other, on a broker and workers that nobody clears between them; 0: likewise")
	most := flag.Int("most", 15, "faults of a round with one job, after which it may end; several jobs have more; 0: any number")
	kinds := flag.String("faults", "", "only these faults, separated by commas; empty: all; none: none")
	nodes := flag.Int("nodes", 1, "how many brokers there are: 1, or the 3 of a cluster")
	skew := flag.Duration("skew", 7*time.Hour, "how far clocks of processes may be wrong, each on its own, and jump; 0: none is")
	soak := flag.Duration("soak", 0, "one round that takes about this long, with slower items and a fault every 20 s")
	secure := flag.Bool("secure", false, "one broker with TLS, and credentials that fleet init has made for each process; there are faults more: cables that are cut in one way, runs and brokers that are frozen")
	space := flag.Bool("workspace", false, "items are agents with workspaces, whose work is merged, and looked for in git")
	bin := flag.String("bin", "", "a directory in which the programs are built, unless they are there: by another run with the same -skew")
	keep := flag.Bool("keep", false, "keep the files of rounds that went wrong")
	flag.Parse()
	try.FailIf(*jobs < 0 || *after < 0, "-jobs, -after: 0 or more")
	try.FailIf(*nodes != 1 && *nodes != 3, "-nodes: 1 or 3")
	try.FailIf(*secure && *nodes != 1, "-secure: with one broker")
	if *seed == 0 {
		*seed = rand.Uint64() >> 32
	}
	base := try.To(os.MkdirTemp("", "prodigy-fleet-torture-"))
	sum := verdict{faults: map[string]int{}}
	defer func() {
		if len(sum.bad) == 0 || !*keep {
			_ = os.RemoveAll(base)
		}
	}()
	if *bin == "" {
		*bin = base
	}
	*bin = try.To(filepath.Abs(*bin))
	build(*bin, *skew)
	enough := make(chan os.Signal, 1)
	signal.Notify(enough, syscall.SIGTERM, syscall.SIGINT)
	for i := range *rounds {
		if len(enough) > 0 { // nothing of a round may be left
			*rounds = i
			break
		}
		r := &round{
			dir: filepath.Join(base, strconv.Itoa(i)), bin: *bin, jobs: *jobs, after: *after, seed: *seed + uint64(i), kinds: *kinds, space: *space, secure: *secure, skew: *skew, beat: 25 * time.Millisecond,
			lease: "3s",
		}
		usual := [][2]int{{1, 1}, {3, 1}, {1, 3}, {2, 2}}[r.seed%4]
		r.jobs, r.after = cmp.Or(r.jobs, usual[0]), cmp.Or(r.after, usual[1])
		all := r.jobs * r.after
		r.items, r.most, r.patience = max(1, *items/all), *most*(all+1)/2, 4*time.Minute*time.Duration(all)
		r.brokers = make([]*node, *nodes)
		if *nodes > 1 { // they take up to ten seconds to agree on a leader
			r.lease, r.patience = "15s", 10*time.Minute*time.Duration(all)
		}
		if *soak > 0 {
			r.beat, r.lease, r.every, r.patience, r.most = 500*time.Millisecond, "3s", 20*time.Second, 2**soak, 0
			r.jobs, r.after, r.items = 1, 1, int(*soak/(9*r.beat)*slots*workers)
		}
		v := verdict{faults: map[string]int{}}
		if err := try.Catch(func() { r.run(&v) }); err != nil {
			v.bad = append(v.bad, err.Error())
		}
		fmt.Printf("round %d, seed %d, %d x %d jobs: %s\n", i+1, r.seed, r.jobs, r.after, v)
		for _, text := range v.bad {
			fmt.Println("  " + text)
		}
		sum.add(v)
		if len(v.bad) == 0 || !*keep {
			_ = os.RemoveAll(r.dir)
		} else {
			fmt.Println("  kept in", r.dir)
		}
	}
	fmt.Printf("%d rounds, seed %d: %s\n", *rounds, *seed, sum)
	try.FailIf(len(sum.bad) > 0, "not all rounds are as they must be")
}

// verdict is what was found out about a round.
type verdict struct {
	faults                                            map[string]int
	executions, lost, late, stopped, twice, lap, left int
	took                                              time.Duration
	bad                                               []string
}

func (v *verdict) add(o verdict) {
	for name, n := range o.faults {
		v.faults[name] += n
	}
	v.executions, v.lost, v.late, v.stopped, v.twice, v.lap, v.left, v.took = v.executions+o.executions, v.lost+o.lost, v.late+o.late, v.stopped+o.stopped, v.twice+o.twice, v.lap+o.lap, v.left+o.left, v.took+o.took
	v.bad = append(v.bad, o.bad...)
}

func (v verdict) String() string {
	return fmt.Sprintf("%d bad, %d executions, %d lost with a worker (%d of them ended late), %d stopped as stragglers, %d run twice, %d overlapping, %d left at the broker, faults %v, %s",
		len(v.bad), v.executions, v.lost, v.late, v.stopped, v.twice, v.lap, v.left, v.faults, v.took.Round(100*time.Millisecond))
}

// round is what is done to jobs on one fleet.
type round struct {
	dir, bin string
	items    int // of each job
	jobs     int // at once
	after    int // one after the other
	seed     uint64
	kinds    string
	most     int // faults; 0 does not limit them
	skew     time.Duration
	beat     time.Duration // between two lines that a command writes
	every    time.Duration // between two faults; 0 stands for 0.15 to 0.9 s
	lease    string
	patience time.Duration // for the jobs to end
	space    bool          // with workspaces
	secure   bool          // with TLS and credentials
	lab      nkeys.KeyPair // with that: who looks what there is at the broker

	brokers []*node
	cables  []cable // of the workers
	proxies []*testenv.Proxy
	workers []*try.Process
	users   []*user
	began   time.Time
	clocks  *rand.Rand
	parts   int // freezes of a part of the lease so far
}

const (
	workers   = 3
	slots     = 6               // of each
	stopGrace = 2 * time.Second // of runs that are stopped
)

// start starts prodigy in a directory of its user, with a home and a clock of its own. What it says is in a log of that name.
func (r *round) start(name, dir, home, url string, args ...string) *try.Process {
	cmd := exec.Command(filepath.Join(r.bin, "prodigy"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all", "PRODIGY_HOME="+home, "PRODIGY_FLEET="+url)
	if file := r.credentials(args); file != "" {
		cmd.Env = append(cmd.Env, "PRODIGY_FLEET_CREDENTIALS="+file)
	}
	if r.skew > 0 {
		r.setClock(name)
		cmd.Env = append(cmd.Env, clockVariable+"="+r.clock(name))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := try.To(os.OpenFile(filepath.Join(r.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	return try.Start(cmd)
}

func kill(p *try.Process) {
	if p == nil {
		return
	}
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGKILL)
	<-p.Done
}

func (r *round) startWorker(i int) {
	name := workerName(i)
	r.cables[i].set(false)
	r.workers[i] = r.start(name, r.dir, filepath.Join(r.dir, "home"), r.url(r.cables[i]), "worker", "--name", name, "--slots", strconv.Itoa(slots))
}

func (r *round) run(v *verdict) {
	r.began = time.Now()
	r.clocks = rand.New(rand.NewPCG(r.seed, 2))
	try.Check(os.MkdirAll(r.dir, 0o700))
	r.makeUsers()
	r.layCables()
	defer r.removeCables()
	if r.secure {
		r.initFleet()
	}
	r.workers = make([]*try.Process, workers)
	ended := false
	defer func() {
		for _, u := range r.users {
			kill(u.cmd)
		}
		for _, w := range r.workers {
			kill(w)
		}
		for _, n := range r.brokers {
			kill(n.cmd)
		}
		if left := r.processes(); ended && len(left) > 0 {
			v.bad = append(v.bad, fmt.Sprintf("processes are left: %s", strings.Join(left, ", ")))
		}
	}()
	for i := range r.brokers {
		r.startBroker(i)
	}
	r.awaitBrokers()
	for i := range r.workers {
		r.startWorker(i)
	}
	for _, u := range r.users {
		r.begin(u)
	}
	r.torture(v.faults)
	v.took = time.Since(r.began)
	r.lookForLeftovers(v)
	for _, u := range r.users {
		for _, j := range u.jobs {
			r.judge(v, u, j)
		}
	}
	ended = true
}

// torture does harm until the jobs have ended.
func (r *round) torture(faults map[string]int) {
	rnd := rand.New(rand.NewPCG(r.seed, 1))
	names := []string{
		"kill worker", "drain worker", "freeze worker", "freeze part", "cut worker", "kill run", "cut run", "stop run", "stop cut run", "kill broker", "lose disk",
	}
	if r.skew > 0 {
		names = append(names, "jump clock")
	}
	if len(r.brokers) > 1 {
		names = append(names, "kill two brokers", "cut broker", "cut leader", "lose all disks")
	}
	if r.secure {
		names = append(names, "half cut worker", "half cut run", "freeze run", "freeze broker")
	}
	if r.kinds != "" {
		names = strings.Split(r.kinds, ",")
	}
	deadline, weighed := time.Now().Add(r.patience), time.Now()
	for n := 0; ; {
		if r.every > 0 && time.Since(weighed) > time.Minute {
			weighed = time.Now()
			r.weigh()
		}
		pause := r.every
		if pause == 0 {
			pause = time.Duration(150+rnd.IntN(750)) * time.Millisecond
			if r.space { // an agent takes some times as long as a command, and has to end now and then
				pause *= 3
			}
		}
		if len(r.brokers) > 1 {
			pause *= 3
		}
		fault, i, b := names[rnd.IntN(len(names))], rnd.IntN(workers), rnd.IntN(len(r.brokers))
		length := time.Duration(500+rnd.IntN(5000)) * time.Millisecond
		for until := time.Now().Add(pause); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			running := 0
			for _, u := range r.users {
				if r.goOn(u) {
					running++
				}
			}
			if running == 0 {
				return
			}
		}
		if time.Now().After(deadline) {
			r.giveUp()
			return
		}
		for i, w := range r.workers { // such as one that began while there was no broker
			if w.Ended() {
				r.startWorker(i)
			}
		}
		if fault == "none" || r.most > 0 && n >= r.most {
			continue
		}
		n++
		faults[fault]++
		r.harm(fault, i, b, length, rnd)
	}
}

// giveUp has all that still runs say in its log what it waits for.
func (r *round) giveUp() {
	list := slices.Clone(r.workers)
	for _, u := range r.users {
		if u.turn < len(u.jobs) {
			list = append(list, u.cmd)
		}
	}
	for _, cmd := range list {
		cmd.Signal(syscall.SIGCONT)
		cmd.Signal(syscall.SIGABRT)
	}
	time.Sleep(time.Second)
	try.Failf("a job does not end")
}

// harm does one fault, to worker i or broker b or one of the users. It goes on for a length in the background where it does not end at once.
func (r *round) harm(fault string, i, b int, length time.Duration, rnd *rand.Rand) {
	busy := slices.DeleteFunc(slices.Clone(r.users), func(u *user) bool { return u.turn == len(u.jobs) })
	u := busy[rnd.IntN(len(busy))]
	switch w := r.workers[i]; fault {
	case "kill worker":
		kill(w)
		r.startWorker(i)
	case "drain worker":
		w.Signal(syscall.SIGCONT)
		w.Signal(syscall.SIGTERM)
		select {
		case <-w.Done:
		case <-time.After(30*time.Second + 5*time.Second): // about 15 s if nobody takes its reports
			try.Failf("worker %d does not end", i)
		}
		r.startWorker(i)
	case "freeze worker":
		freeze(w, length)
	case "freeze part": // each tenth of the lease, and somewhat more, in turn
		r.parts++
		freeze(w, try.To(time.ParseDuration(r.lease))*time.Duration(1+(int(r.seed)+r.parts)%13)/10)
	case "stop run":
		u.cmd.Signal(syscall.SIGTERM)
	case "stop cut run": // it leaves what runs to the next one, and its stop comes when that has been left
		u.cable.set(true)
		u.cmd.Signal(syscall.SIGTERM)
		time.AfterFunc(stopGrace+3*time.Second+length/5, func() { u.cable.set(false) })
	case "freeze run":
		freeze(u.cmd, length)
	case "freeze broker":
		freeze(r.brokers[b].cmd, length)
	case "cut worker", "cut run", "half cut worker", "half cut run":
		c, ways := r.cables[i], []testenv.Way{}
		if strings.HasSuffix(fault, "run") {
			c = u.cable
		}
		if strings.HasPrefix(fault, "half") {
			ways = append(ways, testenv.Way(rnd.IntN(2)))
		}
		c.set(true, ways...)
		time.AfterFunc(length, func() { c.set(false, ways...) })
	case "kill run":
		kill(u.cmd)
		r.resume(u)
	case "kill broker":
		r.restartBrokers(length/4, false, b)
	case "kill two brokers":
		r.restartBrokers(length/4, false, b, (b+1)%len(r.brokers))
	case "lose disk":
		r.restartBrokers(0, true, b)
	case "lose all disks":
		r.restartBrokers(0, true, 0, 1, 2)
	case "cut broker", "cut leader":
		if fault == "cut leader" {
			b = r.leader(b)
		}
		r.cutBroker(b, true) // its clients still reach it
		time.AfterFunc(3*length, func() { r.cutBroker(b, false) })
	case "jump clock":
		r.setClock([]string{workerName(i), u.name, brokerName(b)}[rnd.IntN(3)])
	default:
		try.Failf("there is no fault %q", fault)
	}
}

// freeze has a process do nothing for some time.
func freeze(cmd *try.Process, length time.Duration) {
	cmd.Signal(syscall.SIGSTOP)
	time.AfterFunc(length, func() { cmd.Signal(syscall.SIGCONT) })
}

func workerName(i int) string { return "w" + strconv.Itoa(i) }

func brokerName(i int) string { return "broker" + strconv.Itoa(i) }
