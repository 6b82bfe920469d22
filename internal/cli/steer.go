package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// steering is the way in of requests to the job that this process runs: from other processes over its socket, and from
// the keys of the terminal.
type steering struct {
	// ask is nil while the job takes no requests.
	ask atomic.Pointer[func(job.Request) job.Answer]
	// stop ends the run for a user, as a signal does. It does not need the job.
	stop func(by string) job.Answer
}

// control implements Config.Control.
func (s *steering) control(place jobs.Job, ask func(job.Request) job.Answer) (stop func() error, err error) {
	server, err := job.Serve(place.ControlSocket(), func(r job.Request) job.Answer {
		if r.Do == job.Stop {
			return s.stop(r.By)
		}
		return ask(r)
	})
	s.ask.Store(&ask)
	return func() error {
		s.ask.Store(nil)
		if server == nil {
			return nil
		}
		return server.Close()
	}, err
}

// do has the job do a request of the user at the terminal. It reports false if there is no job to do it.
func (s *steering) do(r job.Request) (job.Answer, bool) {
	ask := s.ask.Load()
	if ask == nil {
		return job.Answer{}, false
	}
	r.By = userName()
	return (*ask)(r), true
}

// checkRunning refuses a request to a job that does not run, and says what to do instead.
func checkRunning(place jobs.Job, verb job.Verb) error {
	if place.Running() {
		return nil
	}
	s, _ := job.Summarize(place) // the state of a job that cannot be read is left out
	state := "not running" + inBrackets(s.StateShown())
	resume := func(more string) string { return resumeCommand(place, flagsToResume(place)+more) }
	instead := "to resume it: " + resume("")
	switch {
	case s.State == jobs.Completed:
		instead = "it has finished"
	case verb == job.Scale:
		instead = "to set the number of slots: " + resume(" --max-parallel N")
	case verb == job.Cancel:
		instead = "to remove it: prodigy clean " + place.ID + " --force"
	case verb == job.Continue && s.State == jobs.Stopped:
		state = "stopped, not paused"
	}
	return refusef("job %s is %s: %s", place.ID, state, instead)
}

// beginTime is how long a job that runs may take until it listens, or until it has ended after it has ceased to listen.
const beginTime = 3 * time.Second

// steer asks a running job for something, and waits for its end if that is wanted.
func steer(ctx context.Context, con *console, place jobs.Job, r job.Request, await bool) error {
	if err := checkRunning(place, r.Do); err != nil {
		return err
	}
	return steerJob(ctx, con, place, r, await)
}

// steerJob sends a request to a running job, and prints the answer.
func steerJob(ctx context.Context, con *console, place jobs.Job, r job.Request, await bool) error {
	r.By = userName()
	pid := place.Runner()
	suspended, stop := jobs.Suspended(pid), r.Do == job.Stop
	if suspended && !stop {
		return refusef("job %s does not respond: its process %d is suspended; continue it with kill -CONT %d", place.ID, pid, pid)
	}
	answer, err := job.Answer{}, job.ErrNobody
	if !suspended {
		answer, err = job.Ask(place.ControlSocket(), r)
	}
	if stop && (err != nil || !answer.Done) {
		answer, err = job.Done("asked process %d to stop", pid), terminate(pid)
	}
	// it just begins, or ends
	for until := time.Now().Add(beginTime); errors.Is(err, job.ErrNobody) && time.Now().Before(until); {
		if err := checkRunning(place, r.Do); err != nil {
			return err
		}
		if err := duration.Sleep(ctx, beginTime/100); err != nil {
			return err
		}
		answer, err = job.Ask(place.ControlSocket(), r)
	}
	if errors.Is(err, job.ErrNobody) {
		return fmt.Errorf("job %s cannot be controlled from here: it was started by an older version, or on "+
			"another machine", place.ID)
	}
	if err := tellAnswer(con, place, answer, err); err != nil || !await || pid == 0 {
		return err
	}
	return untilSignal(ctx, func(ctx context.Context) error { return awaitStop(ctx, con, place, pid) })
}

// tellAnswer prints what a job has done about a request.
func tellAnswer(con *console, place jobs.Job, answer job.Answer, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("job %s: %w", place.ID, err)
	case !answer.Done:
		return refusef("job %s: %s", place.ID, term.Visible(answer.Text))
	}
	con.sayf("job %s: %s", place.ID, term.Visible(answer.Text))
	return nil
}

// terminate asks a process to stop by a signal. It does nothing if the process has just ended.
func terminate(pid int) error {
	if pid == 0 {
		return errors.New("its process is not visible from here; press Ctrl-C in its terminal")
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// userName returns the name of the user, for the record of a request.
func userName() string {
	name := "uid" + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil { // cron and containers often set neither variable
		name = u.Username
	}
	return cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"), name)
}

// awaitStop waits until the process does not run the job any more.
func awaitStop(ctx context.Context, con *console, place jobs.Job, pid int) error {
	for place.Runner() == pid {
		if duration.Sleep(ctx, askEvery) != nil {
			return nil
		}
	}
	switch lastOf(place).State {
	case jobs.Completed:
		con.sayf("job %s has completed in the meantime", place.ID)
	case jobs.Cancelled:
		con.sayf("job %s is cancelled", place.ID)
	default:
		con.sayf("job %s has stopped", place.ID)
		con.next(resumeCommand(place, flagsToResume(place)))
	}
	return nil
}

// askEvery is how often stop looks whether the job still runs.
const askEvery = 50 * time.Millisecond
