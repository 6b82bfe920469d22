//go:build unix

// Package benchfleet measures fleets on one machine: throughput and CPU beside the local pool, in turns, how many attempts a coordinator dispatches to 1,000
// simulated workers, and its memory. Each number is printed beside its goal. Other work on the machine makes the times worse.
package benchfleet

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Main is the tool.
func Main() error {
	items := flag.Int("items", 2000, "trivial items of a run; the others are fewer")
	pairs := flag.Int("pairs", 5, "how often each is run")
	only := flag.String("only", "", "only `pool`, dispatch or memory")
	million := flag.Int("memory-items", 1_000_000, "items of the job whose coordinator is measured until all are selected and a hundredth has run")
	limit := flag.Duration("limit", 30*time.Minute, "how long it may take")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := run(ctx, *only, *items, *pairs, *million); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not done after %s (-limit): %w", *limit, err)
		}
		return err
	}
	return nil
}

// load is what is run.
type load struct {
	name           string
	items          int
	command        string
	parallel, slot int // slots of the pool, and of each of two workers
}

func run(ctx context.Context, only string, items, pairs, million int) error {
	if only != "" && !slices.Contains([]string{"pool", "dispatch", "memory"}, only) {
		return fmt.Errorf("-only %s: it is one of pool, dispatch and memory", only)
	}
	dir, err := os.MkdirTemp("", "prodigy-bench-fleet-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "prodigy"), "./cmd/prodigy") // as make build does
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	b := bench{ctx: ctx, dir: dir}
	var goals []goal
	if only == "" || only == "pool" {
		fmt.Println("| items | pool ms | fleet ms | with the start | ms an item | the same, fleet | throughput against the pool (each pair) | CPU an item |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
		for _, l := range []load{
			{"trivial, 16 slots", items, "true", 16, 8},
			{"50 ms, 16 slots", items / 4, "sleep 0.05", 16, 8},
			{"trivial, one at a time", items / 4, "true", 1, 1},
		} {
			reached, err := b.compare(l, pairs)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			goals = append(goals, reached...)
		}
	}
	for _, part := range []struct {
		name    string
		measure func() ([]goal, error)
	}{
		{"dispatch", b.dispatch},
		{"memory", func() ([]goal, error) { return b.memory(million) }},
	} {
		if only != "" && only != part.name {
			continue
		}
		reached, err := part.measure()
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		goals = append(goals, reached...)
	}
	printGoals(goals)
	return nil
}

// bench is where all runs are.
type bench struct {
	ctx context.Context
	dir string
}

// goal is a number beside what it should be.
type goal struct {
	what  string
	got   float64
	want  float64
	least bool // it is to be want at least; else at most
}

func printGoals(goals []goal) {
	fmt.Println("\n| number | measured | goal | reached |\n| --- | --- | --- | --- |")
	for _, g := range goals {
		bound, reached := "at most", g.got <= g.want
		if g.least {
			bound, reached = "at least", g.got >= g.want
		}
		word := "no"
		if reached {
			word = "yes"
		}
		fmt.Printf("| %s | %s | %s %s | %s |\n", g.what, number(g.got), bound, number(g.want), word)
	}
}

// number shows three digits or all before the point.
func number(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// took is what a run needed.
type took struct{ wall, cpu time.Duration }

// perItem is what each of n items needed of a run, beside one of a single item.
func (t took) perItem(single took, n int) took {
	return took{(t.wall - single.wall) / time.Duration(n-1), (t.cpu - single.cpu) / time.Duration(n-1)}
}

// compare runs pairs and prints a row of the table. The CPU of a fleet is that of all its processes, from their beginning to their end. What an item
// needs is found by running a single one as well: the start of a job, and of a fleet, is no part of it.
func (b bench) compare(l load, pairs int) ([]goal, error) {
	single := l
	single.items = 1
	var ratios []string
	var pool, fleet, poolItem, fleetItem []took
	for range pairs {
		p, err := b.once(l)
		if err != nil {
			return nil, err
		}
		p1, err := b.once(single)
		if err != nil {
			return nil, err
		}
		f, err := b.onFleet(l)
		if err != nil {
			return nil, err
		}
		f1, err := b.onFleet(single)
		if err != nil {
			return nil, err
		}
		pi, fi := p.perItem(p1, l.items), f.perItem(f1, l.items)
		pool, fleet, poolItem, fleetItem = append(pool, p), append(fleet, f), append(poolItem, pi), append(fleetItem, fi)
		ratios = append(ratios, fmt.Sprintf("%.2f", float64(pi.wall)/float64(fi.wall)))
	}
	p, f, pi, fi := median(pool), median(fleet), median(poolItem), median(fleetItem)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }
	fmt.Printf("| %d %s | %d | %d | %.2f | %s | %s | %.2f (%s) | %s of %s ms: %.2f |\n", l.items, l.name, p.wall.Milliseconds(), f.wall.Milliseconds(),
		float64(p.wall)/float64(f.wall), ms(pi.wall), ms(fi.wall), float64(pi.wall)/float64(fi.wall), strings.Join(ratios, " "), ms(fi.cpu), ms(pi.cpu), float64(fi.cpu)/float64(pi.cpu))
	share := float64(pi.wall) / float64(fi.wall)
	switch {
	case l.parallel == 1:
		return []goal{{"one at a time: ms an item", fi.wall.Seconds() * 1000, 1.8, false}}, nil
	case l.command == "true":
		return []goal{{"trivial items: throughput against the pool", share, 0.8, true}, {"trivial items: CPU an item against the pool", float64(fi.cpu) / float64(pi.cpu), 1.35, false}}, nil
	}
	return []goal{{"items of 50 ms: throughput against the pool", share, 0.97, true}}, nil
}

func median(list []took) took {
	of := func(value func(took) time.Duration) time.Duration {
		var values []time.Duration
		for _, t := range list {
			values = append(values, value(t))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return took{of(func(t took) time.Duration { return t.wall }), of(func(t took) time.Duration { return t.cpu })}
}

// once runs the items, on the fleet if flags name one.
func (b bench) once(l load, flags ...string) (took, error) {
	text := fmt.Sprintf("mode: mapreduce\nmap:\n  max_parallel: %d\n  input: {command: \"seq 1 %d\"}\n  agent_template: [{shell: \"%s\"}]\n", l.parallel, l.items, l.command)
	if err := os.WriteFile(filepath.Join(b.dir, "w.yml"), []byte(text), 0o600); err != nil {
		return took{}, err
	}
	cmd := b.command(append([]string{"run", "w.yml"}, flags...)...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	wall := time.Since(began)
	if want := fmt.Sprintf("%d of %d items succeeded", l.items, l.items); err == nil && !strings.Contains(string(out), want) {
		err = errors.New("not all items have succeeded")
	}
	if err != nil {
		return took{}, fmt.Errorf("%w: %s", err, out)
	}
	return took{wall, cpuOf(cmd)}, nil
}

func (b bench) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.ctx, filepath.Join(b.dir, "prodigy"), args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+filepath.Join(b.dir, "home"), "PRODIGY_FLEET=", "GOGC=")
	return cmd
}

func cpuOf(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// onFleet runs the items on a fleet that is made for them.
func (b bench) onFleet(l load) (t took, err error) {
	f, err := b.newFleet(2, l.slot)
	defer func() { t.cpu += f.stop() }()
	if err != nil {
		return t, err
	}
	first := l
	first.items = 1
	if _, err := b.once(first, "--fleet", f.url); err != nil { // which has the broker make its streams
		return t, err
	}
	return b.once(l, "--fleet", f.url)
}

// fleet is a broker with workers.
type fleet struct {
	bench
	url string
	all []*exec.Cmd
}

func (b bench) newFleet(workers, slots int) (*fleet, error) {
	f := &fleet{bench: b}
	store, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return f, err
	}
	// A run that is weighed has a home of its own.
	if f.url, err = f.start("--join", "broker", "--listen", "127.0.0.1:0", "--store", store, "--insecure"); err != nil {
		return f, err
	}
	for i := range workers {
		if _, err := f.start("takes attempts", "worker", "--join", f.url, "--name", fmt.Sprint("w", i), "--slots", fmt.Sprint(slots)); err != nil {
			return f, err
		}
	}
	return f, nil
}

// start starts a program and returns what follows a word that it says when it is ready.
func (f *fleet) start(word string, args ...string) (string, error) {
	cmd := f.command(args...)
	said, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	f.all = append(f.all, cmd)
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), word); ok {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("%v does not start", args)
}

// stop ends all of it and returns what CPU it has taken.
func (f *fleet) stop() (cpu time.Duration) {
	slices.Reverse(f.all) // the broker last
	for _, cmd := range f.all {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		cpu += cpuOf(cmd)
	}
	return cpu
}
