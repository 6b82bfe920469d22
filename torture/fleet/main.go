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
	"os"
	"os/exec"
	"os/signal"
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
	most := flag.Int("most", 15, "faults of a round, after which the job may end; 0: any number")
	kinds := flag.String("faults", "", "only these faults, separated by commas; empty: all")
	nodes := flag.Int("nodes", 1, "how many brokers there are: 1, or the 3 of a cluster")
	skew := flag.Duration("skew", 7*time.Hour, "how far clocks of processes may be wrong, each on its own; 0: none is")
	soak := flag.Duration("soak", 0, "one round that takes about this long, with slower items and a fault every 20 s")
	space := flag.Bool("workspace", false, "items are agents with workspaces, whose work is merged, and looked for in git")
	bin := flag.String("bin", "", "a directory in which the programs are built, unless they are there: by another run with the same -skew")
	keep := flag.Bool("keep", false, "keep the files of rounds that went wrong")
	flag.Parse()
	if *nodes != 1 && *nodes != 3 {
		log.Fatal("-nodes: 1 or 3")
	}
	if *seed == 0 {
		*seed = rand.Uint64() >> 32
	}
	base, err := os.MkdirTemp("", "prodigy-fleet-torture-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(base) }()
	if *bin == "" {
		*bin = base
	}
	if *bin, err = filepath.Abs(*bin); err == nil {
		err = build(*bin, *skew)
	}
	if err != nil {
		log.Fatal(err)
	}
	enough := make(chan os.Signal, 1)
	signal.Notify(enough, syscall.SIGTERM, syscall.SIGINT)
	var sum verdict
	for i := range *rounds {
		if len(enough) > 0 { // nothing of a round may be left
			*rounds = i
			break
		}
		r := &round{
			dir: filepath.Join(base, strconv.Itoa(i)), bin: *bin, items: *items, seed: *seed + uint64(i), kinds: *kinds, most: *most, space: *space, skew: *skew, beat: 25 * time.Millisecond, beats: mixed,
			lease: "2s", patience: 4 * time.Minute,
		}
		r.brokers = make([]*node, *nodes)
		if *nodes > 1 { // they take up to ten seconds to agree on a leader
			r.lease, r.patience = "15s", 10*time.Minute
		}
		if *soak > 0 {
			r.beat, r.beats, r.lease, r.every, r.patience, r.most = 500*time.Millisecond, "8", "3s", 20*time.Second, 2**soak, 0
			r.items = int(*soak / (9 * r.beat) * slots * workers)
		}
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
	faults                             map[string]int
	executions, lost, twice, lap, left int
	took                               time.Duration
	bad                                []string
}

func (v *verdict) add(o verdict) {
	if v.faults == nil {
		v.faults = map[string]int{}
	}
	for name, n := range o.faults {
		v.faults[name] += n
	}
	v.executions, v.lost, v.twice, v.lap, v.left, v.took = v.executions+o.executions, v.lost+o.lost, v.twice+o.twice, v.lap+o.lap, v.left+o.left, v.took+o.took
	v.bad = append(v.bad, o.bad...)
}

func (v verdict) String() string {
	return fmt.Sprintf("%d bad, %d executions, %d lost with a worker, %d run twice, %d overlapping, %d left at the broker, faults %v, %s",
		len(v.bad), v.executions, v.lost, v.twice, v.lap, v.left, v.faults, v.took.Round(100*time.Millisecond))
}

// round is one job under faults.
type round struct {
	dir, bin string
	items    int
	seed     uint64
	kinds    string
	most     int // faults; 0: any number
	skew     time.Duration
	beat     time.Duration // between two lines that a command writes
	beats    string        // how many there are
	every    time.Duration // between two faults; 0: 0.15 to 0.9 s
	lease    string
	patience time.Duration // for the job to end
	space    bool          // with workspaces
	cwd      string        // of prodigy

	brokers []*node
	cables  []cable // of the workers, and of the run
	workers []*exec.Cmd
	job     *exec.Cmd
	began   time.Time
	clocks  *rand.Rand
	mu      sync.Mutex
	done    map[*exec.Cmd]chan struct{}
}

const (
	workers = 3
	slots   = 6 // of each
)

const workflow = `name: torture
mode: mapreduce
map:
  max_parallel: 24
  input: {command: "seq 1 ITEMS"}
  agent_template:
    - shell: exec bash SCRIPT "${item}"
`

// script is what an item does. It starts no other programs, since rounds are not to be short of processors, but for each eighth item.
const script = `i=$1
id="$PRODIGY_ITEM_ID $PRODIGY_ATTEMPT $$"
exec 9<>SILENT
pause() { if [ $((i % 8)) = 0 ]; then sleep BEAT; else read -rt BEAT -u 9; fi; }
beats=BEATS
n=0
while [ $n -lt $beats ]; do
  echo "$id ${EPOCHREALTIME/[.,]/}000" >>WITNESS/$PRODIGY_ITEM_ID
  pause
  n=$((n+1))
done
`

// Most items take less than a moment, some longer than a lease.
const mixed = `$((1 + i * 7 % 8))
case $i in *33|*66) beats=60;; *50) beats=100;; esac`

func (r *round) start(name, url string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(r.bin, "prodigy"), args...)
	cmd.Dir = r.cwd
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all", "PRODIGY_HOME="+filepath.Join(r.dir, "home"), "PRODIGY_FLEET="+url)
	if r.skew > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", skewVariable, (r.clocks.IntN(3)-1)*int(r.skew/time.Second)))
	}
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

