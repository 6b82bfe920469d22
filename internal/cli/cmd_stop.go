package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

func newStopCommand(con *console) *cobra.Command {
	noWait := false
	cmd := onJob(&cobra.Command{
		Use:   "stop [job]",
		Short: "Stop a running job, so that a resume continues it",
		Long: `Stop a running job as Ctrl-C where it runs does: nothing starts any more, running agents may finish within the grace, and the job is
paused. Wait until that is done. Stop it a second time to end what runs at once. 'prodigy resume' continues the job.`,
		Example: "  prodigy stop\n  prodigy stop mapreduce-20261120-1615",
	}, func(ctx context.Context, job jobs.Job) error { return runStop(ctx, con, job, noWait) })
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "ask it to stop, and do not wait until it has")
	return cmd
}

// askEvery is how often stop looks whether the job still runs.
const askEvery = 50 * time.Millisecond

func runStop(ctx context.Context, con *console, place jobs.Job, noWait bool) error {
	pid := place.Runner()
	switch {
	case pid == 0 && place.Running():
		return fmt.Errorf("job %s is running, but not in a process that can be seen from here: press Ctrl-C where it runs", place.ID)
	case pid == 0:
		return notRunning(place, job.Pause)
	}
	if err := terminate(pid); err != nil {
		return fmt.Errorf("stop process %d, which runs job %s: %w", pid, place.ID, err)
	}
	con.say().Printf("job %s: process %d is asked to stop", place.ID, pid)
	if noWait {
		return nil
	}
	return untilSignal(ctx, func(ctx context.Context) error { return awaitStop(ctx, con, place, pid) })
}

// terminate asks a process to stop.
func terminate(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	err = p.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return nil // it has just ended
	}
	return err
}

// awaitStop waits until the process does not run the job any more.
func awaitStop(ctx context.Context, con *console, place jobs.Job, pid int) error {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for place.Runner() == pid {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	if completed, err := job.MayHaveCompleted(place); err == nil && completed {
		con.say().Printf("job %s has completed meanwhile", place.ID)
		return nil
	}
	if cancelled, err := job.WasCancelled(place); err == nil && cancelled {
		con.say().Printf("job %s has ended: it is cancelled", place.ID)
		return nil
	}
	con.say().Printf("job %s has stopped", place.ID)
	printNext(con.say(), []string{resumeCommand(place, "")})
	return nil
}
