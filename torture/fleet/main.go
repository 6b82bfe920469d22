//go:build unix

// Command fleet runs jobs on a fleet of processes while it kills, freezes and restarts them and cuts their cables, and looks whether anything was lost or done twice.
//
// What really ran is told by witnesses that the commands themselves write; what prodigy believes is read from the log of the job.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 10, "how many jobs to run")
	seed := flag.Uint64("seed", 0, "of the first round; 0: a random one")
	items := flag.Int("items", 300, "of each job")
	kinds := flag.String("faults", "", "only these faults, separated by commas; empty: all")
	keep := flag.Bool("keep", false, "keep the files of rounds that went wrong")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64() >> 32
	}
	base, err := os.MkdirTemp("", "prodigy-fleet-torture-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(base) }()
	for _, name := range []string{"prodigy", "prodigy-fleet"} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(base, name), "./cmd/"+name).CombinedOutput()
		if err != nil {
			log.Fatalf("%v: %s", err, out)
		}
	}
	var sum verdict
	for i := range *rounds {
		r := &round{dir: filepath.Join(base, strconv.Itoa(i)), bin: base, items: *items, seed: *seed + uint64(i), kinds: *kinds}
		v, err := r.run()
		if err != nil {
			v.bad = append(v.bad, err.Error())
		}
		fmt.Printf("round %d, seed %d: %s\n", i+1, r.seed, v)
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
	if len(sum.bad) > 0 {
		if *keep {
			os.Exit(1)
		}
		_ = os.RemoveAll(base)
		os.Exit(1)
	}
}

// verdict is what was found out about a round.
type verdict struct {
	faults                       map[string]int
	executions, lost, twice, lap int
	took                         time.Duration
	bad                          []string
}

func (v *verdict) add(o verdict) {
	if v.faults == nil {
		v.faults = map[string]int{}
	}
	for name, n := range o.faults {
		v.faults[name] += n
	}
	v.executions, v.lost, v.twice, v.lap, v.took = v.executions+o.executions, v.lost+o.lost, v.twice+o.twice, v.lap+o.lap, v.took+o.took
	v.bad = append(v.bad, o.bad...)
}

func (v verdict) String() string {
	return fmt.Sprintf("%d bad, %d executions, %d lost with a worker, %d run twice, %d overlapping, faults %v, %s",
		len(v.bad), v.executions, v.lost, v.twice, v.lap, v.faults, v.took.Round(100*time.Millisecond))
}

// round is one job under faults.
type round struct {
	dir, bin string
	items    int
	seed     uint64
	kinds    string

	port    int
	cables  []*proxy // of the workers, and of the run
	broker  *exec.Cmd
	workers []*exec.Cmd
	job     *exec.Cmd
	began   time.Time
	mu      sync.Mutex
	done    map[*exec.Cmd]chan struct{}
}

const workflow = `name: torture
mode: mapreduce
map:
  max_parallel: 24
  input: {command: "seq 1 ITEMS"}
  agent_template:
    - shell: |
        id="$PRODIGY_ITEM_ID $PRODIGY_ATTEMPT $$"
        n=0
        while [ $n -lt 8 ]; do
          echo "$id $(date +%s%N)" >> WITNESS/$PRODIGY_ITEM_ID
          sleep 0.05
          n=$((n+1))
        done
`

func (r *round) start(name, url string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(r.bin, "prodigy"), args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+filepath.Join(r.dir, "home"), "PRODIGY_FLEET="+url)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.OpenFile(filepath.Join(r.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	r.mu.Lock()
	r.done[cmd] = done
	r.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return cmd, nil
}

func (r *round) ended(cmd *exec.Cmd) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done[cmd]
}

func (r *round) kill(cmd *exec.Cmd) {
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Kill()
	<-r.ended(cmd)
}

func (r *round) startBroker() (err error) {
	r.broker, err = r.start("broker", "", "broker", "--listen", fmt.Sprintf("127.0.0.1:%d", r.port), "--store", filepath.Join(r.dir, "store"))
	return err
}

