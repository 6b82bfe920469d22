//go:build unix

package torture

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"prodigy/lab/try"
)

// instant is when a run is killed: when something has happened to the files of the job, which is hit by looking for it all the time,
// or after a random time.
type instant struct {
	name  string
	glob  string   // below the home of prodigy: files that come into being; a random time if it is empty
	text  string   // that the files get once more than they have; if it is empty, a new file is enough
	most  int      // the text is awaited that often at most; 0 stands for once
	runs  []string // of these commands only (run, resume, dlq), unless it is empty
	kinds []string // only jobs of these kinds, unless it is empty
}

// mapped are the kinds of jobs that have items.
var mapped = slices.DeleteFunc(kindNames(), func(name string) bool { return kindNamed(name).Standard })

// isolated are those whose agents have workspaces.
var isolated = slices.DeleteFunc(kindNames(), func(name string) bool { return kindNamed(name).Workspace == "" })

const (
	logFiles   = "events/*/*/events-*.jsonl"
	letterFile = "dlq/*/*/dlq.jsonl"
)

// Three of ten kills come at a random time; the others at one of the instants that can come in the run.
const timedPercent = 30

var instants = []instant{
	{name: "the job is created", glob: "state/*/*", runs: []string{"run"}},
	{name: "a file is written beside its name", glob: "state/*/*/.*"},
	{name: "the commands of the last run are ended", glob: "state/*/*/running", text: "session"},
	{name: "a run begins in the log", glob: logFiles, text: `"type":"Job`},
	{name: "items are being selected", glob: "state/*/*/items.jsonl", text: "\n", most: 200, runs: []string{"run"}, kinds: mapped},
	{name: "selection ends", glob: logFiles, text: `"type":"ItemsSelected"`, runs: []string{"run"}, kinds: mapped},
	{name: "an agent starts", glob: logFiles, text: `"type":"AgentStarted"`, most: 200, kinds: mapped},
	{name: "an agent completes", glob: logFiles, text: `"type":"AgentCompleted"`, most: 200, kinds: mapped},
	{name: "an agent fails", glob: logFiles, text: `"type":"AgentFailed"`, most: 10, kinds: mapped},
	{name: "a step is tried again", glob: logFiles, text: `"type":"StepRetrying"`, most: 10, kinds: []string{"step-retry"}},
	{name: "a breaker changes", glob: logFiles, text: `"type":"Circuit`, most: 5, kinds: []string{"breaker-wait", "breaker-reject"}},
	{name: "a phase ends", glob: logFiles, text: `"type":"PhaseCompleted"`, most: 2, kinds: mapped},
	{name: "a step is done", glob: logFiles, text: `"type":"StepCompleted"`, most: 5, kinds: []string{"standard", "phases"}},
	{name: "the policy stops the job", glob: logFiles, text: `"type":"JobFailed"`, kinds: []string{"policy-stop"}},
	{name: "the job is done", glob: logFiles, text: `"type":"JobCompleted"`},
	{name: "an output gets a file", glob: "state/*/*/outputs/*", kinds: []string{"map"}},
	{name: "the results are made", glob: "state/*/*/results*", kinds: mapped},
	{name: "a dead letter is written", glob: letterFile, text: `"op":"`, most: 20, kinds: mapped},
	{name: "a dead letter is removed", glob: letterFile, text: `"op":"remove"`, most: 50, runs: []string{"dlq"}},
	{name: "the dead letters are compacted", glob: "dlq/*/*/dlq.jsonl.new", runs: []string{"dlq"}, kinds: []string{"compaction"}},
	{name: "a workspace is clean", glob: "work/*/*/*.index", most: 20, kinds: isolated},
	{name: "a workspace is made", glob: "work/*/*/*/.git/config", kinds: isolated},
	{name: "git writes in a workspace", glob: "work/*/*/*/.git/*.lock", most: 5, kinds: isolated},
	{name: "work reaches the hub", glob: "state/*/*/git/hub/refs/items/*/*", most: 20, kinds: isolated},
	{name: "git writes an object into the hub", glob: "state/*/*/git/hub/objects/*/tmp_*", most: 5, kinds: isolated},
	{name: "work is merged", glob: logFiles, text: `"type":"WorktreeMerged"`, most: 20, kinds: isolated},
	{name: "git moves a ref of the hub", glob: "state/*/*/git/hub/refs/heads/*.lock", most: 5, kinds: isolated},
	{name: "a merge is verified", glob: "work/*/*/verify*", kinds: []string{"workspace-items", "workspace-squash"}},
	{name: "the log begins its next file", glob: logFiles, kinds: mapped},
	{name: "a file of the log is compressed", glob: "events/*/*/.events-*", kinds: mapped},
	{name: "a file of the log was compressed", glob: "events/*/*/*.zst", kinds: mapped},
}

