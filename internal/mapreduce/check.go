package mapreduce

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/reuse"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// Check finds what can be known to be wrong with a parsed workflow before anything runs: unknown values in
// commands, a missing input file, a path or filter that does not parse. It returns what to warn of; the error
// is a *workflow.InvalidError.
func Check(c Config, w *workflow.Workflow) ([]workflow.Problem, error) {
	m := w.Map
	problems, warnings := findings(c, w)
	if !c.OnFleet && jobs.IsCheckout(c.Dir) {
		if _, edits := agent.CheckShared(w, agentsAtOnce(c, w)); len(edits) > 0 && w.Older {
			problems = append(problems, edits[0])
		} else if len(edits) > 0 {
			warnings = append(warnings, edits[0])
		}
	}
	if m == nil {
		return asError(w, problems, warnings)
	}
	env := c.ItemsEnv()
	if w.Setup == nil { // which might make the input
		found := items.CheckInput(m, env)
		if c.InputMayCome && items.IsMissing(m, env) {
			for _, p := range found {
				warnings = append(warnings, w.ProblemAt(workflow.Pos{Line: p.Line, Col: p.Col},
					p.Message+": the run fails unless it is created first"))
			}
		} else {
			problems = append(problems, found...)
		}
	}
	if blindReuse(c, m, env) {
		warnings = append(warnings, w.ProblemAt(m.Pos,
			"results are reused by the names of the files, whatever their content is: add uses: ${item} to the map"))
	}
	if m.ItemsFromArgs || m.Key.Value != "" {
		return asError(w, problems, warnings)
	}
	for _, s := range m.AgentTemplate {
		// Encoding a step to see what it names is most of what a small validate costs: the cheap question comes first.
		if !items.SelectedAtOnce(m, env) && namesAny([]workflow.Step{s}, "item_total") {
			warnings = append(warnings, w.ProblemAt(s.Pos,
				"${item_total} may be empty for the first items, which start while input is still being read; with a key, items start after all input is read"))
			break
		}
	}
	return asError(w, problems, warnings)
}

// blindReuse reports whether results are taken over for items that are names of files, whose content does not count.
func blindReuse(c Config, m *workflow.Map, env items.Env) bool {
	if since := c.Since.JobID; since == reuse.SinceNone || since == "" && !m.Incremental || len(m.Uses) > 0 {
		return false
	}
	_, kind, _ := items.Source(m.Input, env)
	if kind != "" || len(m.Input.Items) == 0 {
		return kind == "glob" && m.Input.Format == ""
	}
	var name string
	if json.Unmarshal(m.Input.Items[0], &name) != nil {
		return false
	}
	info, err := os.Stat(process.Resolve(c.Dir, name))
	return err == nil && info.Mode().IsRegular()
}

// findings is what can be known to be wrong with a workflow without looking for its input, and what to warn of.
func findings(c Config, w *workflow.Workflow) (problems, warnings []workflow.Problem) {
	m := w.Map
	problems, warnings = agent.Check(w)
	shared, _ := agent.CheckShared(w, agentsAtOnce(c, w))
	problems = slices.Concat(problems, settings.Check(w), shared)
	if m == nil {
		return problems, slices.Concat(w.Warnings, warnings)
	}
	if m.Guards.Any() && !limit.CanMeasure {
		problems = append(problems, w.ProblemAt(m.Pos,
			"guards are supported on Linux only: remove them to run the workflow here"))
	}
	problems = append(problems, items.Check(m)...)
	for _, p := range items.Warnings(m) {
		warnings = append(warnings, w.ProblemAt(workflow.Pos{Line: p.Line, Col: p.Col}, p.Message))
	}
	if _, err := maxParallel(c, w); err != nil {
		problems = append(problems, w.ProblemAt(m.MaxParallel.Pos, err.Error()))
	}
	limits := func(key string, limit workflow.SecondsOrVar) {
		if _, err := c.limit(w, key, limit); err != nil {
			problems = append(problems, w.ProblemAt(limit.Pos, err.Error()))
		}
	}
	limits("agent_timeout_secs", m.AgentLimit())
	for _, p := range []*workflow.Phase{w.Setup, w.Reduce, w.Merge} {
		if p != nil {
			limits("timeout", p.Timeout)
		}
	}
	problems = append(problems, reuse.Check(c.Dir, w)...)
	return problems, slices.Concat(w.Warnings, warnings)
}

