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

// away is a script that starts $TOOL in a session of its own and waits until it runs. The tool says so by its process id in the file $PID.
const away = `setsid sh -c "$TOOL" & until test -s "$PID"; do :; done; `

// tool returns a command that runs away and then script.
func tool(t *testing.T, tool, script string) (c Command, pid func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	c = sh(away + script)
	c.Env = append(c.Env, "TOOL="+tool, "PID="+file)
	return c, func() int {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-n, syscall.SIGKILL) })
		return n
	}
}

// How a command ends, and what is to be told of it.
func endings() map[string]func(c *Command) (ctx context.Context, want Exit) {
	by := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
		return ctx
	}
	return map[string]func(c *Command) (context.Context, Exit){
		"by itself": func(c *Command) (context.Context, Exit) {
			c.Argv[2] += "exit 3"
			return context.Background(), Exit{Code: 3}
		},
		"by its timeout": func(c *Command) (context.Context, Exit) {
			c.Argv[2] += "sleep 1000; true"
			c.Timeout = 200 * time.Millisecond
			return context.Background(), Exit{Code: -1, TimedOut: true}
		},
		"by a stop": func(c *Command) (context.Context, Exit) {
			c.Argv[2] += "sleep 1000; true"
			return by(context.Canceled), Exit{Code: -1}
		},
		"by a kill": func(c *Command) (context.Context, Exit) {
			c.Argv[2] += "sleep 1000; true"
			return by(ErrKill), Exit{Code: -1}
		},
	}
}

func TestAllThatACommandHasStartedEndsWithIt(t *testing.T) {
	const sleeper = `echo $$ > "$PID"; sleep 1000; true`
	tools := map[string]string{
		"in a session":                   sleeper,
		"that ignores SIGTERM":           "trap '' TERM; " + sleeper,
		"whose parents are gone":         `setsid sh -c 'setsid sh -c "echo \$\$ > \"$PID\"; sleep 1000; true" &' &`,
		"in a group that hides its mark": `echo $$ > "$PID"; env -i sleep 1000; true`,
	}
	for what, script := range tools {
		for how, end := range endings() {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				c, pid := tool(t, script, "")
				c.EndAll, c.Grace = true, time.Second
				ctx, want := end(&c)
				exit, _ := Run(ctx, c)
				if exit.Code != want.Code || exit.TimedOut != want.TimedOut {
					t.Errorf("got exit %+v, want %+v", exit, want)
				}
				if pid := pid(); living(t, pid) {
					t.Errorf("the tool %d lives", pid)
				}
			})
		}
	}
}

// A process that takes SIGTERM well has the grace for it, wherever it is.
func TestWhatHasLeftTheGroupGetsTheGraceToo(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	c, pid := tool(t, `trap 'sleep 0.2; echo bye > "$SAID"; exit' TERM; echo $$ > "$PID"; while :; do sleep 0.05; done`, "exec sleep 1000")
	c.Env = append(c.Env, "SAID="+said)
	c.EndAll, c.Timeout = true, 200*time.Millisecond
	mustRun(t, t.Context(), c)
	if living(t, pid()) {
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
	c, pid := tool(t, `echo $$ > "$PID"; sleep 1000; true`, `exec sleep 1000`)
	c.EndAll, c.Timeout, c.Grace = true, 500*time.Millisecond, 0
	c.Env = append(c.Env, markedVar+"=outer")
	mustRun(t, t.Context(), c)
	if living(t, pid()) {
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
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
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
