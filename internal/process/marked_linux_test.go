package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// away is a script that starts $TOOL in a session of its own and waits until it runs. The tool says so by its
// process id in the file $PID.
const away = `setsid sh -c "$TOOL" & until test -s "$PID"; do :; done; `

// tool returns a command that runs away and then script, and what reads the process id of the tool.
func tool(t *testing.T, tool, script string) (c Command, pid func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	c = sh(away + script)
	c.Env = append(c.Env, "TOOL="+tool, "PID="+file)
	return c, func() int {
		pid, ok := readPID(t, file)
		if !ok {
			t.Fatal("the tool has not started")
		}
		return pid
	}
}

// readPID is not ok when there is no process id in the file yet.
func readPID(t *testing.T, file string) (pid int, ok bool) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, false
	}
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	return pid, true
}

// cutOff runs a command with EndAll that starts the tool and then script, and ends it in the given way after a
// while: after a longer one when the tool had not started by then. It returns the process id of the tool, which
// ran when the end came.
func cutOff(t *testing.T, toolScript, script string, end func(c *Command, after time.Duration) context.Context) (Exit, int) {
	t.Helper()
	for after := 100 * time.Millisecond; ; after *= 2 {
		c, _ := tool(t, toolScript, script)
		c.EndAll, c.Grace = true, long
		exit, _ := Run(end(&c, after), c)
		if pid, ok := readPID(t, strings.TrimPrefix(c.Env[len(c.Env)-1], "PID=")); ok {
			return exit, pid
		}
	}
}

func byTimeout(c *Command, after time.Duration) context.Context {
	c.Timeout = after
	return context.Background()
}

func byCause(cause error) func(*Command, time.Duration) context.Context {
	return func(_ *Command, after time.Duration) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(after, func() { cancel(cause) })
		return ctx
	}
}

// withGrace returns end for a command with this grace.
func withGrace(grace time.Duration, end func(*Command, time.Duration) context.Context) func(*Command, time.Duration) context.Context {
	return func(c *Command, after time.Duration) context.Context {
		c.Grace = grace
		return end(c, after)
	}
}

func TestAllThatACommandHasStartedEndsWithIt(t *testing.T) {
	const sleeper = `echo $$ > "$PID"; sleep 1000; true`
	tools := map[string]string{
		"in a session":                                 sleeper,
		"that ignores SIGTERM":                         "trap '' TERM; " + sleeper,
		"whose parents are gone":                       `setsid sh -c 'setsid sh -c "echo \$\$ > \"$PID\"; sleep 1000; true" &' &`,
		"in a group that hides its mark":               `echo $$ > "$PID"; env -i sleep 1000; true`,
		"in a group that hides it and ignores SIGTERM": `echo $$ > "$PID"; env -i PATH="$PATH" sh -c "trap '' TERM; while :; do sleep 1; done"; true`,
	}
	for what, script := range tools {
		for how, test := range map[string]struct {
			rest string
			end  func(*Command, time.Duration) context.Context
			want Exit
		}{
			"by itself":      {"exit 3", func(*Command, time.Duration) context.Context { return context.Background() }, Exit{Code: 3}},
			"by its timeout": {"sleep 1000; true", byTimeout, Exit{Code: -1, TimedOut: true}},
			"by a stop":      {"sleep 1000; true", byCause(context.Canceled), Exit{Code: -1}},
			"by a kill":      {"sleep 1000; true", byCause(ErrKill), Exit{Code: -1}},
		} {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				exit, pid := cutOff(t, script, test.rest, withGrace(time.Second, test.end))
				if exit.Code != test.want.Code || exit.TimedOut != test.want.TimedOut {
					t.Errorf("got exit %+v, want %+v", exit, test.want)
				}
				if living(t, pid) {
					t.Errorf("the tool %d lives", pid)
				}
			})
		}
	}
}

