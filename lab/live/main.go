// Package live runs the real AI coding CLIs through prodigy, against a server on this machine that plays the failures of their services. It
// installs the newest versions and prints a table of what prodigy makes of each situation, so that one sees when a CLI has changed. What cannot be
// installed is skipped with a line.
package live

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/lab/try"
)

//go:embed mock.py
var mock string

//go:embed clis.yml
var data []byte

// tables is what the data has: its comments say more.
type tables struct {
	CLIs       []cli
	Situations []struct {
		Name string
		Want []string
	}
	Untold []string
}

// cli is how a CLI is installed and pointed to the server.
type cli struct {
	Name, NPM, Pip string
	Args           []string
	Env, Home      map[string]string
}

type options struct {
	dir, only, situations, prodigy string
	stall                          time.Duration
	inside                         bool
}

// Main is the tool.
func Main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "install into this directory, and keep it (default: a temporary one)")
	flag.StringVar(&o.only, "cli", "", "only these CLIs, with commas between them")
	flag.StringVar(&o.situations, "situations", "ok,tool_edit,401,empty,hang", "what the server plays, with commas between; or all")
	flag.DurationVar(&o.stall, "stall", 2*time.Minute, "stall_timeout of the agents")
	flag.BoolVar(&o.inside, "inside", false, "for itself: the network is closed")
	flag.StringVar(&o.prodigy, "prodigy", "", "for itself")
	flag.Parse()
	try.FailIf(!run(o), "an outcome is not as expected")
}

