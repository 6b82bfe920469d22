package simulate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Script is a Model that somebody has written: rules in order, of which the first decides that matches a try.
type Script struct {
	// The seed of what happens by chance.
	Seed uint64

	// When the job begins, for rules that hold for a time.
	Begin time.Time

	// The ending of tries that no rule is about. What a rule does not say is taken from it.
	Standard Ending `yaml:"default"`

	Rules []rule `yaml:"outcomes" element:"an outcome"`
}

// rule says how the tries end that it matches.
type rule struct {
	// Ids of items, or patterns of them. Without any, the rule is about all items.
	Items []string `yaml:"item"`

	Where *condition `yaml:"where"`

	// Labels of steps, or patterns of them.
	Steps []string `yaml:"step"`

	Phase   string `yaml:"phase"`
	Attempt span   `yaml:"attempt"`
	Try     span   `yaml:"try"`

	// From when on the rule holds, since the beginning of the job.
	From time.Duration `yaml:"from"`

	// Until when it holds; 0 without an end.
	To time.Duration `yaml:"to"`

	// The probability that the rule holds for a try that it matches. It is 1 if it is not written.
	Chance *float64 `yaml:"chance" range:"0 1"`

	// The files in which work conflicts, or true for some file, or false for none.
	Conflict []string `yaml:"conflict"`

	Ending
}

// isOfMerges reports whether the rule is about the merges of work, and not about commands.
func (one *rule) isOfMerges() bool { return one.Conflict != nil }

// condition is a filter of items.
type condition struct{ *filter.Filter }

// ReadText reads a condition.
func (c *condition) ReadText(text string) (err error) {
	c.Filter, err = filter.Parse(text)
	return err
}

// Ending is what is written about how a command ends. What is nil is not written.
type Ending struct {
	Takes  *Distribution `yaml:"takes"`
	Exit   *int          `yaml:"exit" range:"0 255"`
	Signal string        `yaml:"signal"`
	Fails  retry.Type    `yaml:"error"`
	Hangs  *bool         `yaml:"hangs"`
	Output *string       `yaml:"output"`
	Stderr *string       `yaml:"stderr"`

	// Of AI coding CLIs.
	Cost   *Costs        `yaml:"cost"`
	Tokens *tokens       `yaml:"tokens"`
	Resets time.Duration `yaml:"resets"`
	Used   float64       `yaml:"limit_used" range:"0 1"` // of the limit of the plan
}

// tokens says how many tokens a run uses, of each kind.
type tokens struct {
	Input  Counts `yaml:"input" short:"true"`
	Cached Counts `yaml:"cached"`
	Output Counts `yaml:"output"`
}

// ParseScript reads a file of outcomes. The error is a *workflow.InvalidError.
func ParseScript(file string, data []byte) (s Script, err error) {
	err = workflow.Read(file, "the file", data, &s)
	return s, err
}

// span is a range of numbers from 1. The zero span has all.
type span struct {
	first int
	last  int // 0 without an end
}

// fromTo reads a whole number, or a range of them as in 3-5.
func fromTo(text string) (first, last int, err error) {
	from, to, ranged := strings.Cut(text, "-")
	first, err = strconv.Atoi(from)
	if last = first; ranged && err == nil {
		last, err = strconv.Atoi(to)
	}
	return first, last, err
}

// ReadText reads 2, 2-4 or 2-.
func (s *span) ReadText(text string) (err error) {
	if from, open := strings.CutSuffix(text, "-"); open {
		s.first, err = strconv.Atoi(from)
	} else {
		s.first, s.last, err = fromTo(text)
	}
	if err != nil || s.first < 1 || s.last != 0 && s.last < s.first {
		return check.Want("a number of at least 1 or a range: 2, 2-4 or 2-")
	}
	return nil
}

// has reports whether a number lies in the range.
func (s span) has(n int) bool { return n >= s.first && (s.last == 0 || n <= s.last) }

// phases are those that commands run in.
var phases = []string{"setup", "map", "reduce", "merge", phaseVerify, "workspace"}

// Check finds what is wrong with e.
func (e *Ending) Check(found *check.Findings) {
	found.Require(e.Signal == "" || len(e.Signal) > 3 && e.Signal[:3] == "SIG", "signal",
		"signal: must be a name such as SIGKILL")
	known := append(retry.MatcherNames(), string(retry.TypePermission), string(retry.TypeClientError),
		string(retry.TypeCommandFailed))
	requireWord(found, "error", "error: unknown type", string(e.Fails), known)
}

// requireWord adds a finding about a key whose value is written, and is none of the words.
func requireWord(found *check.Findings, key, unknown, word string, words []string) {
	found.Require(word == "" || slices.Contains(words, word), key, "%s %q%s", unknown, word,
		check.Hint(word, words, check.OneOf(words)))
}

