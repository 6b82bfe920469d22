//go:build unix

package mapreduce

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// BenchmarkComparison compares the items of a workflow with those of an earlier job of as many, of which a thousandth has changed: 1,000,000 with
// -scale, else 20,000. The index is there, as at the end of a job that is incremental.
func BenchmarkComparison(b *testing.B) {
	n := 20_000
	if *scale {
		n = 1_000_000
	}
	root := b.TempDir()
	c := Config{
		Home: jobs.Home{Root: filepath.Join(root, "home")}, Dir: root, Environ: []string{"PATH=/bin"},

		LogConfig: job.LogConfig{Durability: events.None},
		RunConfig: RunConfig{Runner: func(context.Context, process.Command) (process.Exit, error) { return process.Exit{}, nil }},
	}
	write := func(changed int) {
		var data bytes.Buffer
		for i := range n {
			fmt.Fprintf(&data, "{\"id\":%d,\"name\":\"item %d\",\"size\":%d}\n", i, i, map[bool]int{true: 1}[i%1000 < changed])
		}
		if err := os.WriteFile(filepath.Join(root, "items.jsonl"), data.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	const source = "name: w\nmap:\n  input: items.jsonl\n  key: id\n  incremental: true\n  max_parallel: 8\n  agent_template:\n    - shell: work ${item.id}\n"
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		b.Fatal(err)
	}
	write(0)
	if _, err := Run(b.Context(), c, w, []byte(source)); err != nil {
		b.Fatal(err)
	}
	write(1)
	runtime.GC() // the list of items that was written is no memory of the comparison
	var memory peak
	began := cpuTime()
	for b.Loop() {
		compared, _, err := reuse.Compare(c.Reuse(), w)
		if err != nil {
			b.Fatal(err)
		}
		seen := 0
		for it, err := range items.Select(b.Context(), w.Map, items.Env{Dir: root}) {
			if err == nil {
				_, err = compared.Choose(&it)
			}
			if err != nil {
				b.Fatal(err)
			}
			if seen++; seen%10_000 == 0 {
				memory.look()
			}
		}
		if d := compared.Difference(); d.Unchanged != n-n/1000 || d.Changed != n/1000 {
			b.Fatalf("%+v", d)
		}
		compared.Close()
	}
	b.ReportMetric(float64((cpuTime()-began).Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(memory.bytes.Load())/1e6, "live-MB")
}

// cpuTime is the CPU time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
