//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
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

const long = time.Minute

// TestMain lets the test binary play a program that puts a child of its own into a new session, one that is
// killed while its command runs, and the watcher of that one.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, watchWord) {
		os.Exit(watch(os.Args[2:]))
	}
	if os.Getenv("ESCAPE") != "" {
		os.Exit(escape())
	}
	if os.Getenv("ABANDON") != "" {
		os.Exit(abandon())
	}
	os.Exit(m.Run())
}

const watchWord = "watch-the-register"

func watch(args []string) int {
	grace, err := time.ParseDuration(args[2])
	if err != nil {
		return 1
	}
	register, err := InheritedRegister(args[0])
	if err == nil {
		err = Watch(context.Background(), os.Stdin, register, args[0], args[1], grace)
	}
	if err != nil {
		return 1
	}
	return 0
}

func escape() int {
	cmd := exec.Command("sh", "-c", os.Getenv("ESCAPE"))
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 1
	}
	fmt.Fprint(os.Stderr, cmd.Process.Pid)
	return 0
}

func sh(script string) Command {
	return Command{Argv: []string{"sh", "-c", script}, Env: os.Environ(), Grace: long}
}

func mustRun(t *testing.T, ctx context.Context, c Command) Exit {
	t.Helper()
	exit, err := Run(ctx, c)
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	return exit
}

