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

	"prodigy/lab/try"
)

// Main is the tool.
func Main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "a fraction of the work, in less than a minute")
	flag.IntVar(&o.rounds, "rounds", 7, "runs of each contestant")
	only := flag.String("only", "", "only contests whose name matches this regular expression")
	out := flag.String("out", "", "write the table into this file as Markdown as well")
	role := flag.String("role", "", "be a part of the bench that is a process of its own: oj, select or past")
	flag.Parse()
	start(o, *only, *out, *role)
}

type options struct {
	quick  bool
	rounds int
	only   *regexp.Regexp
}

func start(o options, only, out, role string) {
	if role != "" {
		play(role, flag.Args())
		return
	}
	o.only = try.To(regexp.Compile(only))
	if o.quick {
		o.rounds = min(o.rounds, 3)
	}
	table := bench(o)
	fmt.Println(table.text())
	if out == "" {
		return
	}
	try.Write(out, table.markdown(machine(), time.Now()))
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
	hold  func(*stage)
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

func bench(o options) table {
	dir := try.To(os.MkdirTemp("", "prodigy-bench-"))
	defer func() { _ = os.RemoveAll(dir) }()
	s := &stage{options: o, dir: dir}
	s.build()
	for _, c := range contests {
		if !o.only.MatchString(c.name) || c.apart && o.only.String() == "" {
			continue
		}
		fmt.Fprintln(os.Stderr, "bench:", c.name)
		try.In(c.name, func() { c.hold(s) })
	}
	return s.table
}

// build builds prodigy, and a program that does nothing.
func (s *stage) build() {
	s.prodigy = filepath.Join(s.dir, "prodigy")
	build := command("go", "build", "-trimpath", "-ldflags", "-s -w -X prodigy/internal/cli.version=bench", "-o", s.prodigy, "./cmd/prodigy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	try.Checkf(build.Run(), "build prodigy")
	install(s.prodigy)
	s.self = try.To(os.Executable())
	s.noop = buildNoop(s.dir)
}

// install writes a program anew, as installing it does. What the linker wrote is in memory in smaller pieces, and starts slower.
func install(path string) {
	program := try.To(os.ReadFile(path))
	try.Check(os.Remove(path))
	try.Check(os.WriteFile(path, program, 0o700))
}

// write writes a file of the stage and returns its path.
func (s *stage) write(name, text string) string {
	path := filepath.Join(s.dir, name)
	try.Write(path, text)
	return path
}

// scale returns n, or a fraction of it when the bench is to be quick.
func (s *stage) scale(n, quick int) int {
	if s.quick {
		return quick
	}
	return n
}
