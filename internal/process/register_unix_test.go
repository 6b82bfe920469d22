//go:build linux || darwin

package process

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// abandon runs the script that ABANDON holds, with a register, and is killed before it ends.
func abandon() int {
	var watcher []string
	switch os.Getenv("WATCHED") {
	case "awake":
		watcher = []string{os.Args[0], watchWord}
	case "asleep":
		watcher = Asleep([]string{os.Args[0], watchWord})
	case "asleep, removed":
		watcher = Asleep([]string{"/removed", watchWord})
	}
	register, err := OpenRegister(os.Getenv("REGISTER"), long, watcher...)
	if err != nil {
		return 1
	}
	c := sh(os.Getenv("ABANDON"))
	c.Stdout, c.Register, c.EndAll = os.Stdout, register, os.Getenv("END_ALL") != ""
	_, _ = Run(context.Background(), c)
	return 2
}

// recorded waits in a script until its process is in the register.
const recorded = `until grep -q "^$$ " "$REGISTER"; do :; done; `

// leave lets a process run script and kills that process when the script has printed a line, which leave
// returns with the path of the register.
func leave(t *testing.T, script string) (line, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "processes")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ABANDON="+recorded+script, "REGISTER="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), path
}

// living tells whether any process of a group that is not a zombie is there.
func living(t *testing.T, group int) bool {
	t.Helper()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.group == group && !m.zombie {
			return true
		}
	}
	return false
}

func endLeftovers(t *testing.T, path string, grace time.Duration, want int) {
	t.Helper()
	got, err := EndLeftovers(t.Context(), path, grace)
	if err != nil || got != want {
		t.Errorf("got %d groups ended and error %v, want %d and none", got, err, want)
	}
}

// groupOf returns the only group that a register holds.
func groupOf(t *testing.T, path string) int {
	t.Helper()
	_, records, err := readRegister(path)
	if err != nil || len(records) != 1 {
		t.Fatalf("got records %v and error %v, want one record", records, err)
	}
	pid := records[0].pid
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	return pid
}

func TestLeftoversOfADeadRunAreEnded(t *testing.T) {
	tests := []struct {
		name, script string
		grace        time.Duration
	}{
		{"at once", "echo $$; sleep 1000; true", 0},
		{"by SIGTERM", "echo $$; sleep 1000; true", long},
		{"that ignore SIGTERM", "trap '' TERM; echo $$; while :; do sleep 1000; done", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			line, path := leave(t, test.script)
			pid := groupOf(t, path)
			if strconv.Itoa(pid) != line {
				t.Fatalf("got group %d recorded, want %s", pid, line)
			}
			endLeftovers(t, path, test.grace, 1)
			if living(t, pid) {
				t.Errorf("group %d lives, want it ended", pid)
			}
			endLeftovers(t, path, test.grace, 0)
		})
	}
}

// What a group starts when it gets SIGTERM gets SIGTERM too, in a group of its own as well.
func TestWhatLeftoversStartAtTheirEndIsEnded(t *testing.T) {
	if BootID() == "-" {
		t.Skip("the environment of sleep cannot be seen here")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash, which needs no terminal to start groups")
	}
	_, path := leave(t, `exec bash -c "trap 'set -m; sleep 1000 & exit' TERM; echo \$\$; while :; do sleep 0.05; done"`)
	groupOf(t, path)
	endLeftovers(t, path, long, 2)
	endLeftovers(t, path, long, 0)
}

func TestMembersWhoseLeaderIsGoneAreEnded(t *testing.T) {
	if BootID() == "-" {
		t.Skip("the environment of sleep cannot be seen here")
	}
	line, path := leave(t, "sleep 1000 & echo $!; wait")
	pid := groupOf(t, path)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, pid)
	if !living(t, pid) {
		t.Fatalf("the child %s of the leader has ended too, want it to live", line)
	}
	endLeftovers(t, path, long, 1)
	if living(t, pid) {
		t.Errorf("child %s lives, want it ended", line)
	}
}

// awaitGone waits until a process is no more than a zombie.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for t.Context().Err() == nil {
		all, err := processes()
		if err != nil {
			t.Fatal(err)
		}
		gone := true
		for _, m := range all {
			gone = gone && (m.pid != pid || m.zombie)
		}
		if gone {
			return
		}
	}
}

