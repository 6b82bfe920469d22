//go:build unix

package damage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
	"prodigy/lab/try"
)

// What can come of a damage.
const (
	harmless = "harmless" // all is as without it
	told     = "told"     // by a command that a user runs
	byFsck   = "by fsck"  // nothing that was shown differs, and fsck tells
	silent   = "silent"
	panicked = "panic"
	hung     = "hang"
)

func classes() []string { return []string{harmless, told, byFsck, silent, panicked, hung} }

const source = `mode: mapreduce
setup:
  - shell: prepare
    capture: seen
map:
  input: [%s]
  max_parallel: 2
  agent_template:
    - shell: work ${item}
error_policy:
  on_item_failure: dlq
reduce:
  - shell: sum ${map.successful} ${seen}
`

// items is how many items the jobs have. They were stopped after a record, which left a checkpoint, and resumed with another workflow, which left a
// copy of the first; one was then killed after a record.
const (
	items        = 60
	stoppedAfter = 60
	killedAfter  = 120
)

// victim is a job that damages are tried on.
type victim struct {
	home  string
	files []string // within the home
	log   string   // its newest file of the log, within the home
	state seen     // before anything happens
	end   seen     // after a resume
}

// seen is what a user sees of a job.
type seen struct {
	Metrics string
	State   string
	Letters []string
	Results string
}

func run(_ context.Context, cmd process.Command) (process.Exit, error) {
	var text strings.Builder
	text.WriteString(strings.Join(cmd.Argv, " "))
	for _, v := range cmd.Env {
		if strings.Contains(v, "item-") {
			text.WriteString(" " + v[strings.Index(v, "item-"):])
		}
	}
	code, out := 0, "did "+text.String()
	switch {
	case strings.Contains(text.String(), "item-07"), strings.Contains(text.String(), "item-21"), strings.Contains(text.String(), "item-55"):
		code, out = 3, "no"
	case strings.Contains(text.String(), "item-11"), strings.Contains(text.String(), "item-44"):
		out = strings.Repeat("large ", 12_000)
	}
	_, _ = fmt.Fprint(cmd.Stdout, out)
	return process.Exit{Code: code}, nil
}

func config(home string) mapreduce.Config {
	return mapreduce.Config{
		Home: jobs.Home{Root: home}, Dir: home, MaxRetries: 3, Seed: 1,

		LogConfig: job.LogConfig{Durability: events.None, LogFileSize: 16 << 10, CheckpointRecords: 1},
		RunConfig: mapreduce.RunConfig{Runner: run},
	}
}

// prepare makes the two jobs: one that was killed and one that completed.
func prepare(dir string) []victim {
	var list []string
	for i := range items {
		list = append(list, fmt.Sprintf("item-%02d", i))
	}
	text := fmt.Sprintf(source, strings.Join(list, ", "))
	w := try.To(workflow.Parse("w.yml", []byte(text), workflow.ParseOptions{}))
	whole, killed := filepath.Join(dir, "whole"), filepath.Join(dir, "killed")
	for _, d := range []string{whole, killed} {
		try.Check(errors.Join(os.RemoveAll(d), os.MkdirAll(d, 0o700)))
	}
	c := config(whole)
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	c.Stop = ctx
	c.Observe = func(records []events.Record) {
		if records[len(records)-1].Seq >= stoppedAfter {
			stop(errors.New("stopped"))
		}
	}
	first := try.To(mapreduce.Run(context.Background(), c, w, []byte(text)))
	try.FailIf(first.State != jobs.Stopped, "the first run is %s, want stopped", first.State)
	c = config(whole)
	other := []byte(text + "# another\n")
	c.Replacement = &mapreduce.Replacement{Workflow: w, Source: other, Path: filepath.Join(dir, "w.yml")}
	var copied error
	var once sync.Once
	c.Observe = func(records []events.Record) {
		if records[len(records)-1].Seq >= killedAfter {
			once.Do(func() { copied = try.Catch(func() { snapshot(killed, os.DirFS(whole)) }) })
		}
	}
	_ = try.To(mapreduce.Resume(context.Background(), c, first.Job))
	try.Check(copied)
	var made []victim
	for _, home := range []string{killed, whole} {
		j := newJob(home, filepath.Join(dir, "fresh"))
		made = append(made, j)
	}
	return made
}

// snapshot copies what a running job has written to dir. It begins again where a file was compressed, and so got another name, before it was copied.
func snapshot(dir string, from fs.FS) {
	for n := 1; ; n++ {
		err := os.CopyFS(dir, from)
		if !errors.Is(err, os.ErrNotExist) || n == 10 {
			try.Check(err)
			return
		}
		try.Check(os.RemoveAll(dir))
	}
}

func newJob(home, scratch string) victim {
	j := victim{home: home}
	try.Check(filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err != nil || d.IsDir() || name == "lock" || name == "running" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".waiting") {
			return err
		}
		rel, err := filepath.Rel(home, path)
		j.files = append(j.files, rel)
		if strings.HasPrefix(rel, "events") {
			j.log = rel
		}
		return err
	}))
	place := fresh(j, scratch)
	j.state = try.To(look(place))
	_ = try.To(resume(place, scratch))
	j.end = try.To(look(place))
	return j
}

// fresh makes a copy of a job in dir.
func fresh(j victim, dir string) jobs.Job {
	try.Check(errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(j.home))))
	return try.To(jobs.Home{Root: dir}.Find("latest"))
}

