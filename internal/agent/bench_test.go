package agent

import (
	"context"
	"os"
	"testing"

	"prodigy/internal/process"
)

// BenchmarkExecute measures what an attempt costs beside its process.
func BenchmarkExecute(b *testing.B) {
	x := New(Config{Environ: os.Environ(), Run: func(context.Context, process.Command) (process.Exit, error) { return process.Exit{}, nil }}, new(noJob))
	a := ofItem(shellStep("true ${item.n}"))
	a.SetSpec()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Execute(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProcess measures an attempt with its process.
func BenchmarkProcess(b *testing.B) {
	x := New(Config{Environ: os.Environ(), Run: process.Run}, new(noJob))
	a := ofItem(shellStep("true ${item.n}"))
	a.SetSpec()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := x.Execute(b.Context(), a); err != nil {
				b.Error(err)
			}
		}
	})
}
