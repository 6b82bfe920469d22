//go:build unix

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"prodigy/lab/try"
)

// contestant does one thing in its own way.
type contestant struct {
	name    string
	items   int // of a run; what is compared is what an item takes
	times   int // how often a run starts the command, 0: once
	command func() *exec.Cmd
	after   func() // cleans up, not measured
}

// compete lets all run in turn, and returns what each took by its name, in the order of the rounds.
func (s *stage) compete(all ...contestant) map[string][]usage {
	took := map[string][]usage{}
	for range s.rounds {
		for _, c := range all {
			try.In(c.name, func() { took[c.name] = append(took[c.name], c.run()) })
		}
	}
	return took
}

func (c contestant) run() usage {
	var sum usage
	for range max(1, c.times) {
		sum = sum.plus(measure(c.command()))
	}
	if c.after != nil {
		c.after()
	}
	return sum.per(max(1, c.items) * max(1, c.times))
}

// ratios returns by round what a took in terms of b.
func ratios(a, b []usage, of func(usage) float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = of(a[i]) / of(b[i])
	}
	return all
}

func values(runs []usage, of func(usage) float64) []float64 {
	all := make([]float64, len(runs))
	for i, u := range runs {
		all[i] = of(u)
	}
	return all
}

// quantile returns the value that part of all do not exceed, between two of them where it falls between.
func quantile(all []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	at := part * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

func median(all []float64) float64 { return quantile(all, 0.5) }

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// numbers returns n lines.
func numbers(n int) *bytes.Buffer {
	list := new(bytes.Buffer)
	for i := range n {
		fmt.Fprintln(list, i)
	}
	return list
}

// usage is what something took, its children included.
type usage struct {
	seconds float64
	cpu     float64 // seconds
	memory  float64 // of the largest process, in megabytes
}

// shrink gives back what memory this process does not need, and has Linux forget how much it had: a process counts the most that its
// parent ever had as its own, until the program of it is loaded.
func shrink() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // https://docs.kernel.org/filesystems/proc.html
}

// measure runs cmd and returns what it took.
func measure(cmd *exec.Cmd) usage {
	shrink()
	began := time.Now()
	try.Check(cmd.Run())
	return used(cmd, time.Since(began))
}

// used returns what a process took that has ended.
func used(cmd *exec.Cmd, wall time.Duration) usage {
	r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	try.FailIf(!ok, "this system does not tell what a process used")
	unit := float64(1 << 10)
	if runtime.GOOS == "darwin" {
		unit = 1 << 20 // it counts in bytes, the others in kilobytes
	}
	return usage{
		seconds: wall.Seconds(),
		cpu:     time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds(),
		memory:  float64(r.Maxrss) / unit,
	}
}

func (u usage) plus(v usage) usage {
	return usage{u.seconds + v.seconds, u.cpu + v.cpu, max(u.memory, v.memory)}
}

// per returns what one of n took; the memory is that of all.
func (u usage) per(n int) usage { return usage{u.seconds / float64(n), u.cpu / float64(n), u.memory} }

func wall(u usage) float64   { return u.seconds }
func rate(u usage) float64   { return 1 / u.seconds }
func cpu(u usage) float64    { return u.cpu }
func memory(u usage) float64 { return u.memory }

// buildNoop makes a program that does nothing, as small as the machine can: the usual ones load a locale first.
func buildNoop(dir string) string {
	noop := dir + "/noop"
	for _, static := range [][]string{{"-static"}, nil} {
		args := append(append([]string{"-O2", "-x", "c", "-o", noop}, static...), "-")
		cc := exec.Command("cc", args...)
		cc.Stdin = strings.NewReader("int main(void) { return 0; }\n")
		if cc.Run() == nil {
			return noop
		}
	}
	try.Failf("build the program that does nothing: a C compiler called cc is needed")
	return ""
}
