//go:build unix

package gitspace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/workflow"
)

// editor is an Executor whose attempts cost nothing: each changes one file and adds one, or does nothing.
type editor struct{ idle bool }

func (x editor) Execute(_ context.Context, a agent.Attempt) (agent.Outcome, error) {
	if x.idle {
		return agent.Outcome{}, nil
	}
	for _, name := range [...]string{fmt.Sprintf("d%d/f%d", a.ItemIndex%50, a.ItemIndex%2), fmt.Sprintf("d%d/new%d", a.ItemIndex%50, a.ItemIndex)} {
		if err := os.WriteFile(filepath.Join(a.Dir, name), fmt.Appendf(nil, "changed by %d\n", a.ItemIndex), 0o644); err != nil {
			return agent.Outcome{}, err
		}
	}
	return agent.Outcome{}, nil
}

func (editor) Holds(context.Context, []string) ([]string, error) { return nil, nil }

// cpu returns what this process and all that it has started and waited for have used.
func cpu() time.Duration {
	var sum time.Duration
	for _, who := range [...]int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var use syscall.Rusage
		if syscall.Getrusage(who, &use) == nil {
			sum += time.Duration(use.Utime.Nano() + use.Stime.Nano())
		}
	}
	return sum
}

// benchRepo makes a repository of n files in 50 directories.
func benchRepo(b *testing.B, n int) (dir string, environ []string) {
	b.Helper()
	root := b.TempDir()
	dir = filepath.Join(root, "repo")
	environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"}
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("d%d", i%50), fmt.Sprintf("f%d", i/50))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "%d\n%0800d\n", i, i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	benchSh(b, dir, environ, "git init -q -b main; git config user.name Ada; git config user.email ada@example.com; git add -A; git commit -qm first; git repack -adq")
	return dir, environ
}

func benchSh(b *testing.B, dir string, environ []string, text string) {
	b.Helper()
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir, cmd.Env = dir, environ
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// BenchmarkItem measures the CPU time that the isolation of one item costs: its workspace, its commit, its
// merge. The last case is how a tool does it that adds a linked worktree for each item and merges in a
// checkout. Only cpu-ms/op says something; on a machine that others use as well, too.
func BenchmarkItem(b *testing.B) {
	for _, n := range [...]int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchItems(b, n) })
	}
}

