//go:build unix

// Package damage damages the files of jobs at random places, does with each what a user would do (status, dlq list, resume, results, fsck), and
// holds what comes of it against the job that nothing happened to. Damage must be harmless or told: what differs without a word breaks the
// promise of docs/guarantees.md, and so does a panic or a hang.
package damage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"prodigy/lab/try"
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
func Main() {
	var o options
	flag.Uint64Var(&o.trials, "trials", 2000, "how many damages are tried")
	flag.Uint64Var(&o.first, "first", 0, "number of the first, to repeat one")
	flag.BoolVar(&o.flips, "flips", false, "flip every bit of the log of the killed job instead, one after the other")
	flag.BoolVar(&o.worker, "worker", false, "try in this process and print each outcome; for itself")
	flag.StringVar(&o.dir, "dir", "", "directory for the files of jobs; empty: a temporary one")
	try.Seeded(&o.seed, "the damages", func(ctx context.Context) { start(ctx, o) })
}

func start(ctx context.Context, o options) {
	if o.dir == "" {
		dir := try.To(os.MkdirTemp("", "damage-"))
		defer func() { _ = os.RemoveAll(dir) }()
		o.dir = dir
	}
	if o.worker {
		work(ctx, o)
		return
	}
	attack(ctx, o)
}

// attack has a worker try all damages, and another go on where one dies, and prints what was found.
func attack(ctx context.Context, o options) {
	counts, began := map[string]int{}, time.Now()
	for next, end := o.first, o.first+o.trials; next < end && ctx.Err() == nil; {
		done, class, err := runWorker(ctx, o, next, end, counts)
		if next = done; err == nil {
			break
		}
		if ctx.Err() == nil {
			counts[class]++
			fmt.Printf("trial %d: %s: %v\n", next, class, err)
			next++
		}
	}
	total := 0
	for _, class := range classes() {
		fmt.Printf("%-9s %d\n", class, counts[class])
		total += counts[class]
	}
	fmt.Printf("%d trials in %s, seed %d\n", total, time.Since(began).Round(time.Second), o.seed)
	try.FailIf(counts[silent]+counts[panicked]+counts[hung] > 0, "damage was counted, or ended in a panic or a hang")
	try.Check(context.Cause(ctx))
}

// patience is how long one trial may take.
const patience = 60 * time.Second

// runWorker starts a worker at trial next. It returns the trial that the worker did not end, its class and the error, if there is one.
func runWorker(ctx context.Context, o options, next, end uint64, counts map[string]int) (uint64, string, error) {
	self := try.To(os.Executable())
	args := []string{
		"damage", "-worker", "-dir", o.dir, "-seed", strconv.FormatUint(o.seed, 10), "-flips=" + strconv.FormatBool(o.flips),
		"-first", strconv.FormatUint(next, 10), "-trials", strconv.FormatUint(end-next, 10),
	}
	c := exec.CommandContext(ctx, self, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out := try.To(c.StdoutPipe())
	try.Check(c.Start())
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
					err = fmt.Errorf("%w: %.3000s", err, stderr.String())
				}
				return next, panicked, err
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
			return next, hung, errors.New("it did not end")
		}
	}
}

// harm is one damage to a file.
type harm struct {
	path  string // within the home
	what  string
	crash bool                     // what is left is what a crash can leave
	do    func(data []byte) []byte // nil: the file is deleted
}

// randomHarm draws a damage to a file. Newest is the file of the log that a crash can cut short.
func randomHarm(r *rand.Rand, path, newest string, size int) harm {
	h := harm{path: path}
	at, n := r.IntN(max(1, size)), 1+r.IntN(8)
	switch r.IntN(10) {
	case 0, 1, 2:
		bit := r.IntN(8)
		h.what = fmt.Sprintf("bit %d of byte %d flipped", bit, at)
		h.do = func(b []byte) []byte { b[at] ^= 1 << bit; return b }
	case 3:
		h.what = fmt.Sprintf("%d bytes cut out at %d", n, at)
		h.do = func(b []byte) []byte { return append(b[:at], b[min(len(b), at+n):]...) }
	case 4:
		h.what = fmt.Sprintf("cut short at %d", at)
		h.crash = path == newest
		h.do = func(b []byte) []byte { return b[:at] }
	case 5:
		n *= 64
		h.what = fmt.Sprintf("%d bytes zeroed at %d", n, at)
		h.do = func(b []byte) []byte { clear(b[at:min(len(b), at+n)]); return b }
	case 6:
		h.what = "deleted"
		h.crash = path == newest // as if it had been begun and nothing in it been synced
	case 7, 8, 9:
		kind, first, second := r.IntN(3), r.IntN(1<<20), r.IntN(1<<20)
		h.what = [...]string{"a line deleted", "a line doubled", "two lines swapped"}[kind]
		h.crash = path == newest && kind == 0
		h.do = func(b []byte) []byte { return linesHarmed(b, kind, first, second) }
	}
	return h
}

func linesHarmed(b []byte, kind, first, second int) []byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	if n := len(lines); n > 1 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	i, j := first%len(lines), second%len(lines)
	switch kind {
	case 0:
		lines = append(lines[:i:i], lines[i+1:]...)
	case 1:
		lines = append(lines[:i+1:i+1], lines[i:]...)
	case 2:
		lines[i], lines[j] = lines[j], lines[i]
	}
	return bytes.Join(lines, nil)
}

// apply damages the file. It reports whether that changed anything.
func (h harm) apply(path string) bool {
	if h.do == nil {
		try.Check(os.Remove(path))
		return true
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		try.Check(err)
		return false
	}
	harmed := h.do(bytes.Clone(data))
	try.Check(os.WriteFile(path, harmed, 0o600))
	return !bytes.Equal(harmed, data)
}
