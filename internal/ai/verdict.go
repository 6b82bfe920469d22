package ai

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

// Verdict is what became of a run. What has a key is the part of a Judgement that has the same form there.
type Verdict struct {
	Outcome Outcome `json:"outcome"`

	// Rule is the name of the rule that decided. It is empty if none fits.
	Rule string `json:"rule,omitempty"`

	// Type is that of the error. It is empty if the exit code says as much.
	Type retry.Type `json:"error_type,omitempty"`

	// Message is one line: the CLI's own sentence, where it has one.
	Message string `json:"message,omitempty"`

	// Text is the answer. With Whole the answer is all of stdout, and Text is empty.
	Text  string          `json:"text,omitempty"`
	Whole bool            `json:"-"`
	JSON  json.RawMessage `json:"-"`

	// NewSession means that the session that was to be continued does not exist.
	SessionID  string `json:"session_id,omitempty"`
	NewSession bool   `json:"-"`

	// Reset is when the limit of a quota ends, as far as ResetBy says. Zero means that it is not known.
	Reset   time.Time   `json:"reset_at,omitzero"`
	ResetBy ResetSource `json:"reset_by,omitempty"`

	// Scope is the name of the limit of a quota.
	Scope string `json:"scope,omitempty"`

	// RetryAfter is how long the service asks to wait. It is 0 if the service does not ask.
	RetryAfter time.Duration `json:"-"`

	Limit LimitUse `json:"-"`
	Usage Usage    `json:"-"`

	// Known means that the run printed lines that the preset knows, and Plain that it printed text that is not JSON.
	Known bool `json:"-"`
	Plain bool `json:"-"`
}

// LimitUse is how far a limit is used up that has not been reached, if the CLI says so.
type LimitUse struct {
	Share float64 // 1: all of it
	Reset time.Time
	Scope string
}

// Usage is what a run has used.
type Usage struct {
	Model string
	Turns int

	// CostUSD counts if Costed says that the CLI has told it.
	CostUSD float64
	Costed  bool

	// Tokens count if Counted says that the CLI has told them.
	Tokens  Tokens
	Counted bool

	// Partial means that the run did not get to its end: there may be more.
	Partial bool
}

// Verdict says what became of the run, once all of its output is written.
func (r *Reading) Verdict(e End) Verdict {
	if !r.split.long && len(r.split.begun) > 0 { // the last line, which may have no end
		r.line(r.split.begun)
	}
	r.split = splitter{most: r.split.most}
	v := Verdict{
		Outcome: Failed, Known: len(r.at) > 0, Plain: strings.TrimSpace(r.plain) != "",
		Usage: r.Usage(),
	}
	facts := r.facts(e)
	var decided *Rule
	for _, rule := range r.preset.Rules {
		if rule.condition == nil || rule.condition.Match(facts) {
			decided = rule
			break
		}
	}
	v.SessionID = r.SessionID()
	for _, s := range r.preset.Take["text"] {
		v.Whole = v.Whole || s.pick == stdoutName
	}
	v.Text = r.said("text")
	if structured := json.RawMessage(r.said("json")); rawjson.Valid(structured) {
		v.JSON = structured
	}
	if decided != nil {
		v.Outcome, v.Rule, v.NewSession = decided.Outcome, decided.Name, decided.NewSession
		v.Type = cmp.Or(decided.Type, decided.Outcome.ErrorType())
		v.Scope = r.named(decided.Scope)
		v.RetryAfter = cmp.Or(
			seconds(r.named(decided.RetryAfter), time.Second),
			seconds(r.named(decided.RetryAfterMS), time.Millisecond),
		)
		v.Reset, v.ResetBy = r.reset(decided, e.Now)
	}
	v.Limit = r.limitUse()
	if v.Outcome != Success {
		v.Message = r.sentence(decided, e)
	}
	return v
}

// limitUse returns how far the limit is used up that the run has named last.
func (r *Reading) limitUse() (u LimitUse) {
	u.Share, _ = strconv.ParseFloat(r.said("limit_used"), 64)
	if at, err := strconv.ParseInt(r.said("limit_reset"), 10, 64); err == nil && at > 0 && at < maxUnix {
		u.Reset = time.Unix(at, 0)
	}
	u.Scope = r.said("limit_scope")
	return u
}

// maxUnix bounds a time in seconds since 1970: that of the year 2200.
const maxUnix = 7_258_118_400