func run(o options) (right bool) {
	if o.inside {
		return play(o)
	}
	if o.dir == "" {
		o.dir = try.To(os.MkdirTemp("", "prodigy-live-"))
		defer func() { _ = os.RemoveAll(o.dir) }()
	}
	o.dir = try.To(filepath.Abs(o.dir))
	if _, err := exec.LookPath("python3"); err != nil {
		fmt.Println("skipped: there is no python3, which plays the services")
		return true
	}
	found := false
	for _, c := range readTables().CLIs {
		if o.wants(c.Name) && c.install(o.dir) {
			found = true
		}
	}
	if !found {
		fmt.Println("skipped: none of the CLIs can be installed")
		return true
	}
	o.prodigy = filepath.Join(o.dir, "prodigy")
	try.Run(exec.Command("go", "build", "-o", o.prodigy, "./cmd/prodigy"))
	args := []string{"live", "-inside", "-dir", o.dir, "-cli", o.only, "-situations", o.situations, "-stall", o.stall.String(), "-prodigy", o.prodigy}
	self := try.To(os.Executable())
	// In a network of its own nothing can leave the machine, whatever a CLI calls home for.
	command := []string{"unshare", "--net", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", self}
	if exec.Command("unshare", "--net", "ip", "link", "set", "lo", "up").Run() != nil {
		fmt.Println("the network cannot be closed here: the CLIs may call home")
		command = []string{self}
	}
	c := exec.Command(command[0], append(command[1:], args...)...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	err := c.Run()
	if c.ProcessState != nil && c.ProcessState.ExitCode() == 1 {
		return false
	}
	try.Check(err)
	return true
}

func readTables() (known tables) {
	try.Check(yaml.Unmarshal(data, &known))
	return known
}

// inJSON returns a value as YAML can read it.
func inJSON(v any) string { return string(try.To(json.Marshal(v))) }

func (o options) wants(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

// path returns where a CLI is installed.
func (c cli) path(dir string) string {
	if c.NPM != "" {
		return filepath.Join(dir, "npm", "node_modules", ".bin", c.Name)
	}
	return filepath.Join(dir, "venv", "bin", c.Name)
}

// install installs a CLI unless it is there. It reports false, and says so, when that cannot be done.
func (c cli) install(dir string) bool {
	if _, err := os.Stat(c.path(dir)); err == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	commands := [][]string{{"npm", "install", "--prefix", filepath.Join(dir, "npm"), "--no-fund", "--no-audit", "--loglevel=error", c.NPM}}
	if c.NPM == "" {
		venv := filepath.Join(dir, "venv")
		commands = [][]string{{"python3", "-m", "venv", venv}, {filepath.Join(venv, "bin", "pip"), "install", "--quiet", c.Pip}}
	}
	for _, argv := range commands {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			last := strings.TrimSpace(string(out))
			fmt.Printf("skipped: %s cannot be installed: %v %s\n", c.Name, err, last[strings.LastIndexByte(last, '\n')+1:])
			return false
		}
	}
	return true
}

// play runs the situations, and prints the table.
func play(o options) (right bool) {
	base, stop := serve(o.dir)
	defer stop()
	wanted := strings.Split(o.situations, ",")
	right = true
	fmt.Println("| CLI | situation | outcome | rule | took |\n| --- | --- | --- | --- | --- |")
	known := readTables()
	for _, c := range known.CLIs {
		if _, err := os.Stat(c.path(o.dir)); err != nil || !o.wants(c.Name) {
			continue
		}
		version := c.version(o.dir)
		for _, s := range known.Situations {
			if o.situations != "all" && !slices.Contains(wanted, s.Name) {
				continue
			}
			began := time.Now()
			outcome, rule := c.try(o, base, s.Name)
			mark := ""
			if !slices.Contains(s.Want, outcome) {
				if mark = " (cannot be told)"; outcome != "success" || !slices.Contains(known.Untold, c.Name+" "+s.Name) {
					mark, right = " **want "+strings.Join(s.Want, " or ")+"**", false
				}
			}
			fmt.Printf("| %s %s | %s | %s%s | %s | %.0f s |\n", c.Name, version, s.Name, outcome, mark, rule, time.Since(began).Seconds())
		}
	}
	return right
}

// serve starts the server, and returns its address.
func serve(dir string) (base string, stop func()) {
	free := try.To(net.Listen("tcp", "127.0.0.1:0"))
	address := free.Addr().String()
	try.Check(free.Close())
	script := filepath.Join(dir, "mock.py")
	try.Write(script, mock)
	_, port, _ := net.SplitHostPort(address)
	c := exec.Command("python3", script, port)
	c.Dir = dir
	try.Check(c.Start())
	stop = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	for range 100 {
		if conn, err := net.Dial("tcp", address); err == nil {
			try.Check(conn.Close())
			return "http://" + address, stop
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	try.Failf("the server does not listen at %s", address)
	return "", nil
}

func (c cli) version(dir string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path(dir), "--version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, _ := cmd.Output()
	for word := range strings.FieldsSeq(string(out)) {
		if _, err := strconv.Atoi(word[:1]); err == nil {
			return word
		}
	}
	return "?"
}

// try runs one CLI in one situation as a job, and returns what the log says of it.
func (c cli) try(o options, base, situation string) (outcome, rule string) {
	work := filepath.Join(o.dir, "work", c.Name+"."+situation)
	try.Check(os.RemoveAll(work))
	home := filepath.Join(work, "home")
	address := base + "/s/" + situation + "/" + c.Name + "." + strconv.FormatInt(time.Now().UnixNano(), 36)
	for name, text := range c.Home {
		try.Write(filepath.Join(home, name), strings.ReplaceAll(text, "@BASE@", address))
	}
	try.Check(os.MkdirAll(home, 0o700))
	workflow := fmt.Sprintf(`agents: {%[1]s: {args: %[2]s}}
map:
  input: [1]
  agent_template:
    - agent: {use: %[1]s, prompt: "Answer the question of life.", may: edit, stall_timeout: %[4]s}
      env: %[3]s
      timeout: 6m
error_policy: {quota: {on_quota: fail}}
`, c.Name, inJSON(c.Args), strings.ReplaceAll(inJSON(c.Env), "@BASE@", address), o.stall)
	try.Write(filepath.Join(work, "job.yml"), workflow)
	env := []string{
		"PATH=" + filepath.Dir(c.path(o.dir)) + ":" + os.Getenv("PATH"), "HOME=" + home, "PRODIGY_HOME=" + filepath.Join(work, "prodigy"), "LANG=C.UTF-8",
		"TERM=dumb", "TMPDIR=" + work,
	}
	prodigy := func(args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, o.prodigy, args...)
		cmd.Dir, cmd.Env = work, env
		return cmd.Output()
	}
	_, _ = prodigy("run", "--grace", "3s", "job.yml") // most of them are to fail
	out, err := prodigy("events", "ls", "--event-type", "AgentUsage", "--output", "jsonl")
	try.Checkf(err, "read its events")
	for line := range bytes.Lines(out) {
		var e struct{ Outcome, Rule string }
		if err := json.Unmarshal(line, &e); err == nil {
			outcome, rule = e.Outcome, e.Rule
		}
	}
	if outcome == "" {
		outcome = "(no record)"
	}
	return outcome, rule
}
