//go:build unix

// Attack/shell makes random scripts that bring data from a source through flows to a sink, asks prodigy what it says of each, and runs them in
// several shells with values that show when they are run. A script that runs data although prodigy has said nothing of it breaks the
// promise of docs/interpolation.md. A script that runs nothing although prodigy refuses it, or warns of it, is a false alarm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/lab/trials"
)

// options are the flags.
type options struct {
	scripts  uint64
	first    uint64
	seed     uint64
	parallel int
	limit    time.Duration
	sample   float64
	alarms   int
	show     bool
}

func main() {
	var o options
	flag.Uint64Var(&o.scripts, "scripts", 10_000, "how many scripts are tried")
	flag.Uint64Var(&o.first, "first", 0, "number of the first script, to repeat one")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "scripts at once")
	flag.DurationVar(&o.limit, "for", 0, "begin no more scripts after this time; 0: no limit")
	flag.Float64Var(&o.sample, "sample", 0.1, "share of the scripts which are refused or warned of that is run to estimate the false alarms; 1: all")
	flag.IntVar(&o.alarms, "alarms", 0, "reduce and print this many kinds of false alarms")
	flag.BoolVar(&o.show, "show", false, "print each script, and what came of it")
	if err := trials.Try(&o.seed, "the scripts", func(ctx context.Context) error { return attack(ctx, o) }); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

// errUnsaid is the end of an attack that found something.
var errUnsaid = errors.New("data was run of which nothing was said")

// attack tries the scripts and prints what was found.
func attack(ctx context.Context, o options) error {
	fmt.Printf("seed %d, %d scripts\n", o.seed, o.scripts)
	t := newTally(o.alarms)
	t.log = os.Stdout
	err := tryAll(ctx, o, t)
	t.print(os.Stdout)
	if err == nil && t.unsaid > 0 {
		err = errUnsaid
	}
	return err
}

// tryAll tries the scripts of o, several at once.
func tryAll(ctx context.Context, o options, t *tally) (err error) {
	base, err := os.MkdirTemp("", "prodigy-attack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	var next atomic.Uint64
	next.Store(o.first)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range o.parallel {
		dir := filepath.Join(base, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		l, err := newLab(dir)
		if err != nil {
			return err
		}
		group.Go(func() error {
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				if n >= o.first+o.scripts || o.limit > 0 && time.Since(began) > o.limit {
					return nil
				}
				if err := tryOne(ctx, l, o, n, t); err != nil {
					return fmt.Errorf("script %d: %w", n, err)
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

func tryOne(ctx context.Context, l *lab, o options, n uint64, t *tally) error {
	s := generate(o.seed, n)
	found, err := l.try(ctx, s, func() bool { return sampled(o.seed, n, o.sample) })
	if err != nil {
		return err
	}
	if o.show {
		fmt.Printf("--- %d: %s\n%srefused %t, said %v, ran %t in %s by %q: %s\n", n, s, s.workflowText(), found.verdict.refused, found.verdict.codes, found.ran, found.shell, found.payload, found.verdict.message)
	}
	return t.add(ctx, l, s, found)
}

// sampled reports whether the n-th script of a seed is run although prodigy warns of it.
func sampled(seed, n uint64, share float64) bool {
	return rand.New(rand.NewPCG(^seed, n)).Float64() < share
}