func (r *round) startWorker(i int) (err error) {
	name := "w" + strconv.Itoa(i)
	r.cables[i].set(false)
	w, err := r.start(name, r.cables[i].url(), "worker", "--name", name, "--slots", strconv.Itoa(slots))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers[i] = w
	return nil
}

func (r *round) run() (v verdict, err error) {
	r.began, r.done, v.faults = time.Now(), map[*exec.Cmd]chan struct{}{}, map[string]int{}
	r.clocks = rand.New(rand.NewPCG(r.seed, 2))
	witness := filepath.Join(r.dir, "witness")
	if err := os.MkdirAll(witness, 0o700); err != nil {
		return v, err
	}
	flow, does := workflow, script
	r.cwd = r.dir
	if r.space {
		flow, does = withWorkspaces(flow, does, r.seed)
		if err := r.makeRepository(); err != nil {
			return v, err
		}
	}
	silent, path := filepath.Join(r.dir, "silent"), filepath.Join(r.dir, "item.sh")
	if err := syscall.Mkfifo(silent, 0o600); err != nil {
		return v, err
	}
	replace := strings.NewReplacer("ITEMS", strconv.Itoa(r.items), "WITNESS", witness, "SILENT", silent, "SCRIPT", path, "BEATS", r.beats, "BEAT", fmt.Sprint(r.beat.Seconds()))
	for path, text := range map[string]string{path: does, filepath.Join(r.dir, "w.yml"): flow} {
		if err := os.WriteFile(path, []byte(replace.Replace(text)), 0o600); err != nil {
			return v, err
		}
	}
	if err := r.layCables(); err != nil {
		return v, err
	}
	defer r.removeCables()
	r.workers = make([]*exec.Cmd, workers)
	defer func() {
		r.kill(r.job)
		for _, w := range r.workers {
			r.kill(w)
		}
		for _, n := range r.brokers {
			r.kill(n.cmd)
		}
		if left := r.processes(); err == nil && len(left) > 0 {
			v.bad = append(v.bad, fmt.Sprintf("processes are left: %s", strings.Join(left, ", ")))
		}
	}()
	for i := range r.brokers {
		if err := r.startBroker(i); err != nil {
			return v, err
		}
	}
	if err := r.awaitBrokers(); err != nil {
		return v, err
	}
	for i := range r.workers {
		if err := r.startWorker(i); err != nil {
			return v, err
		}
	}
	if r.job, err = r.start("job", r.cables[workers].url(), "run", filepath.Join(r.dir, "w.yml"), "--lease", r.lease); err != nil {
		return v, err
	}
	if r.every > 0 {
		end := make(chan struct{})
		defer close(end)
		go r.weigh(end)
	}
	if err := r.torture(v.faults); err != nil {
		return v, err
	}
	v.took = time.Since(r.began)
	time.Sleep(200 * time.Millisecond)
	left, err := r.leftovers()
	if err != nil {
		return v, err
	}
	if v.left = len(left); v.left > 0 {
		said, _ := os.ReadFile(filepath.Join(r.dir, "job.log"))
		fmt.Printf("  the broker still has %s; the run said:\n", strings.Join(left, ", "))
		for line := range strings.Lines(string(said)) {
			if strings.Contains(line, "broker") {
				fmt.Print("    ", line)
			}
		}
		sweep, err := r.start("sweep", r.cables[workers].url(), "fleet", "sweep")
		if err != nil {
			return v, err
		}
		<-r.ended(sweep)
		if left, err = r.leftovers(); err != nil {
			return v, err
		}
		if len(left) > 0 {
			v.bad = append(v.bad, "after a sweep the broker still has "+strings.Join(left, ", "))
		}
	}
	if r.space {
		r.judgeWork(&v)
	}
	return v, r.judge(&v, witness)
}

