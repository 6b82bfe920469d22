package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/rawjson"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

var (
	_ template.Resolver = (*scope)(nil)
	_ template.Filer    = (*scope)(nil)
)

// notRun is the result of a step that could not be run.
var notRun = result{code: -1, failed: true}

// shown returns what may be written and shown of what was printed.
func (r result) shown() Printed {
	if r.masked != nil {
		return *r.masked
	}
	return r.Printed
}

// record makes r the result of st, for the steps after it.
func (s *scope) record(st *step, r result) {
	s.leave(r, st.written(), st.ID, r.as(st.Format), st.Capture)
}

// leave sets what a step leaves. Only the name of the capture has the output in its format.
func (s *scope) leave(r result, kind, id string, captured result, capture string) {
	if r.validation != nil {
		s.validation = r.validation
	}
	r.data = nil
	s.set(r, append(kindNames(kind), last, id)...)
	s.set(captured, capture)
}

// as returns r with its output in the format of a capture.
func (r result) as(f workflow.CaptureFormat) result {
	if !r.skipped && (r.data == nil || f == workflow.FormatBoolean) { // a step may fail after its command has succeeded
		r.data, _ = formatted(f, r.Output, r.failed)
	}
	return r
}

// written returns the kind of a step as the workflow file writes it.
func (st *step) written() string {
	if st.Test {
		return kindTest
	}
	return st.kind
}

// kindNames returns the names that the result of a step has by its kind. Only commands have some, so that
// others leave ids free.
func kindNames(kind string) []string {
	switch kind {
	case "shell", "claude", kindAgent:
		return []string{kind}
	case kindTest:
		return []string{"shell", kindTest}
	}
	return nil
}

func (s *scope) set(r result, names ...string) {
	if s.results == nil {
		s.results = make(map[string]result, len(names))
	}
	for _, name := range names {
		if name != "" {
			s.results[name] = r
		}
	}
}

// completed returns the result of a step from its record. Output that held secrets is known only to the run in
// which it was printed.
func (r *run) completed(e events.StepCompleted) result {
	res := result{
		Printed: Printed{e.Output, e.Stderr}, code: e.ExitCode, duration: time.Duration(e.DurationMS),
		failed: e.Failed || e.ExitCode != 0, skipped: e.Skipped, validation: e.Validation, ai: e.Agent,
	}
	res.lost = e.Agent != nil && e.Agent.Masked
	if e.Masked {
		unmasked, known := r.x.host.Unmasked(r.a, e.Phase, e.StepIndex)
		res.masked, res.lost = new(res.Printed), res.lost || !known
		res.Printed = unmasked
	}
	return res.as(workflow.CaptureFormat(e.CaptureFormat))
}

// hooks returns the scope of the hooks of a step that ended with r. They inherit its working directory, unless
// that is what failed.
func (s *scope) hooks(r result) *scope {
	inner := s.inside()
	if r.dir != "" && process.CheckDir(r.dir) == nil {
		inner.dir = r.dir
	}
	return inner
}

// inside returns the scope of steps whose results are not seen outside.
func (s *scope) inside() *scope {
	inner := *s
	inner.results = maps.Clone(s.results)
	return &inner
}

// failing is inside for steps that run after a failure.
func (s *scope) failing(end stepEnd) *scope {
	inner := s.hooks(end.result)
	inner.failed = &end
	return inner
}

// binding returns the scope of the texts of st.
func (s *scope) binding(st *step) *scope {
	inner := *s
	inner.needsResults = st.results
	return &inner
}

