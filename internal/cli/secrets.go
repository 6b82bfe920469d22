package cli

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"prodigy/internal/dlq"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// secretsOf returns the secrets of a job that can be read without running a command. Secrets that cannot be read are
// left out.
func secretsOf(job jobs.Job) jobSecrets {
	w, err := loadRecorded(job)
	options, unread := settingsOf(job)
	if err = cmp.Or(err, unread); err != nil {
		return jobSecrets{unknown: err}
	}
	options.Purpose = settings.ToCheck
	found, err := settings.Resolve(context.Background(), w, options) // it does not block
	secret := func(v workflow.EnvVar) bool { return v.Secret }
	declared := len(w.Secrets) > 0 || slices.ContainsFunc(w.Env, secret) ||
		slices.ContainsFunc(w.Profiles, func(p workflow.Profile) bool { return slices.ContainsFunc(p.Env, secret) })
	if !declared {
		err = nil // a file of variables that is gone hides nothing
	}
	return jobSecrets{found, err}
}

// letters returns the dead letters of a job with their items as they may be shown.
func (s jobSecrets) letters(job jobs.Job) iter.Seq2[dlq.Entry, error] {
	return mapped(dlq.Each(job.DLQFile()), func(e dlq.Entry) (dlq.Entry, error) {
		e.Item = s.item(e.Item)
		return e, nil
	})
}

// hideSecretsOf masks the secrets of a job in everything that is printed from now on, and warns when they are not
// known.
func (c *console) hideSecretsOf(job jobs.Job) {
	c.secrets = secretsOf(job)
	c.hide(c.secrets.Mask)
	if err := c.secrets.unknown; err != nil {
		c.sayf("warning: items are not shown: the secrets of job %s are unknown: %v",
			job.ID, err)
	}
}

// updateLetters brings the dead letters up to date with the log, and masks the secrets of the job on con. If the update
// fails it prints a warning: the dead letters that are there can still be read.
func updateLetters(con *console, place jobs.Job) {
	con.hideSecretsOf(place)
	err := job.UpdateLetters(place, defaultMaxRetries, con.secrets.Mask)
	if err != nil && !isA[*dlq.DamagedError](err) { // the reader will report that itself
		con.sayf("warning: more dead letters may exist: %v", err)
	}
}