// torture does harm until the job has ended.
func (r *round) torture(faults map[string]int) error {
	rnd := rand.New(rand.NewPCG(r.seed, 1))
	names := []string{"kill worker", "drain worker", "freeze worker", "cut worker", "kill run", "cut run", "kill broker", "lose disk"}
	if len(r.brokers) > 1 {
		names = append(names, "kill two brokers", "cut broker", "cut leader", "lose all disks")
	}
	if r.kinds != "" {
		names = strings.Split(r.kinds, ",")
	}
	deadline := time.After(r.patience)
	resumed, quick := time.Now(), 0
	for n := 1; ; n++ {
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
		select {
		case <-r.ended(r.job):
			if r.job.ProcessState.ExitCode() == 0 {
				return nil
			}
			if quick++; time.Since(resumed) > 100*time.Millisecond {
				quick = 0
			}
			if quick > 20 { // a broker that is away or just begins is no reason
				return fmt.Errorf("the run ends with %v", r.job.ProcessState)
			}
			time.Sleep(time.Duration(quick) * 50 * time.Millisecond)
			resumed = time.Now()
			if err := r.resume(); err != nil {
				return err
			}
			n--
			continue
		case <-deadline:
			for _, cmd := range append(slices.Clone(r.workers), r.job) { // what they wait for is in their logs then
				_ = cmd.Process.Signal(syscall.SIGCONT)
				_ = cmd.Process.Signal(syscall.SIGABRT)
			}
			time.Sleep(time.Second)
			return errors.New("the job does not end")
		case <-time.After(pause):
		}
		for i, w := range r.workers { // such as one that began while there was no broker
			select {
			case <-r.ended(w):
				if err := r.startWorker(i); err != nil {
					return err
				}
			default:
			}
		}
		if r.most > 0 && n > r.most {
			continue
		}
		faults[fault]++
		if err := r.harm(fault, i, b, length); err != nil {
			return err
		}
	}
}

// harm does one fault, to worker i or broker b. It goes on for a length in the background where it does not end at once.
func (r *round) harm(fault string, i, b int, length time.Duration) error {
	switch w := r.workers[i]; fault {
	case "kill worker":
		r.kill(w)
		return r.startWorker(i)
	case "drain worker":
		_ = w.Process.Signal(syscall.SIGCONT)
		_ = w.Process.Signal(syscall.SIGTERM)
		select {
		case <-r.ended(w):
		case <-time.After(30*time.Second + 5*time.Second): // about 15 s if nobody takes its reports
			return fmt.Errorf("worker %d does not end", i)
		}
		return r.startWorker(i)
	case "freeze worker":
		_ = w.Process.Signal(syscall.SIGSTOP)
		time.AfterFunc(length, func() { _ = w.Process.Signal(syscall.SIGCONT) })
	case "cut worker", "cut run":
		if fault == "cut run" {
			i = workers
		}
		r.cables[i].set(true)
		time.AfterFunc(length, func() { r.cables[i].set(false) })
	case "kill run":
		r.kill(r.job)
		return r.resume()
	case "kill broker":
		return r.restartBrokers(length/4, false, b)
	case "kill two brokers":
		return r.restartBrokers(length/4, false, b, (b+1)%len(r.brokers))
	case "lose disk":
		return r.restartBrokers(0, true, b)
	case "lose all disks":
		return r.restartBrokers(0, true, 0, 1, 2)
	case "cut broker", "cut leader":
		if fault == "cut leader" {
			b = r.leader(b)
		}
		r.cutBroker(b, true) // its clients still reach it
		time.AfterFunc(3*length, func() { r.cutBroker(b, false) })
	default:
		return fmt.Errorf("there is no fault %q", fault)
	}
	return nil
}

func (r *round) resume() error {
	r.cables[workers].set(false)
	args := []string{"resume", "--lease", r.lease}
	if jobs, err := filepath.Glob(filepath.Join(r.dir, "home", "events", "*", "*", "*.jsonl")); err != nil || len(jobs) == 0 { // it was killed before there was one, or its log
		args = []string{"run", filepath.Join(r.dir, "w.yml"), "--lease", r.lease}
	}
	job, err := r.start("job", r.cables[workers].url(), args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.job = job
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
				if settled[rec.ItemID] > 0 {
					v.bad = append(v.bad, key+" was begun after its work was recorded")
				}
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