// Resolve implements template.Resolver.
func (s *scope) Resolve(root string) (template.Value, bool) {
	a := s.run.a
	switch root {
	case "workflow":
		return fields("", "name", a.Workflow), true
	case "job":
		return fields(a.JobID, "id", a.JobID), a.JobID != ""
	case "env":
		return s.environment(), true
	case "error":
		if s.failed == nil {
			return template.Value{}, false
		}
		f := s.failed.failure
		return fields(f.Message, "message", f.Message, "type", f.Type, "exit_code", f.ExitCode, "step", f.Step,
			"attempts", s.failed.attempts), true
	case "map":
		return s.mapped()
	case "validation":
		return validationValue(s.validation), s.validation != nil
	}
	if v, named, known := s.ofLoop(root); named {
		return v, known
	}
	if a.Phase == phaseMap {
		if v, ok := s.ofItem(root); ok {
			return v, true
		}
	}
	if r, ok := s.results[root]; ok {
		if r.lost { // the step that is being bound fails
			s.run.lostSecret = fmt.Errorf(
				"${%s} contained a secret and was not stored: it is unavailable after a resume", root)
		}
		return r.value(), true
	}
	for _, arg := range a.Args {
		if arg.Name == root && len(arg.Value) > 0 {
			return template.JSON(arg.Value), true
		}
	}
	if value, ok := process.Variable(s.env, root); ok { // inherited variables are left to the shell
		return template.Text(value), true
	}
	switch {
	case root == "workspace" && a.Base != "":
		return fields("", "base", a.Base, "branch", a.Branch), true
	case root == "merge" && a.Merge != nil:
		return a.merged(), true
	}
	return template.Value{}, false
}

// merged returns what ${merge} stands for. Lists are texts with a line for each.
func (a *Attempt) merged() template.Value {
	m := a.Merge
	commits := make([]string, len(m.Commits))
	for i, id := range m.Commits {
		commits[i] = id + " " + m.Subjects[i]
	}
	files := strings.Join(m.Files, "\n")
	return fields("",
		"worktree", m.Worktree, "source_branch", m.SourceBranch, "target_branch", m.TargetBranch, "session_id", a.JobID,
		"commit_count", len(m.Commits), "commit_ids", strings.Join(m.Commits, "\n"), "commits", strings.Join(commits, "\n"),
		"file_count", len(m.Files), "file_list", files, "modified_files", files)
}

// fields returns a text that has fields: see texts.
func fields(text string, pairs ...any) template.Value {
	return template.Text(text).With(texts(pairs...))
}

// texts returns values by their names. Each name is followed by what its value is: a text, a number or a boolean.
func texts(pairs ...any) map[string]template.Value {
	m := make(map[string]template.Value, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = template.Text(fmt.Sprint(pairs[i+1]))
	}
	return m
}

// ofItem returns the value of a name of the map phase. It is not known in a plan without items.
func (s *scope) ofItem(root string) (template.Value, bool) {
	a := s.run.a
	known := a.ItemID != ""
	switch root {
	case "item":
		return s.withOutput(template.JSON(a.Item)), known
	case "items":
		return template.JSON(a.Item), known && a.Batch
	case "items_file":
		if !a.Batch || s.scratch == nil {
			return template.Value{}, false
		}
		return template.Text(s.run.batchFile()), known
	case argVar, fileVar, indexVar, totalVar:
		return a.valueVar(root), known && a.PerValue
	case "produces":
		return a.produced(), known && a.Producing
	case "item_id":
		return template.Text(a.ItemID), known
	case "item_index":
		return number(a.ItemIndex), known
	case "item_total":
		return total(a.ItemTotal), known
	case "attempt":
		return number(a.Number), true
	case "worker":
		return number(a.Worker).With(texts("id", a.Worker)), a.Worker > 0
	}
	return template.Value{}, false
}

// produced returns the names of the files that the attempt writes: one as a text, several as a list.
func (a *Attempt) produced() template.Value {
	if len(a.Produces) == 1 {
		return template.Text(a.Produces[0])
	}
	return template.JSON(check.Must(json.Marshal(a.Produces)))
}

// batchFile returns the path of a file with one item of the batch a line: a text as it is if it is one line,
// anything else as JSON. An error is kept by the scratch.
func (r *run) batchFile() string {
	if r.itemsFile == "" {
		var b strings.Builder
		for raw := range rawjson.Elements(r.a.Item) {
			if text := rawjson.Unquote(raw); raw[0] == '"' && !strings.ContainsAny(text, "\r\n") {
				b.WriteString(text)
			} else {
				b.Write(raw)
			}
			b.WriteByte('\n')
		}
		r.itemsFile, _ = r.scratch.addValues("items-*", b.String())
	}
	return r.itemsFile
}

