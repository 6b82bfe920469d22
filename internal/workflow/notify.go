package workflow

import (
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Receiver is somebody outside who is told what happens to a job. Package notify sends the messages.
type Receiver struct {
	On      []Moment      `yaml:"on"`      // what it is told: `dead_letter`, `breaker_open`, `budget` (it is spent), `paused`, `failed` and `done` (the job has ended, also because it failed or was cancelled); default all of them
	Webhook Text          `yaml:"webhook"` // a URL that gets the messages by POST, as JSON; parameters and variables can be named, as in `${SLACK_URL}`
	Command Text          `yaml:"command"` // instead of a webhook: a shell command that reads the message, as JSON, from its standard input
	Every   time.Duration `yaml:"every"`   // how long to wait between two messages, what happens meanwhile is one message; the end of a job does not wait; default 1m
	Sign    string        `yaml:"sign"`    // the name of a secret by which messages to a webhook are signed, as Standard Webhooks says

	Pos Pos
}

// Moment is something that a Receiver is told.
type Moment string

// The moments.
const (
	OnDeadLetter  Moment = "dead_letter"
	OnBreakerOpen Moment = "breaker_open"
	OnBudget      Moment = "budget"
	OnPaused      Moment = "paused"
	OnFailed      Moment = "failed"
	OnDone        Moment = "done"
)

// Moments returns all moments, those that say more first: of a job that failed, `failed` goes before `done`.
func Moments() []Moment {
	return []Moment{OnDeadLetter, OnBreakerOpen, OnBudget, OnPaused, OnFailed, OnDone}
}

// DefaultEvery is the time between two messages if a Receiver does not say it.
const DefaultEvery = time.Minute

// receivers reads one receiver, or a list of them.
func (r *reader) receivers(e entry) []Receiver {
	if e.value.Kind != yaml.SequenceNode {
		return []Receiver{r.receiver(e)}
	}
	var all []Receiver
	for _, n := range e.value.Content {
		all = append(all, r.receiver(e.with(n)))
	}
	return all
}

func (r *reader) receiver(e entry) Receiver {
	v := Receiver{On: Moments(), Every: DefaultEvery, Pos: posOf(e.value)}
	keys := r.fields(&v)
	keys = withReader(keys, "sign", func(e entry) { set(&v.Sign)(r.nonBlank(e)) })
	b := r.block("notify", e, keys)
	if b == nil {
		return v
	}
	r.atMostOne(b, []string{"webhook", "command"})
	r.require(b, "webhook", "command")
	if on := b.at("on"); b.has("on") && on.Kind == yaml.SequenceNode && len(on.Content) == 0 {
		r.fail(b.at("on"), "on: nothing is told; write at least one of %s", strings.Join(toStrings(Moments()), ", "))
	}
	if text := v.Webhook.Value; b.has("webhook") && text != "" && !strings.Contains(text, "$") && !isWebURL(text) {
		r.fail(b.at("webhook"), "webhook: want a URL that begins with https:// or http://") // it is not repeated: it may be a secret
	}
	if b.has("sign") && b.has("command") {
		r.fail(b.written["sign"].key, `"sign" is only for a "webhook"`)
	}
	return v
}

// checkSigns refuses receivers whose messages are signed by no secret of the workflow.
func (r *reader) checkSigns() {
	declared := map[string]bool{}
	for _, s := range r.w.Secrets {
		declared[s.Name] = true
	}
	vars := r.w.Env
	for _, p := range r.w.Profiles {
		vars = slices.Concat(vars, p.Env)
	}
	for _, v := range vars {
		declared[v.Name] = declared[v.Name] || v.Secret
	}
	for _, n := range r.w.Notify {
		if n.Sign != "" && !declared[n.Sign] {
			r.failAt(n.Pos, "notify: sign: %s is no secret of this workflow: declare it under secrets", n.Sign)
		}
	}
}

// moments reads one moment, or a list of them.
func (r *reader) moments(e entry) []Moment {
	nodes := []*yaml.Node{e.value}
	if e.value.Kind == yaml.SequenceNode {
		nodes = e.value.Content
	}
	var all []Moment
	for _, n := range nodes {
		if m, ok := word(r, e.with(n), Moments()...); ok && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

func isWebURL(text string) bool {
	_, rest, ok := strings.Cut(text, "://")
	return ok && rest != "" && (strings.HasPrefix(text, "https:") || strings.HasPrefix(text, "http:"))
}
