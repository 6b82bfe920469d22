package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/term"
	"prodigy/internal/view"
	"prodigy/internal/workflow"
)

// newJobsCommand returns the command that lists the newest jobs. A job whose log cannot be read is left out with a
// warning.
func newJobsCommand(con *console) *cobra.Command {
	limit, ofAllProjects := 20, false
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List jobs, newest first",
		Long: `List the jobs of this project (the git repository, or this directory), newest first. With --all,
list the jobs of all directories, with their paths.`,
		Example: "  prodigy jobs --limit 5\n  prodigy jobs --all",
		Args:    exactly(),
	}
	addFlag(cmd, &ofAllProjects, "all", "include jobs of all directories")
	addFormat(con, cmd, term.JSON)
	addFlag(cmd, &limit, "limit", "maximum number of jobs to list")
	cmd.RunE = func(*cobra.Command, []string) error {
		home, err := homeOf(ofAllProjects)
		if err != nil {
			return err
		}
		all, err := home.List()
		if err != nil {
			return err
		}
		list := []jobStatus{}
		for _, place := range check.First(all, limit) {
			s, err := job.Summarize(place)
			if err != nil {
				con.sayf("warning: %s: %v", place.ID, err)
				continue
			}
			list = append(list, statusOf(s))
		}
		if len(all) == 0 && con.format == term.Human {
			con.say().Print(term.Visible(noJobs(home).Error()))
		}
		err = printRows(con, jobColumns(list, ofAllProjects, time.Now()), term.Each(list))
		if len(all) > limit && con.format == term.Human {
			con.sayf("… %d more: use --limit %d", len(all)-limit, len(all))
		}
		return err
	}
	return cmd
}

// jobStatus is what jobs and status print of a job as JSON.
type jobStatus struct {
	JobID    string `json:"job_id"`
	Workflow string `json:"workflow"`
	// Dir is the directory that the job was started in.
	Dir       string     `json:"dir,omitempty"`
	Mode      string     `json:"mode"`
	State     jobs.State `json:"state"`
	StateText string     `json:"state_text"`
	// Ending says how a running job is about to end.
	Ending      events.Ending       `json:"ending,omitzero"`
	ReduceStale bool                `json:"reduce_stale,omitempty"`
	ReduceHeld  bool                `json:"reduce_held,omitempty"`
	Started     time.Time           `json:"started"`
	DurationMS  events.Millis       `json:"duration_ms"`
	Metrics     errorpolicy.Metrics `json:"metrics"`
	// Spent is what AI agents used. It is absent if there were none.
	Spent limit.Total `json:"spent,omitzero"`
	// Quota lists the plans that agents wait for.
	Quota []quotaShown `json:"quota,omitempty"`
	// Hold says who paused a running job, and when.
	Hold *job.Hold `json:"hold,omitempty"`

	// summary is what the other fields were taken from.
	summary job.Summary
}

// quotaShown is what agents wait for.
type quotaShown struct {
	Pool  string `json:"pool"`
	Model string `json:"model,omitempty"`
	Kind  string `json:"kind"`
	Scope string `json:"scope,omitempty"`
	// State is paused, or probing once Until is over and it is not known yet whether agents come through.
	State   string     `json:"state"`
	Until   time.Time  `json:"until"`
	ResetAt *time.Time `json:"reset_at,omitempty"`
}

// statusOf returns what is printed of a job, by its summary.
func statusOf(s job.Summary) jobStatus {
	j := jobStatus{
		JobID: s.Job.ID, Workflow: s.Workflow, Dir: s.Dir, Mode: s.Mode, State: s.State,
		StateText: s.StateShown(), Ending: s.Ending,
		ReduceStale: s.ReduceStale, ReduceHeld: s.ReduceHeld, Started: s.Started,
		DurationMS: events.Millis(s.Duration), Metrics: s.Metrics,
		Spent: s.Spent, Hold: s.Hold, summary: s,
	}
	for _, e := range s.Paused {
		q := quotaShown{
			Pool: e.Pool, Model: e.Model, Kind: e.Kind, Scope: e.Scope, State: "paused", Until: e.Until,
			ResetAt: e.ResetAt,
		}
		if !e.Until.After(time.Now()) {
			q.State = "probing"
		}
		j.Quota = append(j.Quota, q)
	}
	return j
}

// jobColumns returns the columns of the table. There is one for the cost only if a job in the list had AI agents.
func jobColumns(list []jobStatus, dirs bool, now time.Time) []term.Column[jobStatus] {
	columns := []term.Column[jobStatus]{
		{Head: "JOB", Key: "job_id"},
		{
			Head: "STATE", Cell: func(s jobStatus) string {
				for _, q := range s.Quota { // that agents wait for
					if left := q.Until.Sub(now); left > 0 && s.State == jobs.Running {
						return s.StateText + ", paused for " + view.Rough(left)
					}
				}
				return s.StateText
			},
			Paint: func(s jobStatus) term.Colour { return stateColour(s.summary) },
		},
		{Head: "AGE", Cell: func(s jobStatus) string { return view.Rough(now.Sub(s.Started)) }, Drop: 2},
		{Head: "DURATION", Value: func(s jobStatus) any { return s.DurationMS }, Drop: 1},
		{Head: "OK", Cell: func(s jobStatus) string { return s.count(s.Metrics.Successful) }},
		{Head: "FAILED", Cell: func(s jobStatus) string { return s.count(s.Metrics.Failed) }},
		{Head: "ITEMS", Cell: func(s jobStatus) string { return s.count(s.Metrics.TotalItems) }, Drop: 3},
	}
	if slices.ContainsFunc(list, func(s jobStatus) bool { return s.Spent.Agents > 0 }) {
		columns = append(columns, term.Column[jobStatus]{Head: "COST", Cell: jobStatus.cost})
	}
	columns = append(columns, term.Column[jobStatus]{Head: "WORKFLOW", Key: "workflow"})
	if dirs {
		columns = append(columns, term.Column[jobStatus]{Head: "DIRECTORY", Key: "dir"})
	}
	return columns
}

// cost returns what its AI agents have cost, with a + where it may be more.
func (s jobStatus) cost() string {
	switch {
	case s.Spent.Agents == 0:
		return "-"
	case s.Spent.Known() && s.Spent.Doubt() != "":
		return s.Spent.Cost.String() + "+"
	}
	return s.Spent.CostText()
}

// count returns a number of items, and "-" for a standard workflow, which has none.
func (s jobStatus) count(n int) string {
	if s.Mode == string(workflow.Standard) {
		return "-"
	}
	return strconv.Itoa(n)
}