// agentsAtOnce returns how many agents of w run at once at most.
func agentsAtOnce(c Config, w *workflow.Workflow) int {
	if w.Map == nil {
		return 1
	}
	slots, _ := maxParallel(c, w)
	if w.Map.Input.Items != nil {
		slots = min(slots, len(w.Map.Input.Items))
	}
	if w.Map.MaxItems != nil {
		slots = min(slots, *w.Map.MaxItems)
	}
	return slots
}

// asError returns what was found in a workflow in the order of its file, and problems as an error.
func asError(w *workflow.Workflow, problems, warnings []workflow.Problem) ([]workflow.Problem, error) {
	for i := range problems {
		problems[i].File = w.File
	}
	sortByPlace(warnings)
	if len(problems) == 0 {
		return warnings, nil
	}
	sortByPlace(problems)
	return warnings, &workflow.InvalidError{Problems: problems}
}

func sortByPlace(problems []workflow.Problem) {
	slices.SortStableFunc(problems, func(a, b workflow.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}

// Slots returns how many agents a run would have at once. The workflow has been checked.
func Slots(c Config, w *workflow.Workflow) int {
	return check.Must(maxParallel(c, w))
}

// OpenSlots reports whether neither the run nor the workflow says how many agents run at once. On a fleet that
// is up to the slots of its workers then, with what a concurrency or ramp says as the limit.
func OpenSlots(c Config, w *workflow.Workflow) bool {
	return c.MaxParallel == 0 && w.Map != nil && w.Map.MaxParallel.Pos == (workflow.Pos{}) && !w.Map.ItemsFromArgs
}

// maxParallel returns the number of slots: that of the run, else that of the workflow, which may name a
// variable of its env or of the environment.
func maxParallel(c Config, w *workflow.Workflow) (int, error) {
	switch {
	case c.MaxParallel > 0:
		return c.MaxParallel, nil
	case w.Map == nil:
		return 1, nil
	}
	n, from := max(1, w.Map.MaxParallel.Value), "max_parallel"
	if name := w.Map.MaxParallel.Var; name != "" {
		from += ": the variable " + name
		text, ok := c.Settings.Find(w, c.Environ, name)
		if !ok {
			return 0, fmt.Errorf("%s is not set", from)
		}
		var err error
		if n, err = strconv.Atoi(strings.TrimSpace(text)); err != nil || n < 1 {
			return 0, fmt.Errorf("%s must be an integer of at least 1, got %q", from, text)
		}
	}
	if c.OnFleet {
		return n, nil
	}
	if err := process.CapacityNow().Check(n); err != nil {
		return 0, fmt.Errorf("%s: %w", from, err)
	}
	return n, nil
}

// limit returns what a limit of a workflow is in this run: some stand in variables of its env or of the environment.
func (c Config) limit(w *workflow.Workflow, key string, limit workflow.SecondsOrVar) (time.Duration, error) {
	if limit.Var == "" {
		return limit.Value, nil
	}
	text, ok := c.Settings.Find(w, c.Environ, limit.Var)
	if !ok {
		return 0, fmt.Errorf("%s: the variable %s is not set", key, limit.Var)
	}
	d, err := workflow.ParseSeconds(text)
	if err != nil {
		return 0, fmt.Errorf("%s: the variable %s: %w", key, limit.Var, err)
	}
	return d, nil
}

// namesAny reports whether one of these texts is in steps.
func namesAny(steps []workflow.Step, texts ...string) bool {
	data, err := json.Marshal(steps)
	return err == nil && slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(data, []byte(text)) })
}
