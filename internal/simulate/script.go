package simulate

import (
	"slices"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/retry"
	"prodigy/internal/spend"
)

// Script is a Model that somebody has written: rules in order, of which the first decides that matches a try.
type Script struct {
	Seed  uint64    // of what happens by chance
	Begin time.Time // of the job, for rules that hold for a time

	rules    []rule
	standard ending // of tries that no rule is about; what a rule does not say is as here
}

// rule says how the tries end that it matches.
type rule struct {
	items    []string // ids, or patterns of ids; of all if there are none
	where    *filter.Filter
	steps    []string // labels, or patterns of them
	phase    string
	attempt  span
	try      span
	from, to time.Duration // since the beginning of the job; to 0: without end
	chance   float64       // that it matches all the same
	sure     bool          // there is no chance
	merge    bool          // it is about the merges of work, and not about commands
	conflict []string      // the files in which work conflicts

	ending
}

// ending is what is written about how a command ends. What is nil is not written.
type ending struct {
	takes  *Distribution
	exit   *int
	signal string
	fails  retry.Type
	hangs  *bool
	output *string
	stderr *string

	// Of AI coding CLIs.
	cost   *Costs
	tokens *tokens
	resets time.Duration
	used   float64 // of the limit of the plan
}

// tokens says how many tokens a run uses, of each kind.
type tokens struct{ input, cached, output Counts }

// ParseScript reads a file of outcomes. The error is a *workflow.InvalidError.
func ParseScript(file string, data []byte) (Script, error) {
	r := &reader{file: file}
	var s Script
	if root := r.load(data); root != nil {
		r.fields(root, "the file", s.fields(r)...)
	}
	return s, r.err()
}

// fields returns the keys of a script.
func (s *Script) fields(r *reader) []field {
	return []field{
		{"default", func(n *yaml.Node) { r.fields(n, "default", s.standard.fields(r)...) }},
		{"outcomes", func(n *yaml.Node) {
			r.list(n, func(n *yaml.Node) {
				s.rules = append(s.rules, r.rule(n))
			})
		}},
	}
}

func (e *ending) fields(r *reader) []field {
	return []field{
		{"takes", func(n *yaml.Node) {
			d, err := ParseDistribution(n.Value)
			if n.Kind != yaml.ScalarNode || err != nil {
				r.fail(n, "takes: %v", err)
			}
			e.takes = &d
		}},
		{"exit", func(n *yaml.Node) {
			e.exit = new(int)
			r.integer("exit", 0, 255, e.exit).read(n)
		}},
		{"signal", func(n *yaml.Node) {
			r.text("signal", &e.signal).read(n)
			if len(e.signal) < 4 || e.signal[:3] != "SIG" {
				r.fail(n, "signal: want a name such as SIGKILL")
			}
		}},
		{"error", func(n *yaml.Node) {
			known := append(retry.MatcherNames(), string(retry.TypePermission), string(retry.TypeClientError),
				string(retry.TypeCommandFailed))
			var name string
			if r.text("error", &name).read(n); !slices.Contains(known, name) {
				r.fail(n, "error: unknown type %q%s", name, check.Hint(name, known, check.OneOf(known)))
			}
			e.fails = retry.Type(name)
		}},
		{"hangs", func(n *yaml.Node) {
			e.hangs = new(bool)
			r.flag("hangs", e.hangs).read(n)
		}},
		{"output", func(n *yaml.Node) {
			e.output = new(string)
			r.text("output", e.output).read(n)
		}},
		{"stderr", func(n *yaml.Node) {
			e.stderr = new(string)
			r.text("stderr", e.stderr).read(n)
		}},
		{"cost", func(n *yaml.Node) {
			c, err := ParseCosts(n.Value)
			if n.Kind != yaml.ScalarNode || err != nil {
				r.fail(n, "cost: %v", err)
			}
			e.cost = &c
		}},
		{"tokens", func(n *yaml.Node) {
			e.tokens = new(tokens)
			if n.Kind == yaml.ScalarNode {
				r.count("tokens", &e.tokens.input).read(n)
				return
			}
			r.fields(n, "tokens", r.count("input", &e.tokens.input), r.count("cached", &e.tokens.cached),
				r.count("output", &e.tokens.output))
		}},
		r.duration("resets", &e.resets),
		r.part("limit_used", &e.used),
	}
}

func (r *reader) count(name string, to *Counts) field {
	return field{name, func(n *yaml.Node) {
		var err error
		if *to, err = ParseCounts(n.Value); n.Kind != yaml.ScalarNode || err != nil {
			r.fail(n, "%s: %v", name, err)
		}
	}}
}

