//go:build unix

package chaos

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"prodigy/lab/try"
)

// user runs jobs on the fleet, one after the other.
type user struct {
	name  string // of the log and the clock of the run
	dir   string
	cable cable
	jobs  []*job
	turn  int          // index of the job that runs; the number of jobs: all have ended
	cmd   *try.Process // run or resume
	since time.Time    // when cmd was started
	quick int          // how often in a row it has ended at once
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

// workflow is that of a job, and script what an item does. It starts no other programs, since rounds are not to be short of processors,
// but for each eighth item.
var (
	//go:embed w.yml.tmpl
	workflow string
	//go:embed item.sh.tmpl
	script string
)

// makeUsers makes the users with their jobs, and all that these need. Of several jobs each second one has its files sent; of the others some have stragglers.
func (r *round) makeUsers() {
	for i := range r.jobs {
		u := &user{name: "run" + strconv.Itoa(i), dir: filepath.Join(r.dir, "user"+strconv.Itoa(i))}
		try.Check(os.MkdirAll(u.dir, 0o700))
		r.users = append(r.users, u)
		if r.space {
			r.makeRepository(u)
		}
		for turn := range r.after {
			j := &job{name: fmt.Sprintf("torture-%d-%d", i, turn), dir: filepath.Join(u.dir, strconv.Itoa(turn)), files: (i+turn)%2 == 1, space: r.space && (i+turn)%2 == 0}
			j.slow = !j.files && !r.space && r.every == 0 && (int(r.seed/4)+i+turn)%2 == 0
			if j.cwd = j.dir; j.space {
				j.cwd = u.repository()
			}
			u.jobs = append(u.jobs, j)
			r.makeJob(j)
		}
	}
}

func (r *round) makeJob(j *job) {
	try.Check(os.MkdirAll(filepath.Join(j.dir, "witness"), 0o700))
	silent := filepath.Join(r.dir, "silent")
	if err := syscall.Mkfifo(silent, 0o600); err != nil && !os.IsExist(err) {
		try.Check(err)
		return
	}
	path := filepath.Join(j.dir, "item.sh")
	if j.files {
		path = "item.sh"
	}
	data := map[string]any{
		"name": j.name, "items": r.items, "script": path, "space": j.space, "files": j.files, "slow": j.slow, "soak": r.every > 0,
		"order": [...]string{"completion", "items"}[r.seed%2], "witness": filepath.Join(j.dir, "witness"), "silent": silent, "beat": r.beat.Seconds(),
	}
	for name, text := range map[string]string{"item.sh": try.Fill(script, data), "w.yml": try.Fill(workflow, data), "data": "the data of " + j.name + "\n"} {
		try.Write(filepath.Join(j.dir, name), text)
	}
}

// begin begins the job of a user whose turn it is.
func (r *round) begin(u *user) {
	j := u.jobs[u.turn]
	r.startRun(u, j, "run", filepath.Join(j.dir, "w.yml"), "--lease", r.lease, "--grace", stopGrace.String())
}

// resume goes on with that job. One that was killed before it had a log begins anew.
func (r *round) resume(u *user) {
	u.cable.set(false)
	j := u.jobs[u.turn]
	id, _ := u.log(j)
	if id == "" {
		r.begin(u)
		return
	}
	r.startRun(u, j, "resume", id, "--lease", r.lease, "--grace", stopGrace.String())
}

func (r *round) startRun(u *user, j *job, args ...string) {
	u.cmd, u.since = r.start(u.name, j.cwd, u.home(), r.url(u.cable), args...), time.Now()
}

// goOn looks after the run of a user: one that has ended well is followed by the next, and another is resumed. It reports false when all have ended.
func (r *round) goOn(u *user) bool {
	if u.turn == len(u.jobs) {
		return false
	}
	if !u.cmd.Ended() {
		return true
	}
	if u.cmd.ProcessState.ExitCode() == 0 {
		u.jobs[u.turn].took = time.Since(r.began)
		if u.turn++; u.turn == len(u.jobs) {
			return false
		}
		if r.after > 4 {
			r.weigh()
		}
		u.cable.set(false)
		r.begin(u)
		return true
	}
	if u.quick++; time.Since(u.since) > 100*time.Millisecond {
		u.quick = 0
	}
	if u.quick > 20 { // a broker that is away or just begins is no reason
		try.Failf("%s ends with %v", u.name, u.cmd.ProcessState)
	}
	time.Sleep(time.Duration(u.quick) * 50 * time.Millisecond)
	r.resume(u)
	return true
}

// log returns the id of a job and the files of its log; nothing while it has none.
func (u *user) log(j *job) (id string, files []string) {
	for _, path := range try.To(filepath.Glob(filepath.Join(u.home(), "events", "*", "*", "*.jsonl"))) {
		line, _, _ := bytes.Cut(try.To(os.ReadFile(path)), []byte("\n"))
		var first struct{ Type, Workflow string }
		if json.Unmarshal(line, &first) == nil && first.Type == "JobStarted" && first.Workflow == j.name {
			dir := filepath.Dir(path)
			return filepath.Base(dir), try.To(filepath.Glob(filepath.Join(dir, "*.jsonl")))
		}
	}
	return "", nil
}
