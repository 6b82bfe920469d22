//go:build unix

// Package damage damages the files of jobs at random places, does with each what a user would do (status, dlq list, resume, results, fsck), and
// holds what comes of it against the job that nothing happened to. Damage must be harmless or told: what differs without a word breaks the
// promise of docs/guarantees.md, and so does a panic or a hang.
package damage

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"prodigy/lab/trials"
)

// options are the flags.
type options struct {
	trials uint64
	first  uint64
	seed   uint64
	flips  bool
	worker bool
	dir    string
}

// Main is the tool.
func Main() error {
	var o options
	flag.Uint64Var(&o.trials, "trials", 2000, "how many damages are tried")
	flag.Uint64Var(&o.first, "first", 0, "number of the first, to repeat one")
	flag.BoolVar(&o.flips, "flips", false, "flip every bit of the log of the killed job instead, one after the other")
	flag.BoolVar(&o.worker, "worker", false, "try in this process and print each outcome; for itself")
	flag.StringVar(&o.dir, "dir", "", "directory for the files of jobs; empty: a temporary one")
	return trials.Try(&o.seed, "the damages", func(ctx context.Context) error { return start(ctx, o) })
}

func start(ctx context.Context, o options) error {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "damage-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.dir = dir
	}
	if o.worker {
		return work(ctx, o)
	}
	return attack(ctx, o)
}

// errFound is the end of an attack that found something.
var errFound = errors.New("damage was counted, or ended in a panic or a hang")

// attack has a worker try all damages, and another go on where one dies, and prints what was found.
func attack(ctx context.Context, o options) error {
	counts, began := map[string]int{}, time.Now()
	for next, end := o.first, o.first+o.trials; next < end && ctx.Err() == nil; {
		done, last, err := runWorker(ctx, o, next, end, counts)
		if err == nil && done == next && !last {
			return errors.New("the worker tried nothing")
		}
		if next = done; last {
			break
		}
		if err != nil && ctx.Err() == nil {
			counts[classOf(err)]++
			fmt.Printf("trial %d: %s: %v\n", next, classOf(err), err)
			next++
		}
	}
	total := 0
	for _, class := range classes() {
		fmt.Printf("%-9s %d\n", class, counts[class])
		total += counts[class]
	}
	fmt.Printf("%d trials in %s, seed %d\n", total, time.Since(began).Round(time.Second), o.seed)
	if counts[silent]+counts[panicked]+counts[hung] > 0 {
		return errFound
	}
	return context.Cause(ctx)
}

// patience is how long one trial may take.
const patience = 60 * time.Second

var errHang = errors.New("it did not end")

func classOf(err error) string {
	if errors.Is(err, errHang) {
		return hung
	}
	return panicked
}

// runWorker starts a worker at trial next. It returns the trial that the worker did not end, and whether there are no more.
func runWorker(ctx context.Context, o options, next, end uint64, counts map[string]int) (uint64, bool, error) {
	self, err := os.Executable()
	if err != nil {
		return next, false, err
	}
	args := []string{
		"damage", "-worker", "-dir", o.dir, "-seed", strconv.FormatUint(o.seed, 10), "-flips=" + strconv.FormatBool(o.flips),
		"-first", strconv.FormatUint(next, 10), "-trials", strconv.FormatUint(end-next, 10),
	}
	c := exec.CommandContext(ctx, self, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return next, false, err
	}
	if err := c.Start(); err != nil {
		return next, false, err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for {
		select {
		case line, open := <-lines:
			if !open {
				err := c.Wait()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, cut(stderr.String(), 3000))
				}
				return next, err == nil, err
			}
			class, detail, _ := strings.Cut(line, "\t")
			counts[class]++
			if class == silent {
				fmt.Printf("trial %d: %s\n", next, detail)
			}
			next++
		case <-time.After(patience):
			_ = c.Process.Kill()
			for range lines {
			}
			_ = c.Wait()
			return next, false, errHang
		}
	}
}

func cut(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}