func (r *round) startWorker(i int) (err error) {
	name := "w" + strconv.Itoa(i)
	r.cables[i].set(false)
	r.workers[i], err = r.start(name, r.cables[i].url(), "worker", "--name", name, "--slots", "6")
	return err
}

const lease = "3s"

func (r *round) run() (v verdict, err error) {
	r.began, r.done, v.faults = time.Now(), map[*exec.Cmd]chan struct{}{}, map[string]int{}
	witness := filepath.Join(r.dir, "witness")
	if err := os.MkdirAll(witness, 0o700); err != nil {
		return v, err
	}
	text := strings.NewReplacer("ITEMS", strconv.Itoa(r.items), "WITNESS", witness).Replace(workflow)
	if err := os.WriteFile(filepath.Join(r.dir, "w.yml"), []byte(text), 0o600); err != nil {
		return v, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return v, err
	}
	r.port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	r.workers = make([]*exec.Cmd, 3)
	for range len(r.workers) + 1 {
		p, err := newProxy(fmt.Sprintf("127.0.0.1:%d", r.port))
		if err != nil {
			return v, err
		}
		defer p.close()
		r.cables = append(r.cables, p)
	}
	defer func() {
		r.kill(r.job)
		for _, w := range r.workers {
			r.kill(w)
		}
		r.kill(r.broker)
	}()
	if err := r.startBroker(); err != nil {
		return v, err
	}
	for c, until := error(errors.New("")), time.Now().Add(10*time.Second); c != nil && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		var conn net.Conn
		if conn, c = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port)); c == nil {
			_ = conn.Close()
		}
	}
	for i := range r.workers {
		if err := r.startWorker(i); err != nil {
			return v, err
		}
	}
	if r.job, err = r.start("job", r.cables[len(r.workers)].url(), "run", "w.yml", "--lease", lease); err != nil {
		return v, err
	}
	if err := r.torture(v.faults); err != nil {
		return v, err
	}
	v.took = time.Since(r.began)
	time.Sleep(200 * time.Millisecond)
	return v, r.judge(&v, witness)
}

// torture does harm until the job has ended.
func (r *round) torture(faults map[string]int) error {
	rnd := rand.New(rand.NewPCG(r.seed, 1))
	names := []string{"kill worker", "drain worker", "freeze worker", "cut worker", "kill run", "cut run", "kill broker", "lose disk"}
	if r.kinds != "" {
		names = strings.Split(r.kinds, ",")
	}
	deadline := time.After(4 * time.Minute)
	resumed := time.Now()
	for {
		pause := time.Duration(300+rnd.IntN(1500)) * time.Millisecond
		fault, i := names[rnd.IntN(len(names))], rnd.IntN(len(r.workers))
		length := time.Duration(500+rnd.IntN(5000)) * time.Millisecond
		select {
		case <-r.ended(r.job):
			if r.job.ProcessState.ExitCode() == 0 {
				return nil
			}
			if time.Since(resumed) < 100*time.Millisecond {
				return fmt.Errorf("the run ends with %v", r.job.ProcessState)
			}
			resumed = time.Now()
			if err := r.resume(); err != nil {
				return err
			}
			continue
		case <-deadline:
			return errors.New("the job does not end")
		case <-time.After(pause):
		}
		faults[fault]++
		var err error
		switch w := r.workers[i]; fault {
		case "kill worker":
			r.kill(w)
			err = r.startWorker(i)
		case "drain worker":
			_ = w.Process.Signal(syscall.SIGCONT)
			_ = w.Process.Signal(syscall.SIGTERM)
			select {
			case <-r.ended(w):
			case <-time.After(15 * time.Second):
				return fmt.Errorf("worker %d does not end", i)
			}
			err = r.startWorker(i)
		case "freeze worker":
			_ = w.Process.Signal(syscall.SIGSTOP)
			time.AfterFunc(length, func() { _ = w.Process.Signal(syscall.SIGCONT) })
		case "cut worker", "cut run":
			if fault == "cut run" {
				i = len(r.workers)
			}
			r.cables[i].set(true)
			time.AfterFunc(length, func() { r.cables[i].set(false) })
		case "kill run":
			r.kill(r.job)
			err = r.resume()
		case "kill broker":
			r.kill(r.broker)
			time.Sleep(length / 4)
			err = r.startBroker()
		case "lose disk":
			r.kill(r.broker)
			if err := os.RemoveAll(filepath.Join(r.dir, "store")); err != nil {
				return err
			}
			err = r.startBroker()
		default:
			return fmt.Errorf("there is no fault %q", fault)
		}
		if err != nil {
			return err
		}
	}
}

