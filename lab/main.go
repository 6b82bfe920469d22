//go:build unix

// Lab has the tools with which prodigy itself is judged and handed out: `go run ./lab NAME`. Each is a package with a
// function Main, which reads its flags.
package main

import (
	"flag"
	"fmt"
	"os"

	"prodigy/lab/bench"
	"prodigy/lab/chaos"
	"prodigy/lab/damage"
	"prodigy/lab/live"
	"prodigy/lab/rationed"
	"prodigy/lab/release"
	"prodigy/lab/torture"
	"prodigy/lab/try"
)

var tools = []struct {
	name, short string
	main        func()
}{
	{"torture", "kill jobs at random instants, resume them, look for losses", torture.Main},
	{"chaos", "the same for fleets: kill, freeze and cut off workers, runs and brokers", chaos.Main},
	{"damage", "damage files of jobs, look whether each damage is harmless or told", damage.Main},
	{"bench", "hold prodigy against its peers and goals, with -only fleet a fleet against the pool", bench.Main},
	{"rationed", "hold prodigy against others with a service that rations its calls", rationed.Main},
	{"live", "run the real AI coding CLIs against a server that plays failures", live.Main},
	{"release", "build archives for all platforms, with checksums", release.Main},
}

func main() {
	name := append(os.Args, "")[1] // empty without an argument
	for _, t := range tools {
		if t.name != name {
			continue
		}
		os.Args = os.Args[1:]
		flag.CommandLine = flag.NewFlagSet("lab "+name, flag.ExitOnError)
		if err := try.Catch(t.main); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		return
	}
	fmt.Fprintln(os.Stderr, "usage: go run ./lab NAME, with -h for its flags")
	for _, t := range tools {
		fmt.Fprintf(os.Stderr, "  %-11s %s\n", t.name, t.short)
	}
	os.Exit(2)
}
