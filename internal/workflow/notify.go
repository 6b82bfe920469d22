package workflow

import (
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
)

// Receiver is somebody outside who is told what happens to a job. Package notify sends the messages.
type Receiver struct {
	// what to notify about: `dead_letter`, `breaker_open`, `budget` (used up), `stopped` (the run ended and can
	// be resumed), `paused` (also `stopped`), `failed`, `done` (the job ended, including failed and cancelled)
	// and `completed_with_failures`; default all of them
	On []Moment `yaml:"on" empty:"on: must list at least one of {words}" words:"dead_letter breaker_open budget stopped paused failed done completed_with_failures"`

	// URL to which messages are sent as JSON by POST; it can contain parameters and variables, such as
	// `${SLACK_URL}`
	Webhook Text `yaml:"webhook" required:"one"`

	// instead of a webhook, shell command that reads the message as JSON from stdin
	Command Text `yaml:"command" required:"one"`

	// minimum time between two messages; events in the meantime are sent in one message. The end of a job is
	// sent immediately; default 1m
	Every time.Duration `yaml:"every"`

	// name of the secret that signs messages to a webhook, as in Standard Webhooks
	Sign string `yaml:"sign" text:"filled"`

	Pos Pos
}

// Moment is something that a Receiver is told.
type Moment string

// The moments.
const (
	OnDeadLetter  Moment = "dead_letter"
	OnBreakerOpen Moment = "breaker_open"
	OnBudget      Moment = "budget"
	OnStopped     Moment = "stopped"
	OnPaused      Moment = "paused"
	OnFailed      Moment = "failed"
	OnDone        Moment = "done"
	// OnFailures is a job that has completed although items failed.
	OnFailures Moment = "completed_with_failures"
)

// Moments returns all moments, those that say more first: of a job that failed, `failed` goes before `done`,
// and of one that was stopped `stopped` before `paused`, which was its name in earlier versions. Only a receiver that
// does not want `done` is told `completed_with_failures`.
func Moments() []Moment {
	return []Moment{OnDeadLetter, OnBreakerOpen, OnBudget, OnStopped, OnPaused, OnFailed, OnDone, OnFailures}
}

// DefaultEvery is the time between two messages if a Receiver does not say it.
const DefaultEvery = time.Minute

// SetDefaults sets what a receiver is told, and how often.
func (v *Receiver) SetDefaults() { v.On, v.Every = Moments(), DefaultEvery }

func (v *Receiver) read(r *reader, e entry) bool {
	b := r.readWith(e, v, r.fields(v))
	if b == nil {
		return false
	}
	slices.Sort(v.On)
	v.On = slices.Compact(v.On)
	text := v.Webhook.Value
	if b.has("webhook") && text != "" && !strings.Contains(text, "$") && !webURL().MatchString(text) {
		r.fail(b.at("webhook"), "webhook must be a URL starting with https:// or http://") // it is not repeated: it may be a secret
	}
	r.refuse(b, "sign", b.has("command"), `"sign" is only for a "webhook"`)
	return true
}

var webURL = check.Regexp(`^https?://.`)

// checkSigns refuses receivers whose messages are signed by no secret of the workflow.
func (r *reader) checkSigns() {
	declared := map[string]bool{}
	for _, s := range r.w.Secrets {
		declared[s.Name] = true
	}
	for _, v := range r.w.allVariables() {
		declared[v.Name] = declared[v.Name] || v.Secret
	}
	for _, n := range r.w.Notify {
		if n.Sign != "" && !declared[n.Sign] {
			r.failAt(n.Pos, "notify: sign: secret %s is not declared; add it under secrets", n.Sign)
		}
	}
}
