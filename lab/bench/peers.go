//go:build unix

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"prodigy/lab/try"
)

// job runs a workflow of n items, each of which is step, in slots.
func (s *stage) job(name, step string, n, slots int, flags ...string) contestant {
	return s.jobWith("", name, step, n, slots, flags...)
}

// jobWith is job with other keys of the workflow, a line each.
func (s *stage) jobWith(keys, name, step string, n, slots int, flags ...string) contestant {
	dir := filepath.Join(s.dir, "of "+name)
	input, file, home := filepath.Join(dir, "items.txt"), filepath.Join(dir, "workflow.yml"), filepath.Join(dir, "home")
	text := fmt.Sprintf("name: bench\n%smap:\n  input: {file: %q}\n  max_parallel: %d\n  agent_template:\n    - shell: %q\n", keys, input, slots, step)
	try.Write(input, numbers(n).String())
	try.Write(file, text)
	run := func() *exec.Cmd {
		cmd := command(s.prodigy, append([]string{"run", "--quiet", file}, flags...)...)
		cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home)
		return cmd
	}
	return contestant{name: name, items: n, command: run, after: func() { try.Check(os.RemoveAll(home)) }}
}

func xargs(n, slots int, argv ...string) contestant {
	list := numbers(n).Bytes()
	return contestant{name: "xargs", items: n, command: func() *exec.Cmd {
		cmd := command("xargs", append([]string{"-P" + strconv.Itoa(slots), "-n1"}, argv...)...)
		cmd.Stdin = strings.NewReader(string(list))
		return cmd
	}}
}

// peer is another tool that runs n items in slots.
type peer struct {
	name  string
	share int // of the items: a slow one gets fewer
	must  float64
	aim   float64
	enter func(s *stage, n, slots int) *exec.Cmd // the command can be started once; made anew for each run
}

var peers = []peer{
	{"parallel", 5, 5, 6, parallel},
	{"rush", 1, 1.3, 1.4, rush},
	{"ninja", 1, 0.9, 1, ninja},
	{"make", 1, 0, 0, gnuMake},
}

// invited returns the peers that are there, as contestants, and a row for each that is not.
func (s *stage) invited(n, slots int) ([]contestant, []row) {
	var all []contestant
	var missing []row
	for _, p := range peers {
		count := max(1, n/p.share)
		if err := try.Catch(func() { p.enter(s, count, slots) }); err != nil {
			missing = append(missing, row{what: "throughput against " + p.name, must: p.must, aim: p.aim, skipped: err.Error()})
			continue
		}
		all = append(all, contestant{name: p.name, items: count, command: func() *exec.Cmd { return p.enter(s, count, slots) }})
	}
	return all, missing
}

func parallel(s *stage, n, slots int) *exec.Cmd {
	_ = try.To(exec.LookPath("parallel"))
	cmd := exec.Command("parallel", "--joblog", filepath.Join(s.dir, "joblog"), "-j"+strconv.Itoa(slots), "true {}")
	cmd.Stdin = numbers(n)
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh")
	return cmd
}

const rushModule = "github.com/shenwei356/rush@v0.7.0"

// rush is built from the module proxy.
func rush(s *stage, n, slots int) *exec.Cmd {
	program := filepath.Join(s.dir, "rush")
	if _, err := os.Stat(program); err != nil {
		install := exec.Command("go", "install", rushModule)
		install.Dir = s.dir
		install.Env = append(os.Environ(), "GOBIN="+s.dir)
		try.Checkf(install.Run(), "rush cannot be built")
	}
	cmd := exec.Command(program, "-j", strconv.Itoa(slots), "true {}")
	cmd.Stdin = numbers(n)
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh")
	return cmd
}

func ninja(s *stage, n, slots int) *exec.Cmd {
	_ = try.To(exec.LookPath("ninja"))
	var b strings.Builder
	b.WriteString("rule t\n  command = true $out\n")
	for i := range n {
		fmt.Fprintf(&b, "build i%d: t\n", i)
	}
	file := s.write("build.ninja", b.String())
	try.Check(os.RemoveAll(filepath.Join(s.dir, ".ninja_log")))
	cmd := exec.Command("ninja", "-j", strconv.Itoa(slots), "-f", file, "--quiet")
	cmd.Dir = s.dir
	return cmd
}

func gnuMake(s *stage, n, slots int) *exec.Cmd {
	_ = try.To(exec.LookPath("make"))
	var b strings.Builder
	b.WriteString("all:")
	for i := range n {
		fmt.Fprintf(&b, " i%d", i)
	}
	b.WriteString("\n.PHONY: all\n")
	for i := range n {
		fmt.Fprintf(&b, "i%d:\n\t@true %d;\n", i, i) // the semicolon makes it ask the shell
	}
	file := s.write("Makefile", b.String())
	cmd := exec.Command("make", "-s", "-j"+strconv.Itoa(slots), "-f", file)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	return cmd
}