func TestExitTellsHowTheCommandEnded(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		c    Command
		want Exit
	}{
		{"success", sh("exit 0"), Exit{}},
		{"an exit code", sh("exit 3"), Exit{Code: 3}},
		{"a signal", sh("kill -9 $$"), Exit{Code: -1, Signal: "SIGKILL", Number: 9}},
		{"no such name", Command{Argv: []string{"no-such-program-anywhere"}}, Exit{Start: ErrNotFound}},
		{"no such file", Command{Argv: []string{filepath.Join(dir, "none")}}, Exit{Start: ErrNotFound}},
		{"no program", Command{Argv: []string{plain}}, Exit{Start: ErrNotExecutable}},
		{"too much", Command{Argv: []string{"sh", "-c", "true", strings.Repeat("x", 4<<20)}}, Exit{Start: ErrTooLarge}},
		{"a path beside the name", Command{Path: plain, Argv: []string{"sh"}}, Exit{Start: ErrNotExecutable}},
		{"no such directory", Command{Argv: []string{"sh"}, Dir: filepath.Join(dir, "none")}, Exit{Start: os.ErrNotExist}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := mustRun(t, t.Context(), test.c)
			if !errors.Is(got.Start, test.want.Start) {
				t.Errorf("start: got %v, want %v", got.Start, test.want.Start)
			}
			got.Start, got.Duration, test.want.Start = nil, 0, nil
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestOutputsAreKeptApart(t *testing.T) {
	var out, errs Capture
	c := sh("echo one; echo two >&2; pwd; echo $GREETING")
	c.Stdout, c.Stderr, c.Env = &out, &errs, append(c.Env, "GREETING=no", "GREETING=hello")
	c.Dir = "/"
	mustRun(t, t.Context(), c)
	if got, want := out.Text(), "one\n/\nhello\n"; got != want {
		t.Errorf("stdout: got %q, want %q", got, want)
	}
	if got, want := errs.Text(), "two\n"; got != want {
		t.Errorf("stderr: got %q, want %q", got, want)
	}
}

func TestStdinIsEmpty(t *testing.T) {
	var out Capture
	c := sh("cat; echo end")
	c.Stdout = &out
	mustRun(t, t.Context(), c)
	if got, want := out.Text(), "end\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLargeOutputIsBounded(t *testing.T) {
	var out Capture
	c := sh("echo begin; dd if=/dev/zero bs=1000000 count=50 2>/dev/null; echo end")
	c.Stdout = &out
	mustRun(t, t.Context(), c)
	if got, want := out.Total(), int64(50_000_010); got != want {
		t.Errorf("total: got %d, want %d", got, want)
	}
	text := out.Text()
	if len(text) > defaultLimit+100 {
		t.Errorf("got %d bytes, want about %d", len(text), defaultLimit)
	}
	if !strings.HasPrefix(text, "begin\n") || !strings.HasSuffix(text, "end\n") {
		t.Errorf("got %q … %q, want head and tail", text[:10], text[len(text)-10:])
	}
}

// alive gives a script a FIFO to hold open, and waits for the end of all that hold it.
func alive(t *testing.T) (fifo string, ended func() error) {
	t.Helper()
	fifo = filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(fifo, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return fifo, func() error {
		r, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		_ = f.Close()
		if err := r.SetReadDeadline(time.Now().Add(long)); err != nil {
			return err
		}
		_, err = io.ReadAll(r)
		return err
	}
}

func TestGrandchildThatHoldsTheOutputNeitherHangsTheCommandNorOutlivesIt(t *testing.T) {
	fifo, ended := alive(t)
	var out Capture
	c := sh(`sleep 1000 3>"$FIFO" & echo hi`)
	c.Stdout, c.Env = &out, append(c.Env, "FIFO="+fifo)
	mustRun(t, t.Context(), c)
	if got, want := out.Text(), "hi\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := ended(); err != nil {
		t.Errorf("the grandchild still runs: %v", err)
	}
}

func TestGrandchildThatIgnoresTheStopDoesNotOutliveIt(t *testing.T) {
	fifo, ended := alive(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	c := sh(`(trap "" TERM; exec 3>"$FIFO"; echo ready; sleep 1000) & wait`)
	c.Stdout, c.Env, c.Grace = on("ready", func() { cancel(errStop) }), append(c.Env, "FIFO="+fifo), 10*time.Millisecond
	if _, err := Run(ctx, c); !errors.Is(err, errStop) {
		t.Errorf("got %v, want %v", err, errStop)
	}
	if err := ended(); err != nil {
		t.Errorf("the grandchild still runs: %v", err)
	}
}

func TestGrandchildHasTheGraceTooWhenItsParentEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var out Capture
	c := sh(`(trap "for i in 1 2 3 4 5; do sh -c :; done; echo tidied up; exit" TERM; sleep 1000 >/dev/null & echo ready; wait) & wait`)
	c.Stdout = io.MultiWriter(&out, on("ready", func() { cancel(errStop) }))
	if _, err := Run(ctx, c); !errors.Is(err, errStop) {
		t.Errorf("got %v, want %v", err, errStop)
	}
	if got, want := out.Text(), "ready\ntidied up\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGrandchildOfAnotherSessionDoesNotHangTheCommand(t *testing.T) {
	for _, script := range []string{"sleep 1000", "while :; do echo more; done"} {
		t.Run(script, func(t *testing.T) {
			var out, errs Capture
			c := Command{Argv: []string{os.Args[0]}, Env: append(os.Environ(), "ESCAPE="+script), Stdout: &out, Stderr: &errs}
			exit := mustRun(t, t.Context(), c)
			id, err := strconv.Atoi(errs.Text())
			if exit.Code != 0 || err != nil {
				t.Fatalf("got exit code %d and no process id in %q", exit.Code, errs.Text())
			}
			if err := syscall.Kill(-id, syscall.SIGKILL); err != nil && script == "sleep 1000" {
				t.Errorf("the grandchild was not running any more: %v", err)
			}
		})
	}
}

func TestTimeoutEndsTheCommand(t *testing.T) {
	c := sh("sleep 1000")
	c.Timeout = 10 * time.Millisecond
	exit := mustRun(t, t.Context(), c)
	if !exit.TimedOut || exit.Code != -1 || exit.Signal != "SIGTERM" {
		t.Errorf("got %+v, want a timeout by SIGTERM", exit)
	}
}

func TestTimeoutWithoutGraceKills(t *testing.T) {
	c := sh("sleep 1000")
	c.Timeout, c.Grace = 10*time.Millisecond, 0
	exit := mustRun(t, t.Context(), c)
	if !exit.TimedOut || exit.Signal != "SIGKILL" {
		t.Errorf("got %+v, want a timeout by SIGKILL", exit)
	}
}

var errStop = errors.New("asked to stop")

// on calls f when the command prints the word.
func on(word string, f func()) io.Writer { return writerFunc(func(p []byte) { callOn(p, word, f) }) }

func callOn(p []byte, word string, f func()) {
	if strings.Contains(string(p), word) {
		f()
	}
}

type writerFunc func(p []byte)

func (w writerFunc) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func TestStopIsNoFailure(t *testing.T) {
	tests := []struct {
		name   string
		script string
		grace  time.Duration
		cause  error
		err    error
		signal string
	}{
		{"ends by SIGTERM", "echo ready; sleep 1000 >/dev/null", long, errStop, errStop, "SIGTERM"},
		{"ignores SIGTERM", `trap "" TERM; echo ready; while :; do sleep 1000; done`, 10 * time.Millisecond, errStop, errStop, "SIGKILL"},
		{"is killed at once", `trap "" TERM; echo ready; while :; do sleep 1000; done`, long, fmt.Errorf("twice: %w", ErrKill), ErrKill, "SIGKILL"},
		{"succeeds all the same", `trap "exit 0" TERM; sleep 1000 >/dev/null & echo ready; wait`, long, errStop, nil, ""},
		{"fails all the same", `trap "exit 4" TERM; sleep 1000 >/dev/null & echo ready; wait`, long, errStop, errStop, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := sh(test.script)
			c.Grace, c.Stdout = test.grace, on("ready", func() { cancel(test.cause) })
			exit, err := Run(ctx, c)
			if !errors.Is(err, test.err) {
				t.Errorf("error: got %v, want %v", err, test.err)
			}
			if exit.Signal != test.signal {
				t.Errorf("signal: got %q, want %q", exit.Signal, test.signal)
			}
		})
	}
}

func TestNothingIsStartedAfterTheStop(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	file := filepath.Join(t.TempDir(), "started")
	if _, err := Run(ctx, sh("touch "+file)); !errors.Is(err, errStop) {
		t.Errorf("error: got %v, want %v", err, errStop)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatCannotBeKeptIsAnErrorAndDoesNotBlock(t *testing.T) {
	c := sh("dd if=/dev/zero bs=1000000 count=1 2>/dev/null; exit 3")
	c.Stdout = brokenWriter{}
	exit, err := Run(t.Context(), c)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error: got %v, want %v", err, syscall.ENOSPC)
	}
	if exit.Code != 3 {
		t.Errorf("code: got %d, want 3", exit.Code)
	}
}

func BenchmarkRun(b *testing.B) {
	env := os.Environ()
	for b.Loop() {
		var out, errs Capture
		exit, err := Run(b.Context(), Command{Argv: []string{"sh", "-c", "true"}, Env: env, Stdout: &out, Stderr: &errs, Timeout: long, Grace: long})
		if err != nil || exit.Code != 0 {
			b.Fatalf("got %+v, %v, want success", exit, err)
		}
	}
}

func BenchmarkBare(b *testing.B) {
	env := os.Environ()
	for b.Loop() {
		cmd := exec.Command("sh", "-c", "true")
		var out, errs strings.Builder
		cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &errs
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// A command that reads nothing of its input, or only its beginning, is not held up, and does not fail.
func TestACommandReadsItsInput(t *testing.T) {
	input := strings.Repeat("0123456789abcde\n", 1<<16)
	for script, want := range map[string]string{
		"wc -c | tr -d ' '":       strconv.Itoa(len(input)) + "\n",
		"head -c 4":               "0123",
		"sleep 0; echo unread":    "unread\n",
		"exec < /dev/null; cat":   "",
		"cat > /dev/null; cat":    "",
		"head -n 1 && echo again": "0123456789abcde\nagain\n",
	} {
		for name, start := range map[string]func(Command) (child, error){"started": startChild, "piped": startPiped} {
			t.Run(script+" "+name, func(t *testing.T) {
				var out Capture
				c := sh(script)
				c.Input, c.Stdout = input, &out
				exit, err := run(t.Context(), c, start)
				if err != nil || exit.Code != 0 || exit.Start != nil {
					t.Errorf("got exit %+v and error %v, want a success", exit, err)
				}
				if out.Text() != want {
					t.Errorf("got %q, want %q", out.Text(), want)
				}
			})
		}
	}
}
