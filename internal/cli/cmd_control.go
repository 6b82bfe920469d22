package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/term"
)

func newPauseCommand(con *console) *cobra.Command {
	return newSteerCommand(con, job.Pause, &cobra.Command{
		Use:   "pause [job]",
		Short: "Have a running job start nothing, until it is continued",
		Long: `Have a running job start nothing more: no item, no step of another phase, and no retry. What runs goes on to its end. The job stays
alive, and 'prodigy continue' has it go on. If it is stopped or killed meanwhile, 'prodigy resume' has it go on too.`,
		Example: "  prodigy pause\n  prodigy pause mapreduce-20261120-1615",
	})
}

func newContinueCommand(con *console) *cobra.Command {
	return newSteerCommand(con, job.Continue, &cobra.Command{
		Use:   "continue [job]",
		Short: "Have a job go on that was paused",
		Long: `Have a running job go on that 'prodigy pause' has paused. A job that has stopped, which no process runs any more, is continued by
'prodigy resume' instead.`,
		Example: "  prodigy continue",
	})
}

func newDrainCommand(con *console) *cobra.Command {
	return newSteerCommand(con, job.Drain, &cobra.Command{
		Use:   "drain [job]",
		Short: "Let what a job runs come to its end, then stop it",
		Long: `Let what a running job has begun come to its end, however long that takes, and then end the run. Nothing starts any more, and what waits
for a retry does not wait. 'prodigy resume' continues the job. The run exits as one that SIGTERM has stopped, with 143. 'prodigy
stop' is quicker: it ends what still runs after the grace.`,
		Example: "  prodigy drain\n  prodigy drain --no-wait",
	})
}

func newCancelCommand(con *console) *cobra.Command {
	return newSteerCommand(con, job.Cancel, &cobra.Command{
		Use:   "cancel [job]",
		Short: "Stop a running job for good",
		Long: `Stop a running job for good: nothing starts any more, and running agents may finish within the grace. The job is cancelled, its run
exits with 1, and 'prodigy resume' refuses it without --force. 'prodigy stop' stops a job that is to go on later.`,
		Example: "  prodigy cancel mapreduce-20261120-1615",
	})
}

// newSteerCommand completes a command that takes a job and asks it for something.
func newSteerCommand(con *console, verb job.Verb, cmd *cobra.Command) *cobra.Command {
	noWait := false
	onJob(cmd, func(ctx context.Context, place jobs.Job) error {
		return steer(ctx, con, place, job.Request{Do: verb}, ends(verb) && !noWait)
	})
	if ends(verb) {
		cmd.Flags().BoolVar(&noWait, "no-wait", false, "ask it, and do not wait until the run has ended")
	}
	return cmd
}

// ends reports whether the run ends after a request.
func ends(verb job.Verb) bool { return verb == job.Drain || verb == job.Cancel }

func newScaleCommand(con *console) *cobra.Command {
	cmd := onJobAnd("slots", &cobra.Command{
		Use:   "scale [job] <slots>",
		Short: "Change how many agents a running job runs at once",
		Long: `Change how many agents a running job runs at once: to a number, or by one with a sign. Nothing is ended for that: of too many, those
that run come to their end. The number holds over a resume, unless that says --max-parallel.`,
		Example:           "  prodigy scale 16\n  prodigy scale mapreduce-20261120-1615 +4\n  prodigy scale -- -2",
		ValidArgsFunction: completeJob,
	}, func(ctx context.Context, place jobs.Job, slots string) error {
		r := job.Request{Do: job.Scale}
		n, err := strconv.Atoi(slots)
		switch {
		case err != nil:
			return usagef("%q is not a number of slots: write 16, or +4 or -- -2 for more or fewer", slots)
		case n == 0:
			return usagef("with 0 slots nothing would run: prodigy pause does that")
		case strings.HasPrefix(slots, "+") || n < 0:
			r.Change = n
		default:
			r.Slots = n
		}
		return steer(ctx, con, place, r, false)
	})
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok &&
			strings.Trim(unknown.GetSpecifiedName(), "0123456789") == "" {
			return usagef("for fewer slots write -- before the number, as in prodigy scale -- -2")
		}
		return wrongFlag(cmd, err)
	})
	return cmd
}