func (r *round) resume() (err error) {
	r.cables[len(r.workers)].set(false)
	r.job, err = r.start("job", r.cables[len(r.workers)].url(), "resume", "--lease", lease)
	return err
}

// record is what the judge reads of a line of the log.
type record struct {
	Type    string `json:"type"`
	ItemID  string `json:"item_id"`
	Attempt int    `json:"attempt"`
	Action  string `json:"action"`
}

// beat is a line that a command has written.
type beat struct {
	attempt int
	pid     string
	at      int64
}

func (r *round) judge(v *verdict, witness string) error {
	started, back, settled := map[string]int{}, map[string]int{}, map[string]int{}
	err := filepath.WalkDir(filepath.Join(r.dir, "home", "events"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			var rec record
			if err := json.Unmarshal(line, &rec); err != nil {
				return err
			}
			key := rec.ItemID + "/" + strconv.Itoa(rec.Attempt)
			switch rec.Type {
			case "AgentStarted":
				started[key]++
			case "AgentInterrupted":
				back[key]++
			case "AgentLost":
				v.lost++
			case "AgentCompleted":
				settled[rec.ItemID]++
			case "AgentFailed":
				v.bad = append(v.bad, key+" failed")
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(settled) != r.items {
		v.bad = append(v.bad, fmt.Sprintf("%d items were settled, want %d", len(settled), r.items))
	}
	for id, n := range settled {
		if n != 1 {
			v.bad = append(v.bad, fmt.Sprintf("%s was settled %d times", id, n))
		}
	}
	files, err := filepath.Glob(filepath.Join(witness, "*"))
	if err != nil {
		return err
	}
	if len(files) != r.items {
		v.bad = append(v.bad, fmt.Sprintf("%d items have run, want %d", len(files), r.items))
	}
	for _, path := range files {
		if err := r.witness(v, path, started, back); err != nil {
			return err
		}
	}
	return nil
}

// witness compares what the executions of an item wrote with the log.
func (r *round) witness(v *verdict, path string, started, back map[string]int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	id := filepath.Base(path)
	spans := map[string][]beat{} // by execution
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 4 {
			continue // it was killed while it wrote
		}
		attempt, _ := strconv.Atoi(words[1])
		at, _ := strconv.ParseInt(words[3], 10, 64)
		name := words[1] + "/" + words[2]
		spans[name] = append(spans[name], beat{attempt, words[2], at})
	}
	var list [][]beat
	runs := map[string]int{}
	for _, span := range spans {
		list = append(list, span)
		runs[id+"/"+strconv.Itoa(span[0].attempt)]++
	}
	v.executions += len(list)
	for key, n := range runs {
		if started[key] == 0 {
			v.bad = append(v.bad, key+" has run and has no record")
		}
		if more := n - 1 - back[key]; more > 0 {
			v.twice += more
			v.bad = append(v.bad, fmt.Sprintf("%s has run %d times, and was given back %d times", key, n, back[key]))
		}
	}
	slices.SortFunc(list, func(a, b []beat) int { return cmp.Compare(a[0].at, b[0].at) })
	for i := 1; i < len(list); i++ {
		if before := list[i-1]; before[len(before)-1].at > list[i][0].at {
			v.lap++
			v.bad = append(v.bad, fmt.Sprintf("two executions of %s overlap by %s", id, time.Duration(before[len(before)-1].at-list[i][0].at)))
		}
	}
	return nil
}