// resume takes the job up, and returns what it said.
func resume(place jobs.Job, home string) (said []string, err error) {
	c := config(home)
	c.Notice = func(text string) { said = append(said, text) }
	if last, err := job.LastOf(place); err != nil || last.State == jobs.Completed {
		return nil, errors.Join(err, job.UpdateResults(place))
	}
	r, err := mapreduce.Resume(context.Background(), c, place)
	if err == nil && r.State != jobs.Completed {
		err = fmt.Errorf("%s: %s", r.State, r.Reason)
	}
	return said, err
}

// look is what status, dlq list and a look at the results show. The error is the first that one of them ends with.
func look(place jobs.Job) (s seen, err error) {
	err = try.Catch(func() {
		sum := try.To(job.SummarizeAnd(place, func(events.Record) {}))
		s.Metrics, s.State = string(try.To(json.Marshal(sum.Metrics))), string(sum.State)
		try.Check(job.UpdateLetters(place, 3, nil))
		for _, e := range try.To(dlq.Read(place.DLQFile())) {
			s.Letters = append(s.Letters, fmt.Sprintf("%s %d %s", e.ItemID, e.FailureCount, e.Item))
		}
		slices.Sort(s.Letters)
		results, err := os.ReadFile(place.ResultsFile())
		if !errors.Is(err, os.ErrNotExist) {
			try.Check(err)
		}
		s.Results = rowsOf(results)
	})
	return s, err
}

// rowsOf returns what of the results does not depend on the clock.
func rowsOf(results []byte) string {
	var rows strings.Builder
	for line := range bytes.Lines(results) {
		var row struct {
			ItemID, Status, Output string
			Index                  int
		}
		var names map[string]any
		if json.Unmarshal(line, &names) != nil {
			_, _ = fmt.Fprintf(&rows, "%q\n", line)
			continue
		}
		_ = json.Unmarshal(line, &row)
		_, _ = fmt.Fprintf(&rows, "%v %v %v %d\n", names["item_id"], names["index"], names["status"], len(fmt.Sprint(names["output"])))
	}
	return rows.String()
}

// work tries damages and prints a line for each.
func work(ctx context.Context, o options) {
	made := prepare(o.dir)
	for n := o.first; n < o.first+o.trials && ctx.Err() == nil; n++ {
		class, detail := trial(o, made, n)
		fmt.Printf("%s\t%s\n", class, strings.ReplaceAll(detail, "\n", `\n`))
	}
	try.Check(ctx.Err())
}

// choose returns the damage of a trial.
func choose(o options, made []victim, n uint64) (victim, harm) {
	if o.flips {
		return flip(made[0], n)
	}
	r := rand.New(rand.NewPCG(o.seed, n))
	j := made[r.IntN(len(made))]
	path := j.files[r.IntN(len(j.files))]
	info := try.To(os.Stat(filepath.Join(j.home, path)))
	return j, randomHarm(r, path, j.log, int(info.Size()))
}

// flip returns the flip of bit n of the files of the log that are not compressed.
func flip(j victim, n uint64) (victim, harm) {
	info := try.To(os.Stat(filepath.Join(j.home, j.log)))
	at, bit := int(n/8%uint64(info.Size())), n%8
	return j, harm{path: j.log, what: fmt.Sprintf("bit %d of byte %d flipped", bit, at), do: func(b []byte) []byte { b[at] ^= 1 << bit; return b }}
}

func trial(o options, made []victim, n uint64) (class, detail string) {
	j, h := choose(o, made, n)
	dir := filepath.Join(o.dir, "trial")
	place := fresh(j, dir)
	if !h.apply(filepath.Join(dir, h.path)) {
		return harmless, ""
	}
	what := fmt.Sprintf("%s: %s: ", h.path, h.what)
	before, errBefore := look(place)
	report := job.Examine(place)
	said, errResume := resume(place, dir)
	after, errAfter := look(place)
	if errBefore != nil || errResume != nil || errAfter != nil || len(said) > 0 {
		return told, ""
	}
	// Who reads results.jsonl reads what is in it: fsck tells, and a resume makes it again.
	same := before.equal(j.state) || h.crash || isResults(h.path) && before.but(j.state) && !report.Sound
	switch {
	case after.equal(j.end) && same && report.Sound:
		return harmless, ""
	case after.equal(j.end) && same:
		return byFsck, ""
	}
	return silent, what + difference(before, j.state) + difference(after, j.end) + fmt.Sprintf(" fsck: %t", report.Sound)
}

func (s seen) equal(t seen) bool { return s.but(t) && s.Results == t.Results }

func isResults(path string) bool { return filepath.Base(path) == "results.jsonl" }

// but reports whether all but the results is the same.
func (s seen) but(t seen) bool {
	return s.Metrics == t.Metrics && s.State == t.State && slices.Equal(s.Letters, t.Letters)
}

func difference(got, want seen) string {
	switch {
	case got.State != want.State:
		return fmt.Sprintf("state %s, want %s; ", got.State, want.State)
	case got.Metrics != want.Metrics:
		return fmt.Sprintf("metrics %s, want %s; ", got.Metrics, want.Metrics)
	case !slices.Equal(got.Letters, want.Letters):
		return fmt.Sprintf("letters %v, want %v; ", got.Letters, want.Letters)
	case got.Results != want.Results:
		return fmt.Sprintf("results of %d bytes, want %d; ", len(got.Results), len(want.Results))
	}
	return ""
}
