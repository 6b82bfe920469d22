//go:build unix

// Package trials has what the programs share that try prodigy with random cases: a seed that repeats a run, and an end at a signal.
package trials

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of a program that has defined its own flags. It adds -seed for what is random in it, calls try with a context
// that ends at SIGINT and SIGTERM, and exits with 1 if try returns an error.
func Main(name string, seed *uint64, random string, try func(context.Context) error) {
	flag.Uint64Var(seed, "seed", 0, "seed of "+random+"; 0: a random one")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64() >> 32
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := try(ctx); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}
