//go:build unix

package mapreduce

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// BenchmarkInput selects the results of a job as items: 1,000,000 with -scale, else 20,000. Memory does not grow with their number.
func BenchmarkInput(b *testing.B) {
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
	source := "name: w\nmap:\n  input: {command: 'seq " + strconv.Itoa(n) + "'}\n  max_parallel: 8\n  agent_template:\n    - shell: work ${item}\n"
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := Run(b.Context(), c, w, []byte(source)); err != nil {
		b.Fatal(err)
	}
	next, err := workflow.Parse("next.yml", []byte("map:\n  input: {job: 'latest:w'}\n  agent_template:\n    - shell: work ${item.item}\n"), workflow.ParseOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var memory peak
	began := cpuTime()
	for b.Loop() {
		in, err := reuse.OpenInput(c.Reuse(), next)
		if err != nil {
			b.Fatal(err)
		}
		seen := 0
		for it, err := range items.Select(b.Context(), next.Map, items.Env{Dir: root, Results: in.Results}) {
			if err != nil || len(it.From) != 1 || it.From[0] != items.ID(seen) {
				b.Fatalf("item %d: %+v, %v", seen, it, err)
			}
			if seen++; seen%10_000 == 0 {
				memory.look()
			}
		}
		if err := in.Close(); err != nil || seen != n {
			b.Fatalf("%d items, %v", seen, err)
		}
	}
	b.ReportMetric(float64((cpuTime()-began).Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(memory.bytes.Load())/1e6, "live-MB")
}
