package natsfleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// write makes a file below the directory of the run.
func (f *field) write(name, text string, mode os.FileMode) {
	f.t.Helper()
	path := filepath.Join(f.root, "run", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
		f.t.Fatal(err)
	}
}

// runFiles runs a workflow whose directory is not shared.
func (f *field) runFiles(source string) (mapreduce.Result, error) {
	f.t.Helper()
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	dir := filepath.Join(f.root, "run")
	c, coordinator := f.config(func(o *fleet.JobOptions) {
		o.Dir, o.Produces = dir, w.Map.Produces
		for _, pattern := range w.Map.Files {
			o.Files = append(o.Files, pattern.Value)
		}
	})
	c.Dir = dir
	r, err := mapreduce.Run(f.t.Context(), c, w, []byte(source))
	return r, errors.Join(err, coordinator.Close())
}

// Commands run beside the files that were sent and no others, and what they produce comes back.
func TestFilesAreSentAndWhatIsProducedComesBack(t *testing.T) {
	f := newField(t)
	f.worker("a", 2, nil)
	large := strings.Repeat("0123456789abcdef", 3<<20/16)
	f.write("scripts/deep/run.sh", "#!/bin/sh\nmkdir -p out/$1.d; pwd >out/$1.d/pwd; cat data/in.csv >out/$1.csv; ls -A >out/$1.d/ls; chmod +x out/$1.csv; echo $1 >unwanted\n", 0o700)
	f.write("data/in.csv", large, 0o600)
	f.write("data/other.csv", "x", 0o600)
	const source = "mode: mapreduce\nmap:\n  files: [scripts/**, data/in.csv]\n  produces: ['out/${item}.csv', 'out/${item}.d']\n  input: [1, 2, 3]\n" +
		"  agent_template: [{shell: 'ls data; ./scripts/deep/run.sh ${item}'}]\n"
	for range 2 {
		if err := os.RemoveAll(filepath.Join(f.root, "run", "out")); err != nil {
			t.Fatal(err)
		}
		r, err := f.runFiles(source)
		if err != nil || r.Metrics.Successful != 3 {
			t.Fatalf("got %s (%s) with %+v, %v, want 3 successful", r.State, r.Reason, r.Metrics, err)
		}
		for i := range 3 {
			at := func(name string) string { return filepath.Join(f.root, "run", "out", fmt.Sprint(i+1)+name) }
			if data, err := os.ReadFile(at(".csv")); err != nil || string(data) != large {
				t.Errorf("%s: %d bytes, %v, want what was sent", at(".csv"), len(data), err)
			}
			if info, err := os.Stat(at(".csv")); err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("%s cannot be executed: %v", at(".csv"), err)
			}
			if data, err := os.ReadFile(at(".d/pwd")); err != nil || !strings.HasPrefix(string(data), filepath.Join(f.root, "a", "jobs")) {
				t.Errorf("it ran in %q, %v, want a directory of the worker", data, err)
			}
		}
		for _, rec := range recordsOf(t, r.Job) {
			if e, ok := rec.Event.(events.AgentCompleted); ok && (e.Output != "in.csv" || len(e.Produced) != 2) {
				t.Errorf("%s saw %q and left %v, want in.csv alone and two files", e.ItemID, e.Output, e.Produced)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(f.root, "run", "unwanted")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the workflow does not name has come back: %v", err)
	}
	if cached, _ := filepath.Glob(filepath.Join(f.root, "a", "cache", "*")); len(cached) != 2 {
		t.Errorf("the worker keeps %v, want both files once", cached)
	}
	if parts, _ := filepath.Glob(filepath.Join(f.root, "run", "*", ".prodigy-*")); len(parts) > 0 {
		t.Errorf("left behind: %v", parts)
	}
}

func TestFilesThatCannotBeSentEndTheJob(t *testing.T) {
	f := newField(t)
	f.write("here", "x", 0o600)
	if err := os.Symlink("/etc/passwd", filepath.Join(f.root, "run", "link")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"link":      "link: it is not a regular file",
		"nothing/*": "nothing/* matches nothing",
		"../*":      "files: ../* is not below",
		"/etc/*":    "files: /etc/* is not below",
	} {
		r, err := f.runFiles("mode: mapreduce\nmap:\n  files: ['" + pattern + "']\n  input: [1]\n  agent_template: [{shell: 'true'}]\n")
		if got := fmt.Sprint(r.Reason, err); r.State == jobs.Completed || !strings.Contains(got, want) {
			t.Errorf("%s: got %s (%s), want %q", pattern, r.State, got, want)
		}
	}
}

func TestWhatDoesNotComeBackIsAFailure(t *testing.T) {
	f := newField(t)
	f.worker("a", 2, nil)
	f.write("here", "x", 0o600)
	r, err := f.runFiles("mode: mapreduce\nerror_policy: {on_item_failure: dlq}\nmap:\n  files: [here]\n  produces: 'out-${item}'\n  input: [link, none, huge, good]\n" +
		"  agent_template:\n    - shell: |\n        case ${item} in link) ln -s /etc/passwd out-link;; huge) dd if=/dev/null of=out-huge bs=1 count=0 seek=1073741825;; good) echo x >out-good;; esac\n")
	if err != nil || r.Metrics.Successful != 1 || r.Metrics.Failed != 3 {
		t.Fatalf("got %s (%s) with %+v, %v, want one successful and three failed", r.State, r.Reason, r.Metrics, err)
	}
	for _, rec := range recordsOf(t, r.Job) {
		if e, ok := rec.Event.(events.AgentFailed); ok && e.ErrorType != retry.TypeMissingOutput {
			t.Errorf("%s: %s: %s, want %s", e.ItemID, e.ErrorType, e.Error, retry.TypeMissingOutput)
		}
	}
	if _, err := os.Lstat(filepath.Join(f.root, "run", "out-link")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link has come back: %v", err)
	}
}

// Where an item is to write is its own, in a directory that is shared and where files are sent.
func TestEachItemIsToldWhereItWrites(t *testing.T) {
	t.Parallel()
	for _, files := range []string{"", "files: [here], "} {
		t.Run(files, func(t *testing.T) {
			f := newField(t)
			f.worker("a", 2, nil)
			f.write("here", "x", 0o600)
			r, err := f.runFiles("mode: mapreduce\nmap: {" + files + "produces: 'out-${item}', input: [1, 2, 3], agent_template: [{shell: 'echo of ${item} >${produces}; test \"$PRODIGY_PRODUCES\" = ${produces}'}]}\n")
			if err != nil || r.Metrics.Successful != 3 {
				t.Fatalf("got %s (%s) with %+v, %v, want 3 successful", r.State, r.Reason, r.Metrics, err)
			}
			for i := range 3 {
				want := fmt.Sprintf("of %d\n", i+1)
				if text, err := os.ReadFile(filepath.Join(f.root, "run", fmt.Sprint("out-", i+1))); err != nil || string(text) != want {
					t.Errorf("item %d has left %q, %v, want %q", i+1, text, err, want)
				}
			}
		})
	}
}

// What an item has left is not lost, nor its failure, while the broker is away or has lost what keeps it.
func TestWhatIsProducedWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(f *field, h *brokerConn){
		"its disk is lost": func(f *field, h *brokerConn) {
			if err := h.js.DeleteObjectStore(t.Context(), filesStore); err != nil {
				t.Error(err)
			}
			f.write("../end", "", 0o600)
			time.Sleep(300 * time.Millisecond) // as long as a coordinator takes that has to connect again
			if err := ensureStreams(t.Context(), h); err != nil {
				t.Error(err)
			}
		},
		"it is away": func(f *field, _ *brokerConn) {
			address := f.broker.Addr().String()
			f.broker.Shutdown()
			f.broker.WaitForShutdown()
			f.write("../end", "", 0o600)
			time.Sleep(300 * time.Millisecond)
			port, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
			if err != nil {
				t.Error(err)
			}
			f.start(port)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newField(t)
			h, err := connect(t.Context(), f.address(), "test", ensureStreams, func() {})
			if err != nil {
				t.Fatal(err)
			}
			defer h.nc.Close()
			f.worker("a", 2, nil)
			f.write("here", "x", 0o600)
			f.doing.Go(func() {
				if f.untilRunning(2) {
					does(f, h)
				}
			})
			r, err := f.runFiles("mode: mapreduce\nmap:\n  files: [here]\n  produces: 'out-${item}'\n  input: [1, 2]\n" +
				"  agent_template: [{shell: 'echo run >>" + f.root + "/runs-${item}; until [ -e " + f.root + "/end ]; do sleep 0.02; done; cp here out-${item}'}]\n")
			if err != nil {
				t.Fatal(err)
			}
			f.once(r, 2)
		})
	}
}

