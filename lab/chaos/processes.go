//go:build unix

package chaos

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"prodigy/lab/try"
)

// clockVariable names the file with the seconds by which the clock of a process is wrong.
const clockVariable = "PRODIGY_TORTURE_CLOCK"

// clock is the path of that file of a process.
func (r *round) clock(name string) string { return filepath.Join(r.dir, "clock-"+name) }

// setClock has a process be wrong about the time: behind by the skew, ahead by it, or not at all.
func (r *round) setClock(name string) {
	text := strconv.Itoa((r.clocks.IntN(3) - 1) * int(r.skew/time.Second))
	try.Check(os.WriteFile(r.clock(name)+".new", []byte(text), 0o600))
	try.Check(os.Rename(r.clock(name)+".new", r.clock(name)))
}

// build builds what is tortured, unless it is there. With a skew all of its clocks can be wrong: what it tells the time by is another then.
func build(dir string, skew time.Duration) {
	program := filepath.Join(dir, "prodigy")
	if _, err := os.Stat(program); err == nil {
		return
	}
	args := []string{"build", "-o", program}
	if skew > 0 {
		overlay := wrongClock(dir)
		args = append(args, "-overlay", overlay)
	}
	try.Run(exec.Command("go", append(args, "./cmd/prodigy")...))
}

// wrongNow is a file of package time with wrongBy, the seconds by which Now is wrong.
//
//go:embed wrong.go.txt
var wrongNow string

// wrongClock writes a package time whose Now is wrong by as many seconds as the file says that clockVariable names, and returns the overlay that has it. The
// file is read again and again: clocks jump.
func wrongClock(dir string) string {
	root := try.To(exec.Command("go", "env", "GOROOT").Output())
	path := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text := try.To(os.ReadFile(filepath.Join(path, "time.go")))
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	try.FailIf(strings.Count(string(text), reads) != 1, "time.Now of %s does not begin as it should: run with -skew 0", path)
	files := map[string]string{
		"time.go":  strings.Replace(string(text), reads, reads+"\tsec += wrongBy.Load()\n", 1),
		"wrong.go": wrongNow,
	}
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(path, name)] = filepath.Join(dir, name)
		try.Check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	data := try.To(json.Marshal(map[string]any{"Replace": replace}))
	overlay := filepath.Join(dir, "overlay.json")
	try.Check(os.WriteFile(overlay, data, 0o600))
	return overlay
}

// processes returns the command lines of what still runs in the directory of the round a moment after all that was started there was killed.
func (r *round) processes() (left []string) {
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left = nil
		dirs, _ := filepath.Glob("/proc/[0-9]*/cwd") // none where there is no /proc
		for _, link := range dirs {
			if dir, err := os.Readlink(link); err == nil && (dir == r.dir || strings.HasPrefix(dir, r.dir+"/")) {
				line, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
				left = append(left, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
			}
		}
		if len(left) == 0 || time.Now().After(until) {
			return left
		}
	}
}

// weigh prints how much memory each process has, and what the brokers keep.
func (r *round) weigh() {
	var text strings.Builder
	size := func(name string, cmd *try.Process) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		for line := range strings.Lines(string(status)) {
			if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				fmt.Fprintf(&text, "  %s %s", name, strings.TrimSpace(kb))
			}
		}
	}
	for _, u := range r.users {
		size(u.name, u.cmd)
	}
	for i, w := range r.workers {
		size(workerName(i), w)
	}
	for i, n := range r.brokers {
		size(brokerName(i), n.cmd)
	}
	_ = r.ask(func(ctx context.Context, js jetstream.JetStream) {
		for s := range js.ListStreams(ctx).Info() {
			fmt.Fprintf(&text, "  %s %d in %d KB", strings.TrimPrefix(s.Config.Name, "KV_prodigy-"), s.State.Msgs, s.State.Bytes>>10)
		}
	})
	fmt.Printf("  %s%s\n", time.Since(r.began).Round(time.Second), text.String())
}

// fleetDir is what fleet init makes.
func (r *round) fleetDir() string { return filepath.Join(r.dir, "fleet") }

func (r *round) scheme() string {
	if r.secure {
		return "tls://"
	}
	return "nats://"
}

// initFleet makes credentials for all, and lets the lab look at everything at the broker.
func (r *round) initFleet() {
	args := []string{"fleet", "init", r.fleetDir(), "--host", "127.0.0.1"}
	for i := range workers {
		args = append(args, "--worker", workerName(i))
	}
	// Certificates begin to be valid an hour before that. Nobody's clock is to be before it.
	try.Write(r.clock("init"), strconv.Itoa(-int(r.skew/time.Second)))
	cmd := exec.Command(filepath.Join(r.bin, "prodigy"), args...)
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+filepath.Join(r.dir, "home"), clockVariable+"="+r.clock("init"))
	try.Run(cmd)
	r.lab = try.To(nkeys.CreateUser())
	public := try.To(r.lab.PublicKey())
	path := filepath.Join(r.fleetDir(), "broker", "users.conf")
	users := try.To(os.ReadFile(path))
	list, ok := strings.CutSuffix(strings.TrimSpace(string(users)), "]")
	try.FailIf(!ok, "%s does not end with ]", path)
	try.Write(path, list+"  { nkey: "+public+" }\n]\n")
}

// credentials returns the file of the credentials that a command has, or "" if it has no file.
func (r *round) credentials(args []string) string {
	switch {
	case !r.secure || args[0] == "broker":
		return ""
	case args[0] == "worker":
		return filepath.Join(r.fleetDir(), "worker-"+args[2]+".yml")
	}
	return filepath.Join(r.fleetDir(), "coordinator.yml")
}

// asLab returns how the lab connects.
func (r *round) asLab() []nats.Option {
	if !r.secure {
		return nil
	}
	public, _ := r.lab.PublicKey()
	return []nats.Option{nats.Nkey(public, r.lab.Sign), nats.RootCAs(filepath.Join(r.fleetDir(), "broker", "ca.pem"))}
}