// The kill may come between the start of a command and its record.
func TestACommandThatWasNotYetRecordedIsEndedByItsMark(t *testing.T) {
	if BootID() == "-" {
		t.Skip("the environment of sh cannot be seen here")
	}
	_, path := leave(t, "echo $$; sleep 1000; true")
	pid := groupOf(t, path)
	forget(t, path)
	endLeftovers(t, path, long, 1)
	if living(t, pid) {
		t.Errorf("group %d lives, want it ended", pid)
	}
}

// A daemon that a step has started on purpose outlives a crash as it outlives the step.
func TestASessionThatACommandHasStartedIsLeftAlone(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	line, path := leave(t, "setsid sh -c 'echo $$; sleep 1000; true' & wait")
	groupOf(t, path)
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	endLeftovers(t, path, long, 1)
	if !living(t, pid) {
		t.Errorf("session %d was ended, want it left alone", pid)
	}
}

// forget takes the records from a register, but not its owner.
func forget(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, recordSize); err != nil {
		t.Fatal(err)
	}
}

func TestTheWatcherEndsWhatIsLeftOfItsOwnRunOnly(t *testing.T) {
	for name, test := range map[string]struct {
		mark    func(of string) string
		removed bool // with its directory
		lives   bool
	}{
		"its own":                          {mark: func(of string) string { return of }},
		"its own, which is removed":        {mark: func(of string) string { return of }, removed: true},
		"of a run that came after its own": {mark: func(string) string { return "another" }, lives: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, path := leave(t, "echo $$; sleep 1000; true")
			pid := groupOf(t, path)
			owner, _, err := readRegister(path)
			if err != nil {
				t.Fatal(err)
			}
			register, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = register.Close() }()
			lifeline, end := io.Pipe()
			watched := make(chan error)
			go func() { watched <- Watch(t.Context(), lifeline, register, path, test.mark(owner.mark), long) }()
			if test.removed {
				if err := os.RemoveAll(filepath.Dir(path)); err != nil {
					t.Fatal(err)
				}
			}
			if !living(t, pid) {
				t.Errorf("group %d has ended, want it to live as long as the lifeline", pid)
			}
			if err := end.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-watched; err != nil {
				t.Error(err)
			}
			if got := living(t, pid); got != test.lives {
				t.Errorf("group %d lives: got %t, want %t", pid, got, test.lives)
			}
		})
	}
}

// The watcher is there before the first command, and is gone with its register.
func TestTheWatcherLivesAsLongAsItsRegister(t *testing.T) {
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	watch := `printf '%s\n' "$$" "$@" > "$0"; exec sleep 1000`
	register, err := OpenRegister(filepath.Join(dir, "processes"), time.Second, "sh", "-c", watch, told)
	if err != nil {
		t.Fatal(err)
	}
	c := sh(`until test -s "$TOLD"; do :; done`)
	c.Env = append(c.Env, "TOLD="+told)
	c.Register = register
	for range 2 {
		mustRun(t, t.Context(), c)
	}
	data, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	want := []string{filepath.Join(dir, "processes"), register.owner.mark, "1s"}
	if len(words) != 4 || !slices.Equal(words[1:], want) {
		t.Fatalf("the watcher was told %v, want its id and %v", words, want)
	}
	if err := register.Close(); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, there := startIDOf(pid); there {
		t.Errorf("the watcher %d is still there", pid)
	}
}

// The first command may kill its owner at once: the watcher has to be there before it. KILLS is how often that
// is tried.
func TestNothingIsLeftByACommandThatKillsItsOwner(t *testing.T) {
	for _, watcher := range []string{"awake", "asleep", "asleep, removed"} {
		t.Run(watcher, func(t *testing.T) {
			if _, err := os.Stat("/proc/self/exe"); err != nil && strings.Contains(watcher, "removed") {
				t.Skip("a program that has been removed cannot be started here")
			}
			testKilledOwners(t, watcher)
		})
	}
}

func testKilledOwners(t *testing.T, watcher string) {
	rounds := 10
	if n, err := strconv.Atoi(os.Getenv("KILLS")); err == nil {
		rounds = n
	}
	left := 0
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ABANDON=sleep 1000 & echo $!; kill -9 $PPID", "WATCHED="+watcher, "REGISTER="+filepath.Join(t.TempDir(), "processes"))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if !endsSoon(t, pid) {
			left++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if left > 0 {
		t.Errorf("%d of %d kills left a process behind", left, rounds)
	}
}

