//go:build unix

// Command fleet runs the same items in the local pool and on a fleet of two workers, in turns on one machine, and prints how they compare.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	items := flag.Int("items", 2000, "trivial items of a run; the others are fewer")
	pairs := flag.Int("pairs", 5, "how often each is run")
	flag.Parse()
	if err := run(*items, *pairs); err != nil {
		log.Fatal(err)
	}
}

// load is what is run.
type load struct {
	name           string
	items          int
	command        string
	parallel, slot int // slots of the pool, and of each of two workers
}

func run(items, pairs int) error {
	dir, err := os.MkdirTemp("", "prodigy-bench-fleet-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []string{"prodigy", "prodigy-fleet"} {
		if out, err := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, name), "./cmd/"+name).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	fmt.Println("| items | pool ms | fleet ms | with the start | ms an item | the same, fleet | throughput against the pool (each pair) | CPU an item |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, l := range []load{
		{"trivial, 16 slots", items, "true", 16, 8},
		{"50 ms, 16 slots", items / 4, "sleep 0.05", 16, 8},
		{"trivial, one at a time", items / 4, "true", 1, 1},
	} {
		if err := l.compare(dir, pairs); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// took is what a run needed.
type took struct{ wall, cpu time.Duration }

// perItem is what each of n items needed of a run, beside one of a single item.
func (t took) perItem(single took, n int) took {
	return took{(t.wall - single.wall) / time.Duration(n-1), (t.cpu - single.cpu) / time.Duration(n-1)}
}

// compare runs pairs and prints a row of the table. The CPU of a fleet is that of all its processes, from their beginning to their end. What an item
// needs is found by running a single one as well: the start of a job, and of a fleet, is no part of it.
func (l load) compare(dir string, pairs int) error {
	single := l
	single.items = 1
	var ratios []string
	var pool, fleet, poolItem, fleetItem []took
	for range pairs {
		p, err := l.once(dir)
		if err != nil {
			return err
		}
		p1, err := single.once(dir)
		if err != nil {
			return err
		}
		f, err := l.onFleet(dir)
		if err != nil {
			return err
		}
		f1, err := single.onFleet(dir)
		if err != nil {
			return err
		}
		pi, fi := p.perItem(p1, l.items), f.perItem(f1, l.items)
		pool, fleet, poolItem, fleetItem = append(pool, p), append(fleet, f), append(poolItem, pi), append(fleetItem, fi)
		ratios = append(ratios, fmt.Sprintf("%.2f", float64(pi.wall)/float64(fi.wall)))
	}
	p, f, pi, fi := median(pool), median(fleet), median(poolItem), median(fleetItem)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }
	fmt.Printf("| %d %s | %d | %d | %.2f | %s | %s | %.2f (%s) | %s of %s ms: %.2f |\n", l.items, l.name, p.wall.Milliseconds(), f.wall.Milliseconds(),
		float64(p.wall)/float64(f.wall), ms(pi.wall), ms(fi.wall), float64(pi.wall)/float64(fi.wall), strings.Join(ratios, " "), ms(fi.cpu), ms(pi.cpu), float64(fi.cpu)/float64(pi.cpu))
	return nil
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
func (l load) once(dir string, flags ...string) (took, error) {
	text := fmt.Sprintf("mode: mapreduce\nmap:\n  max_parallel: %d\n  input: {command: \"seq 1 %d\"}\n  agent_template: [{shell: \"%s\"}]\n", l.parallel, l.items, l.command)
	if err := os.WriteFile(filepath.Join(dir, "w.yml"), []byte(text), 0o600); err != nil {
		return took{}, err
	}
	cmd := command(dir, append([]string{"run", "w.yml"}, flags...)...)
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

func command(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(dir, "prodigy"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+filepath.Join(dir, "home"), "PRODIGY_FLEET=")
	return cmd
}

func cpuOf(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// onFleet runs the items on a fleet that is made for them.
func (l load) onFleet(dir string) (t took, err error) {
	var all []*exec.Cmd
	defer func() {
		slices.Reverse(all) // the broker last
		for _, cmd := range all {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			t.cpu += cpuOf(cmd)
		}
	}()
	start := func(word string, args ...string) (string, error) {
		cmd := command(dir, args...)
		said, err := cmd.StderrPipe()
		if err != nil {
			return "", err
		}
		if err := cmd.Start(); err != nil {
			return "", err
		}
		all = append(all, cmd)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if _, rest, ok := strings.Cut(lines.Text(), word); ok {
				return strings.TrimSpace(rest), nil
			}
		}
		return "", fmt.Errorf("%v does not start", args)
	}
	store, err := os.MkdirTemp(dir, "store-")
	if err != nil {
		return t, err
	}
	url, err := start("--join", "broker", "--listen", "127.0.0.1:0", "--store", store)
	if err != nil {
		return t, err
	}
	for _, name := range []string{"a", "b"} {
		if _, err := start("takes attempts", "worker", "--join", url, "--name", name, "--slots", fmt.Sprint(l.slot)); err != nil {
			return t, err
		}
	}
	first := l
	first.items = 1
	if _, err := first.once(dir, "--fleet", url); err != nil { // which has the broker make its streams
		return t, err
	}
	return l.once(dir, "--fleet", url)
}
