//go:build unix

// Package trials has what the tools share that try prodigy with random cases: a seed that repeats a run, and an end at a signal.
package trials

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
)

// Try parses the flags of a tool that has defined its own, adds -seed for what is random in it, and calls try with a
// context that ends at SIGINT and SIGTERM.
func Try(seed *uint64, random string, try func(context.Context) error) error {
	flag.Uint64Var(seed, "seed", 0, "seed of "+random+"; 0: a random one")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64() >> 32
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return try(ctx)
}