const (
	atATime  = "a random time"
	atADelay = "soon after the start"
)

func instantNames() []string {
	names := make([]string, len(instants))
	for i, in := range instants {
		names[i] = in.name
	}
	return names
}

// pick returns an instant that the run may reach. Half of those that are not timed are of the kind's own, if it has any that others
// do not have.
func (r *round) pick(command string) instant {
	switch n := r.rng.IntN(100); {
	case n < timedPercent/2:
		return instant{name: atADelay}
	case n < timedPercent:
		return instant{name: atATime}
	}
	var can, own []instant
	for _, in := range instants {
		if !in.fits(command, r.kind.Name) {
			continue
		}
		can = append(can, in)
		if few := len(in.kinds); few > 0 && few < len(mapped) {
			own = append(own, in)
		}
	}
	if len(own) > 0 && r.rng.IntN(2) == 0 {
		can = own
	}
	return can[r.rng.IntN(len(can))]
}

// fits reports whether the instant can come in a run of this command for a job of this kind.
func (in instant) fits(command, kind string) bool {
	return (len(in.runs) == 0 || slices.Contains(in.runs, command)) && (len(in.kinds) == 0 || slices.Contains(in.kinds, kind))
}

// between returns a random duration, as likely between 10 and 20 as between 400 and 800 milliseconds.
func (r *round) between(shortest, longest time.Duration) time.Duration {
	return time.Duration(float64(shortest) * math.Pow(float64(longest)/float64(shortest), r.rng.Float64()))
}

// patience is how long an instant is awaited. Then the run is killed all the same: it may never come.
const patience = 3 * time.Second

// reach returns the name of the instant at which the run p is to be killed once it has come, and "" when p has ended before.
func (r *round) reach(stop <-chan struct{}, p *try.Process, in instant, seen *sights) string {
	if in.glob == "" {
		d := r.between(2*time.Millisecond, 1500*time.Millisecond)
		if in.name == atADelay {
			d = r.between(time.Millisecond, 60*time.Millisecond)
		}
		if endsWithin(p, stop, d) {
			return ""
		}
		return in.name
	}
	// Half of the kills fall at once, half a little later.
	delay := time.Duration(r.rng.IntN(2)) * r.between(10*time.Microsecond, 5*time.Millisecond)
	times := 1
	if in.most > 0 {
		times = int(r.between(1, time.Duration(in.most)))
	}
	name := atATime
	for began := time.Now(); time.Since(began) < patience; {
		if seen.see(in.text) >= times {
			name = in.name
			break
		}
		if endsWithin(p, stop, 50*time.Microsecond) {
			return ""
		}
	}
	if endsWithin(p, stop, delay) {
		return ""
	}
	return name
}

// endsWithin reports whether p ends in that time, or the torture is stopped.
func endsWithin(p *try.Process, stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.Done:
		return true
	case <-stop:
		return true
	case <-timer.C:
		return false
	}
}

// sights follows files by what is added to them.
type sights struct {
	glob string
	read map[string]int64 // how much of each has been read
	seen int
}

// look begins to follow the files that the pattern names: what they hold now does not count.
func look(glob string) *sights {
	s := &sights{glob: glob, read: map[string]int64{}}
	files, _ := filepath.Glob(glob)
	for _, f := range files {
		s.read[f] = 0
		if info, err := os.Stat(f); err == nil {
			s.read[f] = info.Size()
		}
	}
	return s
}

// see returns how often the text, or a new file, has come since.
func (s *sights) see(text string) int {
	files, _ := filepath.Glob(s.glob)
	for _, f := range files {
		from, known := s.read[f]
		switch {
		case text != "":
			s.count(f, from, text)
		case !known:
			s.read[f] = 0
			s.seen++
		}
	}
	return s.seen
}

// count reads what was added to a file. One that has become smaller was begun anew.
func (s *sights) count(path string, from int64, text string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // only read from
	if info, err := f.Stat(); err == nil && info.Size() < from {
		from = 0
	}
	data, err := io.ReadAll(io.NewSectionReader(f, from, math.MaxInt64-from))
	if err != nil {
		return
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	s.seen += bytes.Count(whole, []byte(text))
	s.read[path] = from + int64(len(whole))
}