// A process that takes SIGTERM well has the grace for it, wherever it is.
func TestWhatHasLeftTheGroupGetsTheGraceToo(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	t.Setenv("SAID", said)
	script := `trap 'sleep 0.2; echo bye > "$SAID"; exit' TERM; echo $$ > "$PID"; while :; do sleep 0.05; done`
	_, pid := cutOff(t, script, "exec sleep 1000", byTimeout)
	if living(t, pid) {
		t.Error("the tool lives")
	}
	if got, err := os.ReadFile(said); err != nil || string(got) != "bye\n" {
		t.Errorf("the tool said %q, error %v; want bye", got, err)
	}
}

// Each command has a mark of its own, so its end is not that of what others have started.
func TestWhatOthersHaveStartedLivesOn(t *testing.T) {
	register, err := OpenRegister(filepath.Join(t.TempDir(), "processes"), long)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = register.Close() }()
	const sleeper = `echo $$ > "$PID"; sleep 1000; true`
	daemon, daemonPID := tool(t, sleeper, "true")
	daemon.Register = register
	mustRun(t, t.Context(), daemon)

	ctx, cancel := context.WithCancel(t.Context())
	other, otherPID := tool(t, sleeper, "echo; sleep 1000; true")
	started, line, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	other.EndAll, other.Register, other.Stdout = true, register, line
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = Run(ctx, other) }()
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}

	one, onePID := tool(t, sleeper, "true")
	one.EndAll, one.Register = true, register
	mustRun(t, t.Context(), one)
	if living(t, onePID()) || !living(t, otherPID()) || !living(t, daemonPID()) {
		t.Errorf("living: got its own %t, that of another %t, of one without EndAll %t; want false, true, true",
			living(t, onePID()), living(t, otherPID()), living(t, daemonPID()))
	}
	cancel()
	<-ended
	if living(t, otherPID()) {
		t.Error("the tool of the other lives on behind it")
	}
}

// A prodigy may run in a command of another one, whose end is that of all.
func TestMarksAddUp(t *testing.T) {
	inner := marksWith("inner", []string{"A=b", markedVar + "=outer", "C=d"})
	if want := markedVar + "=outer:inner"; inner != want {
		t.Fatalf("got %s, want %s", inner, want)
	}
	for kv, want := range map[string]bool{
		inner: true, markedVar + "=outer": true, markedVar + "=inner": false, markedVar + "=outer2": false, markedVar + "=": false,
		"OTHER=outer": false, markedVar + "X=outer": false,
	} {
		if got := hasMark(kv, func(mark string) bool { return mark == "outer" }); got != want {
			t.Errorf("%s: got %t, want %t", kv, got, want)
		}
	}
	t.Setenv(markedVar, "outer")
	_, pid := cutOff(t, `echo $$ > "$PID"; sleep 1000; true`, "exec sleep 1000", withGrace(0, byTimeout))
	if living(t, pid) {
		t.Error("the tool of a command with marks around it lives")
	}
}

// When prodigy itself was killed, whoever ends its leftovers ends these too.
func TestWhatHasLeftTheSessionOfADeadRunIsEndedByItsMark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("TOOL", `echo $$ > "$PID"; sleep 1000; true`)
	t.Setenv("PID", file)
	t.Setenv("END_ALL", "1")
	_, path := leave(t, away+"echo; sleep 1000; true")
	group := groupOf(t, path)
	pid, ok := readPID(t, file)
	if !ok {
		t.Fatal("the tool has not started")
	}
	endLeftovers(t, path, long, 2)
	if living(t, group) || living(t, pid) {
		t.Errorf("living: got the group %t and the tool %t, want neither", living(t, group), living(t, pid))
	}
}

// BenchmarkEndAll is what EndAll costs a command.
func BenchmarkEndAll(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	for _, all := range []bool{false, true} {
		b.Run(fmt.Sprint(all), func(b *testing.B) {
			for b.Loop() {
				if _, err := Run(b.Context(), Command{Argv: []string{path}, EndAll: all}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
