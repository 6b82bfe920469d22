//go:build unix

// Package bench holds prodigy against the tools that people use for the same, and against its goals. All runs of a contest are made in turn, so
// that whatever else the machine does falls on all of them; what is told is the median of the ratios, which depends on the
// machine far less than the times do.
package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Main is the tool.
func Main() error {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "a fraction of the work, in less than a minute")
	flag.IntVar(&o.rounds, "rounds", 7, "runs of each contestant")
	only := flag.String("only", "", "only contests whose name matches this regular expression")
	out := flag.String("out", "", "write the table into this file as Markdown as well")
	role := flag.String("role", "", "be a part of the bench that is a process of its own: oj, select or past")
	flag.Parse()
	return start(o, *only, *out, *role)
}

type options struct {
	quick  bool
	rounds int
	only   *regexp.Regexp
}

func start(o options, only, out, role string) error {
	if role != "" {
		return play(role, flag.Args())
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return err
	}
	if o.quick {
		o.rounds = min(o.rounds, 3)
	}
	table, err := bench(o)
	if err != nil {
		return err
	}
	fmt.Println(table.text())
	if out == "" {
		return nil
	}
	return os.WriteFile(out, []byte(table.markdown(machine(), time.Now())), 0o644)
}

// stage is where the contests are held.
type stage struct {
	options
	dir     string // for all files
	prodigy string // the programs
	noop    string
	self    string
	table   table
}

// contest is a group of rows that are measured together.
type contest struct {
	name  string
	hold  func(*stage) error
	apart bool // it is held only when -only names it, and is not in the table of docs/benchmarks.md
}

var contests = []contest{
	{name: "start-up", hold: startUp},
	{name: "items", hold: manySlots},
	{name: "slots", hold: fewAndMany},
	{name: "select", hold: selecting},
	{name: "first agent", hold: firstAgent},
	{name: "events", hold: readEvents},
	{name: "resume", hold: resuming},
	{name: "memory", hold: flatMemory},
	{name: "outputs", hold: keptOutputs},
	{name: "fleet pool", hold: fleetItems, apart: true},
	{name: "fleet dispatch", hold: fleetDispatch, apart: true},
	{name: "fleet resident", hold: fleetMemory, apart: true},
}

func bench(o options) (table, error) {
	dir, err := os.MkdirTemp("", "prodigy-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &stage{options: o, dir: dir}
	if err := s.build(); err != nil {
		return nil, err
	}
	for _, c := range contests {
		if !o.only.MatchString(c.name) || c.apart && o.only.String() == "" {
			continue
		}
		fmt.Fprintln(os.Stderr, "bench:", c.name)
		if err := c.hold(s); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return s.table, nil
}

// build builds prodigy, and a program that does nothing.
func (s *stage) build() error {
	s.prodigy = filepath.Join(s.dir, "prodigy")
	build := command("go", "build", "-trimpath", "-ldflags", "-s -w -X prodigy/internal/cli.version=bench", "-o", s.prodigy, "./cmd/prodigy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	if err := build.Run(); err != nil {
		return fmt.Errorf("build prodigy: %w", err)
	}
	if err := install(s.prodigy); err != nil {
		return err
	}
	var err error
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	s.noop, err = buildNoop(s.dir)
	return err
}

// install writes a program anew, as installing it does. What the linker wrote is in memory in smaller pieces, and starts slower.
func install(path string) error {
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o700)
}

// write writes a file of the stage and returns its path.
func (s *stage) write(name, text string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// scale returns n, or a fraction of it when the bench is to be quick.
func (s *stage) scale(n, quick int) int {
	if s.quick {
		return quick
	}
	return n
}