// sessionID matches what SessionID takes.
var sessionID = check.Regexp(`^[0-9A-Za-z][0-9A-Za-z._-]{0,199}$`)

// SessionID returns the session of the run, as far as it is known by now. A text that might be more than an id
// is none: it becomes an argument.
func (r *Reading) SessionID() string {
	id := r.said("session_id")
	if !sessionID().MatchString(id) {
		return ""
	}
	return id
}

// Model returns the model that the run uses, as far as it is known by now.
func (r *Reading) Model() string { return r.said("model") }

// ended reports whether the run has printed a line that ends it.
func (r *Reading) ended() bool {
	return slices.ContainsFunc(r.preset.Watch.End, func(pick string) bool { return r.at[pick] > 0 })
}

// Usage returns what the run has used, as far as it has said so by now.
func (r *Reading) Usage() Usage {
	u := Usage{Model: r.Model()}
	u.Turns, _ = strconv.Atoi(r.said("turns"))
	u.CostUSD, u.Costed = number([]byte(r.said("cost_usd")))
	for _, t := range []struct {
		name string
		to   *int64
	}{{"input_tokens", &u.Tokens.Input}, {"cached_tokens", &u.Tokens.Cached}, {"output_tokens", &u.Tokens.Output}} {
		value, nth := r.take(t.name)
		f, ok := number([]byte(value))
		if !ok || f > math.MaxInt64/2 {
			continue
		}
		*t.to, u.Counted = int64(f), true
		u.Partial = u.Partial || nth > 0 && !r.ended()
	}
	return u
}

// Cost returns what the run has cost by now in US dollars, where the CLI says so while it runs.
func (r *Reading) Cost() (dollars float64, known bool) {
	sources := r.preset.Take["cost_usd"]
	if len(sources) == 0 || !sources[0].sum {
		return 0, false
	}
	v := r.values[sources[0]]
	return v.sum, v.any
}

// sentence returns the CLI's own sentence about a failure, or what is known instead.
func (r *Reading) sentence(rule *Rule, e End) string {
	own := firstSentence(r.said("message"))
	last := firstPart(check.LastLine(r.stderr.String()), maxSentence)
	switch {
	case rule != nil && rule.Say != "":
		say := rule.Say
		if about := firstSentence(r.named(rule.About)); about != "" {
			say += ": " + about
		}
		if rule.Denied {
			say += r.preset.May.more(e.May)
		}
		return say
	case own != "" && rule != nil:
		return own
	case last != "" && rule != nil:
		return last
	}
	end := "exit code " + strconv.Itoa(e.ExitCode)
	switch {
	case e.Signal != "" && r.ended():
		end = "killed by " + e.Signal
	case e.Signal != "":
		end = "killed by " + e.Signal + " before it had answered"
	case rule != nil || r.preset.Watch.End == nil:
	case !r.ended():
		end = r.preset.Name + " ended without a result, " + end
	case e.ExitCode == 0:
		end = r.preset.Name + " reported an error, and exited with 0"
	}
	return end + term.Prefixed(": ", firstSentence(cmp.Or(own, last, r.plain)))
}

const maxSentence = 500

// firstSentence returns the first line of what a CLI says, on one line. CLIs pass on errors of their service as
// JSON, in which it is dug for.
func firstSentence(text string) string {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "[API Error: "); ok {
		line, rest, _ := strings.Cut(inner, "\n")
		if line, ok = strings.CutSuffix(line, "]"); ok {
			text = line
		} else {
			text = strings.TrimSuffix(line+"\n"+rest, "]")
		}
	}
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &o) == nil {
		if found := ErrorIn(o); found != "" {
			text = found
		}
	}
	text, _, _ = strings.Cut(text, "\n")
	return firstPart(term.OneLine(text), maxSentence)
}

// ErrorIn returns the first line of the error that a JSON object, or an object in it, has under one of the usual keys.
func ErrorIn(o map[string]json.RawMessage) string {
	for key := range strings.FieldsSeq("result error errors data message") {
		value := o[key]
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && len(list) > 0 {
			value = list[0]
		}
		var text string
		if json.Unmarshal(value, &text) == nil {
			value = json.RawMessage(text)
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) == nil && len(inner) > 0 {
			text = ErrorIn(inner)
		}
		if text, _, _ = strings.Cut(strings.TrimSpace(text), "\n"); text != "" {
			return text
		}
	}
	return ""
}
