package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"prodigy/internal/jobs"
)

// jobName is how the user named a job.
type jobName struct {
	// id is what Find of jobs.Home takes: an id or a part of it, the name of a workflow, or latest.
	id string
	// all makes latest the newest job of all projects.
	all bool
	// running makes latest, and a workflow, mean a job that runs rather than a later one that does not.
	running bool
}

// homeOf returns the home of all jobs, limited to those of the project of the current directory unless all is set.
func homeOf(all bool) (jobs.Home, error) {
	home, err := jobs.FromEnv()
	if err != nil || all {
		return home, err
	}
	dir, err := currentDir()
	if err != nil {
		return jobs.Home{}, err
	}
	home.Project = jobs.Project(dir)
	return home, nil
}

// currentDir returns the current directory.
func currentDir() (string, error) {
	dir, err := os.Getwd()
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("the current directory no longer exists: change to another one")
	}
	return dir, err
}

// findJob returns the job that was named.
func findJob(name jobName) (jobs.Job, error) {
	home, err := homeOf(name.all)
	if err != nil {
		return jobs.Job{}, err
	}
	home.Running = name.running
	job, err := home.Find(name.id)
	if errors.Is(err, jobs.ErrNotFound) && name.id == "latest" {
		err = noJobs(home)
	}
	return job, err
}

// noJobs returns the error that there is no latest job.
func noJobs(home jobs.Home) error {
	if home.Project == "" {
		return refusef("no jobs yet in %s", home.Root)
	}
	return refusef("no jobs yet in %s (use --all to list jobs in all directories)", home.Project)
}

// named returns how a hint names a job, after a space: by its id, or not at all if it is the latest one, which is what
// commands mean without a name.
func named(id string) string {
	if latest, err := findJob(jobName{id: "latest"}); err == nil && latest.ID == id {
		return ""
	}
	return " " + id
}

// jobByFlags returns the job that --job-id and --all name.
func jobByFlags(cmd *cobra.Command) jobName {
	id, _ := cmd.Flags().GetString("job-id")
	all, _ := cmd.Flags().GetBool("all")
	return jobName{id, all, cmd.GroupID == groupSteer}
}
