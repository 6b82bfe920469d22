package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// newStopCommand returns the command that stops a run as Ctrl-C in its terminal would.
func newStopCommand(con *console) *cobra.Command {
	noWait := false
	cmd := onJob(&cobra.Command{
		Use:   "stop [job]",
		Short: "Stop a running job; it can be resumed",
		Long: `Stop a running job, as Ctrl-C in its terminal does: no new items start, and running items get the
grace period of the run to finish. Waits until the job has stopped; a second stop kills running
items. Resume it with 'prodigy resume'.`,
		Example: "  prodigy stop\n  prodigy stop mapreduce-20261120-1615",
	}, func(ctx context.Context, job jobs.Job) error { return runStop(ctx, con, job, noWait) })
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return immediately instead of waiting for the job to stop")
	return cmd
}

// runStop asks the process of a job to stop, and waits until that does not run the job any more.
func runStop(ctx context.Context, con *console, place jobs.Job, noWait bool) error {
	pid := place.Runner()
	switch {
	case pid == 0 && place.Running():
		return fmt.Errorf("job %s is running in a process not visible from here; press Ctrl-C in its terminal", place.ID)
	case pid == 0:
		return notRunning(place, job.Pause)
	}
	text, err := requestStop(place, pid)
	if err != nil {
		return fmt.Errorf("stop process %d of job %s: %w", pid, place.ID, err)
	}
	con.say().Printf("job %s: %s", place.ID, term.Visible(text))
	if noWait {
		return nil
	}
	return untilSignal(ctx, func(ctx context.Context) error { return awaitStop(ctx, con, place, pid) })
}

// requestStop asks the process of a job to stop and returns what that does. One that takes no requests, or not this
// one, gets a signal.
func requestStop(place jobs.Job, pid int) (done string, err error) {
	if !jobs.Suspended(pid) {
		answer, err := job.Ask(place.ControlSocket(), job.Request{Do: job.Stop, By: userName()})
		if err == nil && answer.Done {
			return answer.Text, nil
		}
	}
	return fmt.Sprintf("asked process %d to stop", pid), terminate(pid)
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
