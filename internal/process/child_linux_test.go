package process

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// An old kernel has no polled children.
func TestAPipedChildEndsAsAPolledOne(t *testing.T) {
	for name, c := range map[string]Command{
		"success":                        sh("echo out; echo err >&2"),
		"an exit code":                   sh("exit 3"),
		"a signal":                       sh("kill -9 $$"),
		"much output":                    sh("head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2"),
		"closed output":                  sh("exec >&- 2>&-; exit 4"),
		"a grandchild holds the output":  sh("sleep 60 & echo started"),
		"a timeout":                      {Argv: []string{"sh", "-c", "echo before; sleep 60"}, Timeout: 50 * time.Millisecond},
		"a timeout with a deaf child":    {Argv: []string{"sh", "-c", "(trap '' TERM; sleep 60) & sleep 60"}, Timeout: 50 * time.Millisecond, Grace: 50 * time.Millisecond},
		"no such program":                {Argv: []string{"no-such-program-anywhere"}},
		"no such directory":              {Argv: []string{"sh"}, Dir: "/no/such/directory"},
		"a variable twice":               {Argv: []string{"sh", "-c", "echo $A"}, Env: []string{"A=1", "PATH=/usr/bin:/bin", "A=2"}},
		"a NUL byte in the environment":  {Argv: []string{"sh", "-c", "exit 0"}, Env: []string{"A=\x00"}},
		"both in one pipe":               sh("echo o; echo e >&2; echo p"),
		"files of its own":               sh("cat; echo o; echo e >&2; wc -c <&1"),
		"a failing writer of its output": sh("yes | head -c 200000"),
	} {
		t.Run(name, func(t *testing.T) {
			var seen [2]string
			for i, start := range []func(Command) (child, error){startPolled, startPiped} {
				var out, errs Capture
				c.Stdout, c.Stderr = &out, &errs
				if strings.Contains(name, "failing") {
					c.Stdout = broken{}
				}
				switch name {
				case "both in one pipe":
					c.Stderr = c.Stdout
				case "files of its own":
					c.Stdin = opened(t, "child.go")
					c.Stdout = opened(t, "process.go") // to be read
				}
				exit, err := run(t.Context(), c, start)
				if (exit.Start != nil) != strings.HasPrefix(name, "no such") && !strings.Contains(name, "NUL") {
					t.Errorf("start: got %v", exit.Start)
				}
				if exit.Start != nil {
					exit.Code, exit.Start = 127, nil
				}
				if exit.TimedOut { // how far it had come by then is chance
					seen[i] = "timed out " + errorText(err)
					continue
				}
				seen[i] = strings.Join([]string{exit.Signal, string(rune('0' + exit.Code%50)), out.Text(), errs.Text(), errorText(err)}, "|")
			}
			if seen[0] != seen[1] {
				t.Errorf("polled: got %q, want as piped: %q", seen[0], seen[1])
			}
		})
	}
}

func opened(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