func newSkipCommand(con *console) *cobra.Command {
	return newSteerItemsCommand(con, job.Skip, &cobra.Command{
		Use:   "skip [job] <item>...",
		Short: "Do not run some items of a job (any more)",
		Long: `Do not run some items of a job: those that wait for their next attempt, and those that run, are settled as skipped at once, and those that
have not begun when their turn comes. An attempt that runs is ended within the grace. Items of a job that does not run are skipped when it is
resumed, also those whose work only waits to be merged. Skipped items count as skipped: the run exits with 3.`,
		Example: "  prodigy skip item_17\n  prodigy skip mapreduce-20261120-1615 item_17 item_18",
		Args:    atLeastOne("item"),
	})
}

func newRetryNowCommand(con *console) *cobra.Command {
	return newSteerItemsCommand(con, job.RetryNow, &cobra.Command{
		Use:   "retry-now [job] [item...]",
		Short: "Do not wait any longer for the next attempt",
		Long: `Have items and steps of a running job go on at once that wait for their next attempt: those that are named, else all of them. A limit of the
starts, an open circuit breaker and the slots hold as before.`,
		Example: "  prodigy retry-now\n  prodigy retry-now mapreduce-20261120-1615 item_17",
		Args:    cobra.ArbitraryArgs,
	})
}

// newSteerItemsCommand completes a command that asks a job for something about items.
func newSteerItemsCommand(con *console, verb job.Verb, cmd *cobra.Command) *cobra.Command {
	cmd.ValidArgsFunction = completeWhy
	return onItems(cmd, func(ctx context.Context, place jobs.Job, named []string) error {
		if verb == job.Skip && len(named) == 0 {
			return usagef("the argument <item> is missing: %s is a job", cmd.Flags().Arg(0))
		}
		return steerItems(ctx, con, place, verb, named)
	})
}

// steerItems asks a job for something about items.
func steerItems(ctx context.Context, con *console, place jobs.Job, verb job.Verb, named []string) (err error) {
	stands := checkRunning(place, verb)
	if stands != nil && !(verb == job.Skip && mayGoOn(place)) {
		return stands
	}
	r := job.Request{Do: verb}
	if r.Items, err = itemsNamed(place, named); err != nil {
		return err
	}
	if stands != nil {
		return skipStanding(con, place, r)
	}
	return steerJob(ctx, con, place, r, false)
}

// mayGoOn reports whether a job that does not run can be resumed.
func mayGoOn(place jobs.Job) bool {
	s, err := job.Summarize(place)
	return err == nil && s.State != string(job.Completed) && s.State != string(job.Cancelled)
}

// skipStanding records that items of a job that does not run are to be skipped.
func skipStanding(con *console, place jobs.Job, r job.Request) error {
	r.By = userName()
	c := idleConfig()
	con.hideSecretsOf(place)
	c.Settings = con.secrets.Settings
	answer, err := mapreduce.Skip(c, place, r)
	switch {
	case err != nil:
		return fmt.Errorf("job %s: %w", place.ID, err)
	case !answer.Done:
		return refusef("job %s: %s", place.ID, term.Visible(answer.Text))
	}
	con.say().Printf("job %s: %s\nnext: %s", place.ID, term.Visible(answer.Text), resumeCommand(place, ""))
	return nil
}

// itemsNamed finds the items of a job that are named by their ids or labels.
func itemsNamed(place jobs.Job, named []string) ([]job.Item, error) {
	if len(named) == 0 {
		return nil, nil
	}
	all, err := labelsOf(place).findAll(named)
	if err != nil {
		return nil, err
	}
	var found []job.Item
	for _, name := range named {
		it, is := all[name]
		if !is {
			return nil, noItem(place, name)
		}
		found = append(found, job.Item{ID: it.ID, Index: it.Index})
	}
	return found, nil
}

