//go:build unix

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// user runs jobs on the fleet, one after the other.
type user struct {
	name  string // of the log and the clock of the run
	dir   string
	cable cable
	jobs  []*job
	turn  int       // index of the job that runs; the number of jobs: all have ended
	cmd   *exec.Cmd // run or resume
	since time.Time // when cmd was started
	quick int       // how often in a row it has ended at once
}

func (u *user) home() string { return filepath.Join(u.dir, "home") }

// job is a job of a user.
type job struct {
	name  string // of the workflow
	dir   string
	cwd   string // of prodigy
	space bool   // items have workspaces
	files bool   // commands have no directory in common with the run: files are sent, and come back
	slow  bool   // the first attempts at some items take long, and are stopped and tried again; the step has a rate
	took  time.Duration
}

const workflow = `name: NAME
mode: mapreduce
map:
  max_parallel: 24
  input: {command: "seq 1 ITEMS"}
  agent_template:
    - shell: exec bash SCRIPT "${item}"
      retry_config: {attempts: 3, initial_delay: 10ms}
`

// script is what an item does. It starts no other programs, since rounds are not to be short of processors, but for each eighth item.
const script = `i=$1
id="$PRODIGY_JOB_ID $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT $$"
exec 9<>SILENT
pause() { if [ $((i % 8)) = 0 ]; then sleep BEAT; else read -rt BEAT -u 9; fi; }
beats=BEATS
n=0
while [ $n -lt $beats ]; do
  echo "$id ${EPOCHREALTIME/[.,]/}000" >>WITNESS/$PRODIGY_ITEM_ID
  pause
  n=$((n+1))
done
echo "NAME $i"
`

// Most items take less than a moment, some longer than a lease.
const mixed = `$((1 + i * 7 % 8))
case $i in *33|*66) beats=60;; *50) beats=100;; esac`

// made is what an item does besides where files are sent.
const made = `[ -d out ] || mkdir -p out
echo "NAME $i $(<data)" >"$PRODIGY_PRODUCES"
`

// slowly is how long the first attempts at some items take where stragglers are stopped. Later ones are none.
const slowly = `case $PRODIGY_ATTEMPT.$((i % 25)) in 1.7) beats=240;; 1.*) ;; *) beats=1;; esac
`

// makeUsers makes the users with their jobs, and all that these need. Of several jobs each second one has its files sent; of the others some have stragglers.
func (r *round) makeUsers() error {
	for i := range r.jobs {
		u := &user{name: "run" + strconv.Itoa(i), dir: filepath.Join(r.dir, "user"+strconv.Itoa(i))}
		if err := os.MkdirAll(u.dir, 0o700); err != nil {
			return err
		}
		r.users = append(r.users, u)
		if r.space {
			if err := r.makeRepository(u); err != nil {
				return err
			}
		}
		for turn := range r.after {
			j := &job{name: fmt.Sprintf("torture-%d-%d", i, turn), dir: filepath.Join(u.dir, strconv.Itoa(turn)), files: (i+turn)%2 == 1, space: r.space && (i+turn)%2 == 0}
			j.slow = !j.files && !r.space && r.every == 0 && (int(r.seed/4)+i+turn)%2 == 0
			if j.cwd = j.dir; j.space {
				j.cwd = u.repository()
			}
			u.jobs = append(u.jobs, j)
			if err := r.makeJob(j); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *round) makeJob(j *job) error {
	if err := os.MkdirAll(filepath.Join(j.dir, "witness"), 0o700); err != nil {
		return err
	}
	silent := filepath.Join(r.dir, "silent")
	if err := syscall.Mkfifo(silent, 0o600); err != nil && !os.IsExist(err) {
		return err
	}
	flow, does, path := workflow, script, filepath.Join(j.dir, "item.sh")
	switch {
	case j.space:
		flow, does = withWorkspaces(flow, does, r.seed)
	case j.files:
		flow = strings.Replace(flow, "map:\n", "map:\n  files: [item.sh, data]\n  produces: out/${item}\n", 1)
		does, path = does+made, "item.sh"
	case j.slow:
		flow = strings.Replace(flow, "map:\n", "map:\n  straggler: {after: 1s, stop: true}\n", 1)
		flow += "      rate: 100/s\nerror_policy: {retry_config: {attempts: 9, initial_delay: 100ms}}\n"
		does = strings.Replace(does, "n=0\n", slowly+"n=0\n", 1)
	}
	replace := strings.NewReplacer("NAME", j.name, "ITEMS", strconv.Itoa(r.items), "WITNESS", filepath.Join(j.dir, "witness"), "SILENT", silent, "SCRIPT", path,
		"BEATS", r.beats, "BEAT", fmt.Sprint(r.beat.Seconds()))
	for name, text := range map[string]string{"item.sh": replace.Replace(does), "w.yml": replace.Replace(flow), "data": "the data of " + j.name + "\n"} {
		if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// begin begins the job of a user whose turn it is.
func (r *round) begin(u *user) error {
	j := u.jobs[u.turn]
	return r.startRun(u, j, "run", filepath.Join(j.dir, "w.yml"), "--lease", r.lease, "--grace", stopGrace.String())
}

// resume goes on with that job. One that was killed before it had a log begins anew.
func (r *round) resume(u *user) error {
	u.cable.set(false)
	j := u.jobs[u.turn]
	id, _, err := u.log(j)
	if err != nil {
		return err
	}
	if id == "" {
		return r.begin(u)
	}
	return r.startRun(u, j, "resume", id, "--lease", r.lease, "--grace", stopGrace.String())
}

func (r *round) startRun(u *user, j *job, args ...string) error {
	cmd, err := r.start(u.name, j.cwd, u.home(), r.url(u.cable), args...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	u.cmd, u.since = cmd, time.Now()
	return nil
}

// goOn looks after the run of a user: one that has ended well is followed by the next, and another is resumed. It reports false when all have ended.
func (r *round) goOn(u *user) (bool, error) {
	if u.turn == len(u.jobs) {
		return false, nil
	}
	select {
	case <-r.ended(u.cmd):
	default:
		return true, nil
	}
	if u.cmd.ProcessState.ExitCode() == 0 {
		u.jobs[u.turn].took = time.Since(r.began)
		if u.turn++; u.turn == len(u.jobs) {
			return false, nil
		}
		if r.after > 4 {
			r.weighOnce()
		}
		u.cable.set(false)
		return true, r.begin(u)
	}
	if u.quick++; time.Since(u.since) > 100*time.Millisecond {
		u.quick = 0
	}
	if u.quick > 20 { // a broker that is away or just begins is no reason
		return false, fmt.Errorf("%s ends with %v", u.name, u.cmd.ProcessState)
	}
	time.Sleep(time.Duration(u.quick) * 50 * time.Millisecond)
	return true, r.resume(u)
}

// log returns the id of a job and the files of its log; nothing while it has none.
func (u *user) log(j *job) (id string, files []string, err error) {
	dirs, err := filepath.Glob(filepath.Join(u.home(), "events", "*", "*"))
	if err != nil {
		return "", nil, err
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
		if err != nil {
			return "", nil, err
		}
		for _, path := range files {
			f, err := os.Open(path)
			if err != nil {
				return "", nil, err
			}
			line, _ := bufio.NewReader(f).ReadBytes('\n')
			_ = f.Close()
			var first struct{ Type, Workflow string }
			if json.Unmarshal(line, &first) == nil && first.Type == "JobStarted" && first.Workflow == j.name {
				return filepath.Base(dir), files, nil
			}
		}
	}
	return "", nil, nil
}