// endsSoon reports whether a process is no more than a zombie within the time that nothing takes here.
func endsSoon(t *testing.T, pid int) bool {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); {
		all, err := processes()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(m member) bool { return m.pid == pid && !m.zombie }) {
			return true
		}
	}
	return false
}

// No process is signalled that is not shown to be the recorded one.
func TestOthersWithARecordedIDAreLeftAlone(t *testing.T) {
	for name, forge := range map[string]func(*record){
		"another start id": func(r *record) { r.startID += "1" },
		"another boot":     func(r *record) { r.boot = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			pid := outlaw(t)
			startID, ok := startIDOf(pid)
			if !ok {
				t.Fatalf("got no startID of process %d", pid)
			}
			forged := record{pid: pid, startID: startID, boot: BootID(), mark: "mark"}
			forge(&forged)
			path := filepath.Join(t.TempDir(), "processes")
			if err := os.WriteFile(path, forged.text(), 0o600); err != nil {
				t.Fatal(err)
			}
			endLeftovers(t, path, 0, 0)
			if !living(t, pid) {
				t.Errorf("process %d was killed, want it left alone", pid)
			}
		})
	}
}

// outlaw starts a process that leads a group and is in no register.
func outlaw(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestWhatHasEndedIsNotInTheRegister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes")
	register, err := OpenRegister(path, long)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = register.Close() }()
	during := filepath.Join(t.TempDir(), "during")
	c := sh(recorded + `cp "$REGISTER" "$COPY"; printf %s "$PRODIGY_REGISTER"`)
	var out Capture
	c.Env = append(c.Env, "REGISTER="+path, "COPY="+during)
	c.Register, c.Stdout = register, &out
	mustRun(t, t.Context(), c)

	_, running, err := readRegister(during)
	if err != nil || len(running) != 1 {
		t.Errorf("got records %v and error %v while the command ran, want one record", running, err)
	}
	if out.Text() != register.owner.mark {
		t.Errorf("got mark %q in the environment, want %q", out.Text(), register.owner.mark)
	}
	if _, after, err := readRegister(path); err != nil || len(after) > 0 {
		t.Errorf("got records %v and error %v after it, want none", after, err)
	}
}

func TestARegisterThatIsMissingOrTornNamesNothing(t *testing.T) {
	dir := t.TempDir()
	torn := filepath.Join(dir, "torn")
	text := record{pid: 77, startID: "1", boot: "b", mark: "m"}.text()
	if err := os.WriteFile(torn, append(make([]byte, recordSize), text[:4]...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), torn} {
		endLeftovers(t, path, 0, 0)
	}
}

// Commands of one attempt may run at once: each has a line of its own, and lines are used again.
func TestCommandsThatRunAtOnceHaveLinesOfTheirOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes")
	register, err := OpenRegister(path, long)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = register.Close() }()
	one, two := register.Begin(os.Getpid()), register.Begin(os.Getpid())
	if one == two {
		t.Fatalf("got line %d for both", one)
	}
	register.End(one)
	if _, left, err := readRegister(path); err != nil || len(left) != 1 {
		t.Errorf("got records %v and error %v, want that of the one that runs", left, err)
	}
	if again := register.Begin(os.Getpid()); again != one {
		t.Errorf("got line %d, want %d, which is free", again, one)
	}
}

func BenchmarkRegister(b *testing.B) {
	register, err := OpenRegister(filepath.Join(b.TempDir(), "processes"), long)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		register.End(register.Begin(os.Getpid()))
	}
}

// A process that is frozen cannot end its commands. Its watcher does, in time.
func TestWhatASilentProcessRunsIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes")
	r, err := OpenRegister(path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	lifeline, beats := io.Pipe()
	watched := make(chan error, 1)
	go func() { watched <- Watch(t.Context(), lifeline, r.file, path, r.owner.mark, time.Second) }()
	say := func(text string) {
		if _, err := beats.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	ended := make(chan Exit, 1)
	go func() {
		exit, err := Run(t.Context(), Command{Argv: []string{"sleep", "60"}, Register: r})
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	say("1h\n")
	say("0s\n")
	select {
	case exit := <-ended:
		t.Fatalf("it ended with %+v although its owner may be silent", exit)
	case <-time.After(100 * time.Millisecond):
	}
	say("50ms\n")
	select {
	case exit := <-ended:
		if exit.Signal != "SIGKILL" {
			t.Errorf("got %+v, want SIGKILL", exit)
		}
	case <-time.After(20 * time.Second):
		t.Error("the command still runs")
	}
	_ = beats.Close()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}
