//go:build unix

// Bench times prodigy against xargs on the same items, in turn, and prints the medians of the ratios. Absolute numbers
// depend on the machine and on what else it does; ratios of runs made in turn do so much less.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
)

func main() {
	n := flag.Int("items", 10000, "items of a run")
	pairs := flag.Int("pairs", 7, "runs of each")
	slots := flag.Int("slots", 8, "items at once")
	flag.Parse()
	if err := bench(*n, *pairs, *slots); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// contest is one thing to do with an item, as prodigy and as xargs are told to.
type contest struct {
	name string
	step string   // of the workflow
	argv []string // xargs adds the item
}

func bench(n, pairs, slots int) error {
	dir, err := os.MkdirTemp("", "prodigy-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	prodigy := filepath.Join(dir, "prodigy")
	if err := command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", prodigy, "./cmd/prodigy").Run(); err != nil {
		return fmt.Errorf("build prodigy: %w", err)
	}
	noop, err := buildNoop(dir)
	if err != nil {
		return err
	}
	fmt.Printf("%d items, %d slots, medians of %d pairs; prodigy / xargs\n", n, slots, pairs)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "item\tthroughput\tCPU an item\tpeak memory\tprodigy\txargs")
	for _, c := range []contest{
		{"sh -c true", "true ${item}", []string{"sh", "-c", `true "$0"`}},
		{"one program", noop + " ${item}", []string{"sh", "-c", noop + ` "$0"`}},
	} {
		if err := c.hold(t, dir, prodigy, n, pairs, slots); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return t.Flush()
}

// hold lets the two run in turn and prints a row of ratios.
func (c contest) hold(t *tabwriter.Writer, dir, prodigy string, n, pairs, slots int) error {
	list := new(bytes.Buffer)
	items := new(bytes.Buffer)
	for i := range n {
		fmt.Fprintln(list, i)
		fmt.Fprintf(items, "%s%d", map[bool]string{true: "[", false: ","}[i == 0], i)
	}
	items.WriteString("]\n")
	input := filepath.Join(dir, "items.json")
	file := filepath.Join(dir, "workflow.yml")
	text := fmt.Sprintf("name: bench\nmap:\n  input: %s\n  max_parallel: %d\n  agent_template:\n    - shell: %q\n", input, slots, c.step)
	if err := errors.Join(os.WriteFile(input, items.Bytes(), 0o600), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		return err
	}
	var ours, theirs []usage
	for range pairs {
		home := filepath.Join(dir, "home")
		run := command(prodigy, "run", "--quiet", file)
		run.Env = append(os.Environ(), "PRODIGY_HOME="+home)
		u, err := measure(run)
		if err != nil {
			return fmt.Errorf("prodigy: %w", err)
		}
		ours = append(ours, u)
		if err := os.RemoveAll(home); err != nil {
			return err
		}
		rival := command("xargs", append([]string{"-P" + strconv.Itoa(slots), "-n1"}, c.argv...)...)
		rival.Stdin = bytes.NewReader(list.Bytes())
		if u, err = measure(rival); err != nil {
			return fmt.Errorf("xargs: %w", err)
		}
		theirs = append(theirs, u)
	}
	_, err := fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.0f/s, %.2f ms, %.1f MB\t%.0f/s, %.2f ms, %.1f MB\n", c.name,
		1/ratio(ours, theirs, usage.seconds), ratio(ours, theirs, usage.cpu), ratio(ours, theirs, usage.memory),
		float64(n)/typical(ours, usage.seconds), 1000*typical(ours, usage.cpu)/float64(n), typical(ours, usage.memory),
		float64(n)/typical(theirs, usage.seconds), 1000*typical(theirs, usage.cpu)/float64(n), typical(theirs, usage.memory))
	return err
}

// ratio returns the median of the ratios of the pairs.
func ratio(ours, theirs []usage, of func(usage) float64) float64 {
	all := make([]float64, len(ours))
	for i := range ours {
		all[i] = of(ours[i]) / of(theirs[i])
	}
	return median(all)
}

func typical(runs []usage, of func(usage) float64) float64 {
	all := make([]float64, len(runs))
	for i, u := range runs {
		all[i] = of(u)
	}
	return median(all)
}

func median(all []float64) float64 {
	slices.Sort(all)
	half := len(all) / 2
	if len(all)%2 == 1 {
		return all[half]
	}
	return (all[half-1] + all[half]) / 2
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd
}