func (r *reader) rule(n *yaml.Node) rule {
	one := rule{sure: true}
	known := append([]field{
		r.patterns("item", &one.items),
		{"where", func(n *yaml.Node) {
			var text string
			r.text("where", &text).read(n)
			var err error
			if one.where, err = filter.Parse(text); err != nil {
				r.fail(n, "where: %v", err)
			}
		}},
		r.patterns("step", &one.steps),
		{"phase", func(n *yaml.Node) {
			r.text("phase", &one.phase).read(n)
			if !slices.Contains(phases[:], one.phase) {
				r.fail(n, "phase: unknown phase %q%s", one.phase,
					check.Hint(one.phase, phases[:], check.OneOf(phases[:])))
			}
		}},
		r.span("attempt", &one.attempt),
		r.span("try", &one.try),
		r.duration("from", &one.from),
		r.duration("to", &one.to),
		{"chance", func(n *yaml.Node) {
			one.sure = false
			r.part("chance", &one.chance).read(n)
		}},
		{"conflict", func(n *yaml.Node) {
			one.merge = true
			switch n.Tag {
			case "!!bool":
				is := false
				if r.flag("conflict", &is).read(n); is {
					one.conflict = []string{someFile}
				}
			default:
				r.texts("conflict", &one.conflict).read(n)
			}
		}},
	}, one.ending.fields(r)...)
	r.fields(n, "an outcome", known...)
	if one.to > 0 && one.to <= one.from {
		r.fail(n, "to: want a time after from")
	}
	switch {
	case one.merge && (one.ending != ending{} || len(one.steps) > 0 || one.phase != "" || one.try != span{}):
		r.fail(n, "conflict is about the merge of what an attempt did, not about a command: it goes with item, where, attempt, from, to and chance")
	case one.exit != nil && one.signal != "":
		r.fail(n, "exit and signal exclude each other: a command that a signal kills has no exit code")
	case one.fails != "" && (one.exit != nil && *one.exit == 0 || one.signal != ""):
		r.fail(n, "error is about a command that exits with another code than 0")
	case one.resets > 0 && one.fails != retry.TypeQuota && one.used == 0:
		r.fail(n, "resets is about the limit of a plan: write it with error: quota, or with limit_used")
	}
	return one
}

// phases are those that commands run in.
var phases = [...]string{"setup", "map", "reduce", "merge", phaseVerify, "workspace"}

func (r *reader) patterns(name string, to *[]string) field {
	return field{name, func(n *yaml.Node) {
		r.texts(name, to).read(n)
		for _, pattern := range *to {
			if !doublestar.ValidatePattern(pattern) {
				r.fail(n, "%s: %q is no pattern", name, pattern)
			}
		}
	}}
}

// Outcome implements Model.
func (s Script) Outcome(t agent.SimulatedTry) Outcome {
	since := time.Since(s.Begin)
	for i, one := range s.rules {
		if !one.merge && one.matches(t, since) && (one.sure || randOf(s.Seed+uint64(i)+1, t).Float64() < one.chance) {
			o := one.outcome(s, t)
			// The limit lasts as long as the rule.
			if o.Resets == 0 && one.to > 0 && (one.fails == retry.TypeQuota || one.used > 0) {
				o.Resets = max(one.to-since-o.Takes, time.Second)
			}
			return o
		}
	}
	return s.standard.outcome(s, t)
}

// Conflicts implements Model.
func (s Script) Conflicts(t agent.SimulatedTry) []string {
	since := time.Since(s.Begin)
	for i, one := range s.rules {
		if one.merge && one.matches(t, since) && (one.sure || randOf(s.Seed+uint64(i)+1, t).Float64() < one.chance) {
			return one.conflict
		}
	}
	return nil
}

func (one *rule) matches(t agent.SimulatedTry, since time.Duration) bool {
	a := t.Attempt
	switch {
	case one.phase != "" && one.phase != a.Phase,
		!matchesAny(one.items, a.ItemID) || len(one.items) > 0 && a.ItemID == "",
		!matchesAny(one.steps, t.Label),
		!one.attempt.has(a.Number), !one.try.has(t.Number),
		since < one.from, one.to > 0 && since >= one.to:
		return false
	}
	return one.where == nil || a.ItemID != "" && one.where.Match(a.Item)
}

// matchesAny reports whether name is one of the patterns, or matches one. No patterns match everything.
func matchesAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		return p == name || doublestar.MatchUnvalidated(p, name)
	})
}

func (e ending) outcome(s Script, t agent.SimulatedTry) Outcome {
	var o Outcome
	if takes := first(e.takes, s.standard.takes); takes != nil {
		o.Takes = takes.Draw(randOf(s.Seed, t))
	}
	if hangs := e.hangs; hangs != nil {
		o.Hangs = *hangs
	}
	o.Type = e.fails
	if e.exit != nil {
		o.ExitCode = *e.exit
	} else if e.fails != "" {
		o.ExitCode = 1
	}
	o.Signal = e.signal
	if output := first(e.output, s.standard.output); output != nil {
		o.Stdout = *output
	} else {
		o.Unknown = true
	}
	if e.stderr != nil {
		o.Stderr = *e.stderr
	}
	o.Resets, o.LimitUsed = e.resets, e.used
	random := randOf(s.Seed^useSeed, t)
	if cost := first(e.cost, s.standard.cost); cost != nil {
		o.Use.Cost, o.Use.Costed = cost.Draw(random), true
	}
	if n := first(e.tokens, s.standard.tokens); n != nil {
		o.Use.Tokens = spend.Tokens{
			Input: n.input.Draw(random), Cached: n.cached.Draw(random),
			Output: n.output.Draw(random),
		}
		o.Use.Counted = true
	}
	// A run that costs nothing has used none of those that others use.
	if e.cost != nil && o.Use.Cost == 0 && e.tokens == nil {
		o.Use.Tokens = spend.Tokens{}
	}
	return o
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