// No path and no link leads a file out of its directory, and one that comes in half is not there.
func TestInstallStaysInItsDirectory(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	whole := func(to *os.File) error { _, err := to.WriteString("x"); return err }
	for _, path := range []string{"../x", "/x", "a/../../x", "away/x", ""} {
		if err := install(root, fleet.File{Path: path}, ".part", whole); err == nil {
			t.Errorf("%q was written", path)
		}
	}
	if err := install(root, fleet.File{Path: "a/b"}, ".part", func(to *os.File) error { return errors.Join(whole(to), errObjectGone) }); err == nil {
		t.Error("half a file was written")
	}
	if err := install(root, fleet.File{Path: "a/c"}, ".part", whole); err != nil {
		t.Error(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "a", "*"))
	if out, _ := filepath.Glob(filepath.Join(outside, "*")); len(out) > 0 || len(left) != 1 {
		t.Errorf("got %v and %v outside, want only a/c", left, out)
	}
}

// opened opens a file for a test.
func opened(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A worker that sends a file asks for nothing that it may not do: what it has sent belongs to the coordinator.
func TestAWorkerAsksForNoRemoval(t *testing.T) {
	f := securedField(t, "a")
	coordinator, err := connect(t.Context(), f.as("coordinator.yml"), "test", ensureStreams, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.nc.Close()
	worker, err := connect(t.Context(), f.as("worker-a.yml"), "test", responsive, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.nc.Close()
	f.write("made", "made", 0o600)
	if _, err := worker.putFile(t.Context(), "job/made-1", opened(t, filepath.Join(f.root, "run", "made"))); err != nil {
		t.Error(err)
	}
	if err := worker.nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := worker.nc.LastError(); err != nil {
		t.Errorf("the worker was refused something: %v", err)
	}
	// What was sent in part is the coordinator's, which removes what is of a job.
	if err := coordinator.clear(t.Context(), "job"); err != nil {
		t.Error(err)
	}
	if is, err := coordinator.sumOf(t.Context(), "job/made-1"); is != "" || err != nil {
		t.Errorf("it is still there: %q, %v", is, err)
	}
}

// An object that was sent in part, by a coordinator that was killed meanwhile, is not taken for the file.
func TestAnObjectWithAnotherContentIsNotTheFile(t *testing.T) {
	f := newField(t)
	h, err := connect(t.Context(), f.address(), "test", ensureStreams, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.nc.Close()
	whole := sha256.Sum256([]byte("whole"))
	for _, content := range []string{"wh", "whole"} {
		if err := h.put(t.Context(), "job/file", []byte(content)); err != nil {
			t.Fatal(err)
		}
		is, err := h.sumOf(t.Context(), "job/file")
		if has := is == hex.EncodeToString(whole[:]); err != nil || has != (content == "whole") {
			t.Errorf("with %q: %v, %v", content, has, err)
		}
	}
}

// Once an attempt has reported its end, its worker may die while what it has left is fetched.
func TestAnAttemptThatHasEndedIsNotLostWithItsWorker(t *testing.T) {
	f := newField(t)
	f.write("in.txt", "in", 0o600)
	_, of := f.config(func(o *fleet.JobOptions) {
		o.Dir, o.Files, o.Produces = filepath.Join(f.root, "run"), []string{"in.txt"}, []workflow.Text{{Value: "made"}}
	})
	c := of.(*coordinator)
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	for range cap(c.slow.fetching) {
		c.slow.fetching <- struct{}{} // what others have left is fetched
	}
	ended := make(chan error, 1)
	c.Submit(t.Context(), attemptAt(f, 1, "true"), func(_ *agent.Attempt, _ agent.Outcome, err error) { ended <- err })
	p := f.puppet(c)
	token := p.take()
	f.write("made", "made", 0o600)
	file, err := c.putFile(t.Context(), c.key+"/made-1", opened(t, filepath.Join(f.root, "run", "made")))
	if err != nil {
		t.Fatal(err)
	}
	file.Path = "made"
	r := p.report(token, 1, fleet.Ended)
	r.Files = []fleet.File{file}
	p.say([]int64{token}, r)
	if !eventually(func() (fetches bool) {
		c.turn(func(s *jobState) { fetches = s.ledger.Fetches(token) })
		return fetches
	}) {
		t.Fatal("nothing is fetched")
	}
	c.turn(func(s *jobState) {
		if c.endLost(s, fleet.Loss{Token: token, Node: "puppet", Began: true}) {
			t.Error("it is lost")
		}
	})
	for range cap(c.slow.fetching) {
		<-c.slow.fetching
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A worker cannot fill the disk of the run: neither with many files, nor with large ones, nor with one that is larger than it says.
func TestAWorkerCannotSendTooMuch(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	c.produces = func(string, json.RawMessage) ([]string, error) { return []string{"out"}, nil }
	large := bytes.Repeat([]byte("x"), 300<<10)
	if err := c.put(t.Context(), "job/large", large); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(large)
	many := make([]fleet.File, mostProduced+1)
	for i := range many {
		many[i] = fleet.File{Path: fmt.Sprint("out/", i), Object: "job/large", Size: int64(len(large)), Sum: hex.EncodeToString(sum[:])}
	}
	one := func(size int64) fleet.File { return fleet.File{Path: "out/x", Object: "job/large", Size: size} }
	f1 := newFlight(t.Context(), &agent.Attempt{Assignment: agent.Assignment{Token: 1}})
	c.turn(func(s *jobState) { s.flights[1] = f1 })
	for want, files := range map[string][]fleet.File{
		"more than 10000 files": many,
		"more than 1 GiB":       {one(mostFiles/2 + 1), one(mostFiles / 2)},
		"sent too much":         {one(-5), one(mostFiles + 1)},
		"differs from what was": {one(5)},
	} {
		err := c.fetchMade(f1, files)
		if _, lost := errors.AsType[*agent.LostError](err); !lost || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	c.turn(func(s *jobState) { delete(s.flights, 1) })
	if left, _ := filepath.Glob(filepath.Join(c.o.Dir, "out", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A worker that does not have a file that the broker has lost cannot begin anything. When the file cannot be sent again, the run says so and is stopped.
func TestAFileThatCannotBeSentAgainStopsTheRun(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(path string) error{
		"it has changed since the job started": func(path string) error { return os.WriteFile(path, []byte("changed"), 0o600) },
		"no such file or directory":            os.Remove,
	} {
		t.Run(want, func(t *testing.T) {
			f := newField(t)
			f.write("in", "as it was", 0o600)
			_, of := f.config(func(o *fleet.JobOptions) { o.Dir, o.Files = filepath.Join(f.root, "run"), []string{"in"} })
			c := of.(*coordinator)
			t.Cleanup(func() { _ = c.Close() })
			var causes []error
			onAbort(c, func(cause error) { causes = append(causes, cause) })
			if err := c.open(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
			if err := c.remove(t.Context(), c.key+"/file-"+c.state.shared.files[0].Sum); err != nil {
				t.Fatal(err)
			}
			if err := change(filepath.Join(f.root, "run", "in")); err != nil {
				t.Fatal(err)
			}
			if _, err := c.invoke(fleet.Call{Method: callSendAgain, Args: encoded(callArgs{Name: "in"})}); err == nil {
				t.Error("it is sent again")
			}
			if len(causes) != 1 || !strings.Contains(causes[0].Error(), "the broker lost in: ") || !strings.Contains(causes[0].Error(), want) {
				t.Errorf("the run is stopped with %v, want %q", causes, want)
			}
		})
	}
}

// A file that the broker has lost, or has another content of, is sent again when a worker misses it.
func TestAFileThatIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"it is lost": "", "somebody has altered it": "altered"} {
		t.Run(name, func(t *testing.T) {
			f := newField(t)
			f.write("in", "as it was", 0o600)
			_, of := f.config(func(o *fleet.JobOptions) { o.Dir, o.Files = filepath.Join(f.root, "run"), []string{"in"} })
			c := of.(*coordinator)
			t.Cleanup(func() { _ = c.Close() })
			if err := c.open(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
			object := c.key + "/file-" + c.state.shared.files[0].Sum
			if err := c.remove(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if content != "" {
				if err := c.put(t.Context(), object, []byte(content)); err != nil {
					t.Fatal(err)
				}
			}
			w := newTestWorker(t)
			w.brokerConn = c.brokerConn
			w.node.Instance = w.instance()
			path, err := w.cached(t.Context(), newTestJob(w, c.key, time.Minute), c.state.shared.files[0])
			data, readErr := os.ReadFile(path)
			if err != nil || readErr != nil || string(data) != "as it was" {
				t.Errorf("got %q, %v, %v, want the file", data, err, readErr)
			}
		})
	}
}

// What was not used for longest goes, but for what is in use.
func TestWhatAWorkerKeepsForOthersIsBounded(t *testing.T) {
	dir := t.TempDir()
	for days, name := range []string{"new/data", "used/data", "old"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, make([]byte, 1000), 0o600)); err != nil {
			t.Fatal(err)
		}
		at, entry := time.Now().AddDate(0, 0, -days), strings.Split(name, "/")[0]
		if err := os.Chtimes(filepath.Join(dir, entry), at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, most := range []int64{2500, 1500} {
		if err := pruneOldest(dir, most, func(name string) bool { return name == "used" }); err != nil {
			t.Fatal(err)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if want := map[int64]int{2500: 2, 1500: 1}[most]; len(left) != want || filepath.Base(left[want-1]) != "used" {
			t.Errorf("left of at most %d bytes: %v", most, left)
		}
	}
}
