package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/process"
)

// stopGrace is how long a command may take to end when no more of its output is wanted.
const stopGrace = 2 * time.Second

// eachOfCommand runs a command and calls take with what is selected from its output, while it runs.
func (s source) eachOfCommand(ctx context.Context, e Env, p path, take func([]byte) error) error {
	return withOutput(ctx, s.command, e, func(out io.Reader) error {
		f := &feed{r: out}
		err := f.read(s.format, p, take)
		if f.err != nil && f.err != io.EOF && !errors.Is(err, errEnough) {
			return f.err
		}
		return inPlace(err, "output of the input command", nil)
	})
}

// withOutput runs a command while use reads its output. When use returns, the command is ended. The end of the output of
// a command that failed is an error.
func withOutput(ctx context.Context, command string, e Env, use func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	out, in := io.Pipe()
	var running errgroup.Group
	defer func() {
		cancel(errEnough)
		_ = out.Close()
		_ = running.Wait()
	}()
	running.Go(func() error {
		stderr := &process.Capture{Limit: 8 << 10}
		exit, err := process.Run(ctx, process.Command{
			Argv: []string{"sh", "-c", command}, Dir: e.Dir, Env: e.Environ,
			Stdout: in, Stderr: stderr, Grace: stopGrace, Register: e.Register,
		})
		if err == nil {
			err = failure(exit, stderr)
		}
		return in.CloseWithError(err)
	})
	return use(out)
}

// failure returns nil when the command succeeded.
func failure(exit process.Exit, stderr *process.Capture) error {
	switch said := strings.TrimSpace(stderr.Tail(2 << 10)); {
	case exit.Start != nil:
		return fmt.Errorf("run the input command: %w", exit.Start)
	case exit.Code == 0:
		return nil
	case exit.Signal != "":
		return fmt.Errorf("the input command was ended by %s%s", exit.Signal, after(said))
	default:
		return fmt.Errorf("the input command failed with exit code %d%s", exit.Code, after(said))
	}
}

// after puts what the command said on stderr behind the message, on one line, because the message becomes the reason of a job.
func after(said string) string {
	if said == "" {
		return ""
	}
	return ": " + strings.Join(strings.FieldsFunc(said, func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}