func benchItems(b *testing.B, n int) {
	dir, environ := benchRepo(b, n)
	open := func(b *testing.B) (*Space, string) {
		c := Config{JobID: "bench", Workflow: "bench", Dir: dir, GitDir: filepath.Join(b.TempDir(), "git"), WorkDir: filepath.Join(b.TempDir(), "work"), Environ: environ, Policy: workflow.Workspace{}, Slots: 1}
		start, err := Check(b.Context(), c, false)
		if err != nil {
			b.Fatal(err)
		}
		s, err := Open(b.Context(), c, start, start.Base, nil)
		if err != nil {
			b.Fatal(err)
		}
		return s, start.Base
	}
	item := func(b *testing.B, s *Space, x Executor, head string, i int) string {
		a := agent.Attempt{
			Phase: "map", Assignment: agent.Assignment{
				ItemID: fmt.Sprintf("item_%d", i), ItemIndex: i, Number: 1,
				Workspace: agent.Workspace{Base: head},
			},
			Worker: 1,
		}
		o, err := s.Execute(b.Context(), x, a)
		if err != nil || o.Failure != nil {
			b.Fatal(err, o.Failure)
		}
		if o.Commit == "" {
			return head
		}
		w := Work{
			ItemID: a.ItemID, Index: i, Attempt: 1, Base: head, Changes: events.Changes{Commit: o.Commit},
			Date: time.Unix(1, 0),
		}
		m, err := s.Merge(b.Context(), head, []Work{w})
		if err == nil {
			err = s.Publish(b.Context(), m.Head, []Work{w})
		}
		if err != nil {
			b.Fatal(err)
		}
		return m.Head
	}
	measure := func(name string, x editor) {
		b.Run(name, func(b *testing.B) {
			s, head := open(b)
			head = item(b, s, editor{}, head, 0) // makes the workspace
			began := cpu()
			for i := range b.N {
				head = item(b, s, x, head, i+1)
			}
			b.ReportMetric(float64((cpu()-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
	measure("changed", editor{})
	measure("unchanged", editor{idle: true})
	b.Run("new workspace", func(b *testing.B) {
		s, head := open(b)
		began := cpu()
		for i := range b.N {
			if err := s.prepare(b.Context(), s.workspace(fmt.Sprint(i), 1), head, "x"); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpu()-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
	b.Run("worktree and merge", func(b *testing.B) {
		benchSh(b, dir, environ, "git checkout -q -B bench main")
		began := cpu()
		for i := range b.N {
			tree := filepath.Join(b.TempDir(), "tree")
			benchSh(b, dir, environ, fmt.Sprintf("git worktree add -q -b agent-%d-%d %s bench 2>/dev/null", b.N, i, tree))
			if _, err := (editor{}).Execute(b.Context(), agent.Attempt{
				Dir:        tree,
				Assignment: agent.Assignment{ItemIndex: i + 1},
			}); err != nil {
				b.Fatal(err)
			}
			benchSh(b, tree, environ, "git add -A; git commit -qm x")
			benchSh(b, dir, environ, fmt.Sprintf("git merge -q --no-ff -m x agent-%[1]d-%[2]d; git worktree remove --force %[3]s; git branch -qD agent-%[1]d-%[2]d", b.N, i, tree))
		}
		b.ReportMetric(float64((cpu()-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		benchSh(b, dir, environ, "git checkout -q main")
	})
}

// BenchmarkMerges measures the merges of a long job, of agents that began a while ago, and what a resume costs
// then until the first agent can start. Each merge should cost the same: -benchtime 10000x shows it, in some
// minutes.
func BenchmarkMerges(b *testing.B) {
	dir, environ := benchRepo(b, 1000)
	c := Config{JobID: "bench", Workflow: "bench", Dir: dir, GitDir: filepath.Join(b.TempDir(), "git"), WorkDir: filepath.Join(b.TempDir(), "work"), Environ: environ, Slots: 1}
	start, err := Check(b.Context(), c, false)
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), c, start, start.Base, nil)
	if err != nil {
		b.Fatal(err)
	}
	heads := []string{start.Base}
	const behind = 64 // agents that run at once
	began := cpu()
	each := make([]time.Duration, 0, b.N)
	for i := range b.N {
		base := heads[max(0, len(heads)-behind)]
		a := agent.Attempt{
			Phase: "map", Assignment: agent.Assignment{
				ItemID: fmt.Sprintf("item_%d", i), ItemIndex: i, Number: 1,
				Workspace: agent.Workspace{Base: base},
			},
			Worker: 1,
		}
		o, err := s.Execute(b.Context(), addition{}, a)
		if err != nil || o.Failure != nil {
			b.Fatal(err, o.Failure)
		}
		before := cpu()
		w := Work{
			ItemID: a.ItemID, Index: i, Attempt: 1, Base: base, Changes: events.Changes{Commit: o.Commit},
			Date: time.Now(),
		}
		m, err := s.Merge(b.Context(), heads[len(heads)-1], []Work{w})
		if err != nil || len(m.Items) != 1 {
			b.Fatal(err, m.Failed)
		}
		each = append(each, cpu()-before)
		if err := s.Publish(b.Context(), m.Head, []Work{w}); err != nil {
			b.Fatal(err)
		}
		heads = append(heads, m.Head)
	}
	report := func(name string, list []time.Duration) {
		var sum time.Duration
		for _, d := range list {
			sum += d
		}
		b.ReportMetric(float64(sum.Microseconds())/1000/float64(len(list)), name)
	}
	b.ReportMetric(float64((cpu()-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	few := min(100, b.N)
	report("first-merge-cpu-ms", each[:few])
	report("last-merge-cpu-ms", each[b.N-few:])
	b.StopTimer()
	before := time.Now()
	if s, err = Open(b.Context(), c, start, heads[len(heads)-1], nil); err != nil {
		b.Fatal(err)
	}
	if err := s.prepare(b.Context(), s.workspace("1", 1), heads[len(heads)-1], "x"); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(before).Microseconds())/1000, "resume-ms")
}

// addition is an Executor whose attempts add a file each.
type addition struct{ editor }

func (addition) Execute(_ context.Context, a agent.Attempt) (agent.Outcome, error) {
	return agent.Outcome{}, os.WriteFile(filepath.Join(a.Dir, fmt.Sprintf("d%d/new%d", a.ItemIndex%50, a.ItemIndex)), []byte("x\n"), 0o644)
}