// steer asks a running job for something, and waits for its end if that is wanted.
func steer(ctx context.Context, con *console, place jobs.Job, r job.Request, await bool) error {
	if err := checkRunning(place, r.Do); err != nil {
		return err
	}
	return steerJob(ctx, con, place, r, await)
}

// insteadOf says what to do about a job that does not run, in place of a request to it.
func insteadOf(verb job.Verb, place jobs.Job) string {
	switch verb {
	case job.Scale:
		return resumeCommand(place, " --max-parallel N") + " says how many run at once"
	case job.Cancel:
		return "prodigy clean " + place.ID + " --force removes it"
	}
	return resumeCommand(place, "") + " continues it"
}

// checkRunning refuses a request to a job that does not run.
func checkRunning(place jobs.Job, verb job.Verb) error {
	if place.Running() {
		return nil
	}
	return notRunning(place, verb)
}

// notRunning returns the error that a job does not run, with what to do instead.
func notRunning(place jobs.Job, verb job.Verb) error {
	state := ""
	instead := insteadOf(verb, place)
	if s, err := job.Summarize(place); err == nil {
		state = " (" + s.StateShown() + ")"
		switch s.State {
		case string(job.Completed):
			instead = "it has come to its end"
		case string(job.Cancelled):
			instead = resumeCommand(place, " --force") + " continues it all the same"
		}
	}
	return refusef("job %s is not running%s: %s", place.ID, state, instead)
}

// beginTime is how long a job that runs may take until it listens, or until it has ended after it has ceased to listen.
const beginTime = 3 * time.Second

// steerJob sends a request to a running job, and prints the answer.
func steerJob(ctx context.Context, con *console, place jobs.Job, r job.Request, await bool) error {
	r.By = userName()
	pid := place.Runner()
	if jobs.Suspended(pid) {
		return refusef("job %s stands still, and cannot answer: process %d, which runs it, is stopped (kill -CONT %d has it go on)", place.ID, pid, pid)
	}
	answer, err := job.Ask(place.ControlSocket(), r)
	// it just begins, or ends
	for until := time.Now().Add(beginTime); errors.Is(err, job.ErrNobody) && time.Now().Before(until); {
		if err := checkRunning(place, r.Do); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(beginTime / 100):
		}
		answer, err = job.Ask(place.ControlSocket(), r)
	}
	switch {
	case errors.Is(err, job.ErrNobody):
		return fmt.Errorf("job %s is running, but takes no requests here: it was started by an older version, or on another machine", place.ID)
	case err != nil:
		return fmt.Errorf("job %s: %w", place.ID, err)
	case !answer.Done:
		return refusef("job %s: %s", place.ID, term.Visible(answer.Text))
	}
	con.say().Printf("job %s: %s", place.ID, term.Visible(answer.Text))
	if !await || pid == 0 {
		return nil
	}
	return untilSignal(ctx, func(ctx context.Context) error { return awaitStop(ctx, con, place, pid) })
}

// userName returns the name of the user, for the record of a request.
func userName() string {
	if name := cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"), os.Getenv("USERNAME")); name != "" {
		return name
	}
	uid := strconv.Itoa(os.Getuid())
	passwd, err := os.ReadFile("/etc/passwd") // os/user would be prepared at every start
	if err != nil {
		return "uid" + uid
	}
	return cmp.Or(nameOf(uid, string(passwd)), "uid"+uid)
}

// nameOf returns the name of a user by the text of /etc/passwd, or nothing.
func nameOf(uid, passwd string) string {
	for line := range strings.Lines(passwd) {
		fields := strings.Split(line, ":") // name, password, number, group, and more
		if len(fields) > 3 && fields[2] == uid {
			return fields[0]
		}
	}
	return ""
}