// Check finds what is wrong with one.
func (one *rule) Check(found *check.Findings) {
	one.Ending.Check(found)
	for key, patterns := range map[string][]string{"item": one.Items, "step": one.Steps} {
		for _, pattern := range patterns {
			found.Require(doublestar.ValidatePattern(pattern), key, "%s: invalid pattern %q", key, pattern)
		}
	}
	requireWord(found, "phase", "phase: unknown phase", one.Phase, phases)
	found.Require(one.To == 0 || one.To > one.From, "", "to: must be later than from")
	ofCommand := one.Ending != Ending{} || len(one.Steps) > 0 || one.Phase != "" || one.Try != span{}
	switch {
	case one.isOfMerges():
		found.Require(!ofCommand, "", "conflict applies to merging an attempt's changes, "+
			"not to a command; use it with item, where, attempt, from, to and chance")
	case one.Signal != "":
		found.Require(one.Exit == nil, "", "exit and signal cannot be used together: "+
			"a command killed by a signal has no exit code")
		found.Require(one.Fails == "", "", "error requires a non-zero exit code")
	case one.Fails != "":
		found.Require(one.Exit == nil || *one.Exit != 0, "",
			"error requires a non-zero exit code")
	}
	found.Require(one.Resets == 0 || one.Fails == retry.TypeQuota || one.Used > 0 || one.isOfMerges(), "",
		"resets applies to a plan limit: use it with error: quota or limit_used")
}

// Outcome implements Model.
func (s Script) Outcome(t agent.SimulatedTry) Outcome {
	since := time.Since(s.Begin)
	one := s.ruleFor(t, since, false)
	if one == nil {
		return s.Standard.outcome(s, t)
	}
	o := one.outcome(s, t)
	// The limit lasts as long as the rule.
	if o.Resets == 0 && one.To > 0 && (one.Fails == retry.TypeQuota || one.Used > 0) {
		o.Resets = max(one.To-since-o.Takes, time.Second)
	}
	return o
}

// ruleFor returns the first rule of that kind that matches a try, or nil.
func (s Script) ruleFor(t agent.SimulatedTry, since time.Duration, ofMerges bool) *rule {
	for i := range s.Rules {
		one := &s.Rules[i]
		if one.isOfMerges() == ofMerges && one.matches(t, since) &&
			(one.Chance == nil || randOf(s.Seed+uint64(i)+1, t).Float64() < *one.Chance) {
			return one
		}
	}
	return nil
}

// Conflicts implements Model.
func (s Script) Conflicts(t agent.SimulatedTry) []string {
	one := s.ruleFor(t, time.Since(s.Begin), true)
	switch {
	case one == nil || slices.Equal(one.Conflict, []string{"false"}):
		return nil
	case slices.Equal(one.Conflict, []string{"true"}):
		return []string{someFile}
	}
	return one.Conflict
}

// matches reports whether the rule is about a try, which is made that long after the beginning of the job.
func (one *rule) matches(t agent.SimulatedTry, since time.Duration) bool {
	a := t.Attempt
	switch {
	case one.Phase != "" && one.Phase != a.Phase,
		!matchesAny(one.Items, a.ItemID) || len(one.Items) > 0 && a.ItemID == "",
		!matchesAny(one.Steps, t.Label),
		!one.Attempt.has(a.Number), !one.Try.has(t.Number),
		since < one.From, one.To > 0 && since >= one.To:
		return false
	}
	return one.Where == nil || a.ItemID != "" && one.Where.Match(a.Item)
}

// matchesAny reports whether name is one of the patterns, or matches one. No patterns match everything.
func matchesAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		return p == name || doublestar.MatchUnvalidated(p, name)
	})
}

// outcome returns how a try ends. What is drawn at random depends on the seed and the try only, so that the same
// job is simulated again alike.
func (e Ending) outcome(s Script, t agent.SimulatedTry) Outcome {
	o := Outcome{
		Hangs: e.Hangs != nil && *e.Hangs, Type: e.Fails, Signal: e.Signal, Resets: e.Resets, LimitUsed: e.Used,
	}
	if takes := cmp.Or(e.Takes, s.Standard.Takes); takes != nil {
		o.Takes = takes.Draw(randOf(s.Seed, t))
	}
	if e.Exit != nil {
		o.ExitCode = *e.Exit
	} else if e.Fails != "" {
		o.ExitCode = 1
	}
	if output := cmp.Or(e.Output, s.Standard.Output); output != nil {
		o.Stdout = *output
	} else {
		o.Unknown = true
	}
	if e.Stderr != nil {
		o.Stderr = *e.Stderr
	}
	random := randOf(s.Seed^useSeed, t)
	if cost := cmp.Or(e.Cost, s.Standard.Cost); cost != nil {
		o.Use.Cost, o.Use.Costed = cost.Draw(random), true
	}
	if n := cmp.Or(e.Tokens, s.Standard.Tokens); n != nil {
		o.Use.Tokens = limit.Tokens{
			Input: n.Input.Draw(random), Cached: n.Cached.Draw(random),
			Output: n.Output.Draw(random),
		}
		o.Use.Counted = true
	}
	// A run that costs nothing has used none of those that others use.
	if e.Cost != nil && o.Use.Cost == 0 && e.Tokens == nil {
		o.Use.Tokens = limit.Tokens{}
	}
	return o
}