func (r result) value() template.Value {
	m := texts("output", r.Output, "stderr", r.Stderr, "exit_code", r.code, "success", !r.failed && !r.skipped,
		"skipped", r.skipped, "duration", duration.Format(r.duration), "duration_ms", r.duration.Milliseconds())
	if a := r.ai; a != nil {
		cost := ""
		if a.CostUSD != nil {
			cost = a.CostUSD.Decimal()
		}
		maps.Copy(m, texts("outcome", a.Outcome, "session_id", a.SessionID, "turns", a.Turns, "cost", cost))
		if a.JSON != nil {
			m["json"] = template.JSON(a.JSON)
		}
	}
	v := template.Text(r.Output).With(m)
	if r.data != nil {
		return v.As(r.data)
	}
	return v
}

func (s *scope) environment() template.Value {
	inherited := s.run.x.inherited()
	m := make(map[string]template.Value, len(inherited)+len(s.env))
	for _, list := range [][]string{inherited, s.run.places, s.env} {
		for _, kv := range list {
			key, value, _ := strings.Cut(kv, "=")
			m[key] = template.Text(value)
		}
	}
	return template.Value{}.With(m)
}

func (s *scope) mapped() (template.Value, bool) {
	m := s.run.a.Map
	if m == nil {
		return template.Value{}, false
	}
	cost := ""
	if m.Spent.Known() || m.Spent.Agents == 0 {
		cost = m.Spent.Cost.Decimal()
	}
	values := texts(
		"total", m.Total, "successful", m.Successful, "failed", m.Failed, "skipped", m.Skipped,
		"failure_rate", decimal(m.FailureRate),
		"duration", duration.Format(m.Duration), "duration_ms", m.Duration.Milliseconds(),
		"results_file", m.ResultsFile, "missing_file", m.MissingFile,
		"cost", cost, "cost_unknown", m.Spent.Unknown, "tokens", int64(m.Spent.Tokens.All()))
	if s.needsResults {
		values["results"] = template.JSON(s.run.mapResults())
	}
	return template.Value{}.With(values), true
}

// mapResults returns the array that map.results stands for: the rows of the results file. An error is kept for the
// end of the binding.
func (r *run) mapResults() json.RawMessage {
	if r.rows != nil || r.rowsErr != nil {
		return r.rows
	}
	data, err := os.ReadFile(r.a.Map.ResultsFile)
	if err != nil {
		r.rowsErr = fmt.Errorf("read the results of the map phase: %w", err)
		return nil
	}
	rows := bytes.ReplaceAll(bytes.TrimSpace(data), []byte("\n"), []byte(","))
	r.rows = slices.Concat([]byte("["), rows, []byte("]"))
	return r.rows
}

// validationValue returns what ${validation} stands for, from the result of a validation.
func validationValue(raw json.RawMessage) template.Value {
	v := template.JSON(raw)
	completion, _ := v.Field("completion_percentage")
	return v.With(map[string]template.Value{
		"completion": completion, "missing": template.JSON(json.RawMessage("[]")),
		"implemented": template.JSON(json.RawMessage("[]")),
		"gaps":        template.JSON(json.RawMessage("{}")),
	})
}

// ofLoop returns the value of a name of the loops around s: an element by its name, from the innermost out, and
// the index and the total of the innermost. named reports whether it is a name of a loop, known whether its
// value is known.
func (s *scope) ofLoop(root string) (v template.Value, named, known bool) {
	for l := s.loop; l != nil; l = l.outer {
		switch root {
		case l.as:
			return s.withOutput(template.JSON(l.value)), true, l.value != nil
		case "index":
			return number(l.index), true, l.value != nil
		case "total":
			return number(l.total), true, l.value != nil
		}
	}
	return template.Value{}, false, false
}

// withOutput adds the output of the previous step to v.
func (s *scope) withOutput(v template.Value) template.Value {
	if r, ok := s.results[last]; ok {
		return v.With(map[string]template.Value{"output": template.Text(r.Output)})
	}
	return v
}

// File implements template.Filer.
func (s *scope) File(content string) (string, error) {
	if s.scratch == nil {
		return "", errors.New("files cannot be created here")
	}
	return s.scratch.addValues("value-*", content)
}

// print sets what was printed, and the same without secrets.
func (r *result) print(p, masked Printed) {
	if r.Printed, r.masked = p, nil; masked != p {
		r.masked = &masked
	}
}
