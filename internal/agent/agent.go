// Package agent runs the steps of an attempt: for one item, or in one of the other phases.
//
// All that is used while steps run is declared in run.go. An Executor compiles the steps of a phase once (compile.go). Execute goes through them (execute.go): each is
// tried as often as its policy allows (retry.go), and hooks follow (hooks.go). One try (step.go) binds its values
// (bind.go), runs its command within its time (command.go, time.go), and makes a result or a failure of that
// (failure.go). The kinds of steps have a file each. A scope has the values that placeholders stand for. Whatever
// outlives an attempt goes to its Host.
package agent

import (
	"context"
	"io"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/mask"
	"prodigy/internal/process"
)

// Runner runs one command. process.Run is one; tests and dry runs are functions.
type Runner func(ctx context.Context, c process.Command) (process.Exit, error)

// Echo shows what the commands of items print, as they print it and without secrets. Of an AI coding CLI it shows the
// answer in place of stdout. Its methods are called from many goroutines at once.
type Echo interface {
	// Command returns where a command that is about to start prints to. try is the try of its step, from 1.
	// Errors of the writers are the Echo's own: the command goes on.
	Command(a *Attempt, step string, try int) (stdout, stderr io.Writer)
}

// Config is how an Executor runs commands.
type Config struct {
	Run Runner
	// Claude is the argv of the AI coding CLI of claude steps; claude.bind says how it gets its prompt.
	Claude []string

	// Agents are how AI coding CLIs are called and read. Without them claude steps are judged by their exit code.
	Agents ai.Set

	// Seed is that of the jitter of retry delays.
	Seed uint64

	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration

	// LogSteps makes the Executor emit AgentProgress.
	LogSteps bool

	// TempDir has the private files of steps. Empty means os.TempDir.
	TempDir string

	// Environ is the inherited environment.
	Environ []string

	// Places are the inherited variables that name a place which an attempt in a workspace has too: its path from
	// Attempt.Dir, by the name.
	Places map[string]string

	// Secrets are the values of secret variables, by their names. They are in no Attempt, and Mask removes them from
	// outcomes and events.
	Secrets map[string]string
	Mask    *mask.Masker

	// Echo shows what the commands of items print. It is nil if nobody looks.
	Echo Echo

	// Simulate takes the place of Run. Nil means that commands are run.
	Simulate Simulator

	// MaxCommands limits how many commands run at once, over all attempts, unless it is 0. The Executor lowers it
	// when files, processes or memory run short, and reports that to its Host.
	MaxCommands int
}
