package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// last is the name under which the result of the previous step is kept, beside those of its kind, id and capture.
const last = "last"

// scope are the variables as the steps of one list see them.
type scope struct {
	run     *run
	results map[string]result
	env     []string // of the workflow, and of the step that is bound
	failed  *ended   // in handlers: the failure
	wants   bool     // the step that is bound may name map.results
	scratch *scratch // where values go that are wanted in files; nil: they are not to be made
	loop    *loop    // in a foreach
	unshown bool     // what the steps print is not shown: it is a part of what another step gives

	validation json.RawMessage // what the last validation found; nil: there was none
}

var (
	_ template.Resolver = (*scope)(nil)
	_ template.Filer    = (*scope)(nil)
)

// result is what a step that has run leaves to the steps after it.
type result struct {
	output   string   // without trailing newlines
	stderr   string   // the same
	masked   *printed // the same without secrets; nil: there are none in it
	withheld bool     // what was printed held secrets, and is not known any more
	code     int
	duration time.Duration
	failed   bool
	skipped  bool            // its condition was not met; all else is empty
	data     json.RawMessage // what output is in the format of the capture; nil: the text

	validation json.RawMessage // what the validation of the step found; nil: it has none
}

// notRun is the result of a step that could not be run.
var notRun = result{code: -1, failed: true}

// printed is what a command printed, without trailing newlines.
type printed struct{ output, stderr string }

// shown returns what may be written and shown of what was printed.
func (r result) shown() printed {
	if r.masked != nil {
		return *r.masked
	}
	return printed{r.output, r.stderr}
}

// record makes r the result of st.
func (s *scope) record(st *step, r result) {
	s.validation = r.validatedAfter(s.validation)
	s.set(r.plain(), append(spoken(st.written()), last, st.ID)...)
	s.set(r, st.Capture)
}

// restore makes what the log says of a completed step its result.
func (s *scope) restore(e events.StepCompleted) {
	r := s.run.completed(e)
	s.validation = r.validatedAfter(s.validation)
	if r.skipped {
		s.set(r, e.ID, e.Capture)
		return
	}
	s.set(r.plain(), append(spoken(e.Kind), last, e.ID)...)
	s.set(r, e.Capture)
}

// validatedAfter returns what the last validation found, that of r or else the one before.
func (r result) validatedAfter(before json.RawMessage) json.RawMessage {
	if r.validation != nil {
		return r.validation
	}
	return before
}

// plain returns r with its output as a text, whatever the format of the capture.
func (r result) plain() result {
	r.data = nil
	return r
}

// kindTest is the kind of a shell step that is written the older way.
const kindTest = "test"

// written returns the kind of a step as it is written.
func (st *step) written() string {
	if st.Test {
		return kindTest
	}
	return st.kind
}

// spoken returns the names that the result of a step has by its kind: only commands have some, so that others leave ids free.
func spoken(kind string) []string {
	switch kind {
	case "shell", "claude":
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

// completed returns what a step left that ended earlier. What held secrets is known only to the run in which it was printed.
func (r *run) completed(e events.StepCompleted) result {
	res := result{
		output: e.Output, stderr: e.Stderr, code: e.ExitCode, duration: time.Duration(e.DurationMS),
		failed: e.Failed || e.ExitCode != 0, skipped: e.Skipped, validation: e.Validation,
	}
	if e.Masked {
		real, known := r.x.host.Unmasked(r.a, e.Phase, e.StepIndex)
		res.masked, res.withheld = &printed{e.Output, e.Stderr}, !known
		res.output, res.stderr = real.Output, real.Stderr
	}
	if !res.skipped {
		res.data, _ = formatted(workflow.CaptureFormat(e.CaptureFormat), res.output)
	}
	return res
}

// use returns the value of what a step left. When that is not known any more, the step that is bound fails by it.
func (s *scope) use(root string, r result) template.Value {
	if r.withheld {
		s.run.missed = fmt.Errorf("${%s} held a secret when it was printed, and was therefore not stored: after a resume it is not known any more", root)
	}
	return r.value()
}

// inside returns the variables of steps of which the ones outside see nothing.
func (s *scope) inside() *scope {
	inner := *s
	inner.results = maps.Clone(s.results)
	return &inner
}

// failing returns the variables of what runs after a failure. What it sets is not seen outside.
func (s *scope) failing(end *ended) *scope {
	inner := s.inside()
	inner.failed = end
	return inner
}

// binding returns the variables as the texts of st see them.
func (s *scope) binding(st *step) *scope {
	inner := *s
	inner.wants = st.results
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
		return s.failure()
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
		return s.use(root, r), true
	}
	if arg, ok := s.argument(root); ok {
		return arg, true
	}
	return s.variable(root)
}

// fields returns a text with fields, given as names and texts in turn.
func fields(text string, pairs ...string) template.Value {
	m := make(map[string]template.Value, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = template.Text(pairs[i+1])
	}
	return template.Text(text).With(m)
}

// ofItem returns what is known of the item: nothing in a plan for items that nobody has looked for.
func (s *scope) ofItem(root string) (template.Value, bool) {
	a := s.run.a
	known := a.ItemID != ""
	switch root {
	case "item":
		return s.item(), known
	case argVar, fileVar, indexVar, totalVar:
		if !a.PerValue {
			return template.Value{}, false
		}
		value, _ := a.valueVar(root)
		return value, known
	case "item_id":
		return template.Text(a.ItemID), known
	case "item_index":
		return template.Text(strconv.Itoa(a.ItemIndex)), known
	case "item_total":
		return total(a.ItemTotal), known
	case "attempt":
		return template.Text(strconv.Itoa(a.Number)), true
	case "worker":
		id := strconv.Itoa(a.Worker)
		return fields(id, "id", id), a.Worker > 0
	}
	return template.Value{}, false
}

// total is empty while it is unknown, so that a default can take its place.
func total(n int) template.Value {
	if n == 0 {
		return template.Text("")
	}
	return template.Text(strconv.Itoa(n))
}

// item returns the item, to which the output of the step before is added.
func (s *scope) item() template.Value {
	return s.withOutput(template.JSON(s.run.a.Item))
}

func (r result) value() template.Value {
	v := fields(r.output,
		"output", r.output,
		"stderr", r.stderr,
		"exit_code", strconv.Itoa(r.code),
		"success", strconv.FormatBool(!r.failed && !r.skipped),
		"skipped", strconv.FormatBool(r.skipped),
		"duration", duration.Format(r.duration),
		"duration_ms", strconv.FormatInt(r.duration.Milliseconds(), 10))
	if r.data != nil {
		return v.As(r.data)
	}
	return v
}

// argument returns the value of a parameter that has one.
func (s *scope) argument(name string) (template.Value, bool) {
	for _, arg := range s.run.a.Args {
		if arg.Name == name && len(arg.Value) > 0 {
			return template.JSON(arg.Value), true
		}
	}
	return template.Value{}, false
}

// variable returns the value of a variable that the workflow or the step sets. Inherited ones are the shell's.
func (s *scope) variable(name string) (template.Value, bool) {
	for i := len(s.env) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(s.env[i], "="); key == name {
			return template.Text(value), true
		}
	}
	return template.Value{}, false
}

func (s *scope) environment() template.Value {
	inherited := s.run.x.inherited.of(s.run.x.Environ)
	m := make(map[string]template.Value, len(inherited)+len(s.env))
	for _, list := range [][]string{inherited, s.env} {
		for _, kv := range list {
			key, value, _ := strings.Cut(kv, "=")
			m[key] = template.Text(value)
		}
	}
	return template.Value{}.With(m)
}

func (s *scope) failure() (template.Value, bool) {
	if s.failed == nil {
		return template.Value{}, false
	}
	f := s.failed.failure
	return fields(f.Message,
		"message", f.Message,
		"type", string(f.Type),
		"exit_code", strconv.Itoa(f.ExitCode),
		"step", f.Step,
		"attempts", strconv.Itoa(s.failed.attempts)), true
}

func (s *scope) mapped() (template.Value, bool) {
	m := s.run.a.Map
	if m == nil {
		return template.Value{}, false
	}
	values := map[string]template.Value{
		"total":        template.Text(strconv.Itoa(m.Total)),
		"successful":   template.Text(strconv.Itoa(m.Successful)),
		"failed":       template.Text(strconv.Itoa(m.Failed)),
		"skipped":      template.Text(strconv.Itoa(m.Skipped)),
		"failure_rate": template.Text(strconv.FormatFloat(m.FailureRate, 'f', -1, 64)),
		"duration":     template.Text(duration.Format(m.Duration)),
		"duration_ms":  template.Text(strconv.FormatInt(m.Duration.Milliseconds(), 10)),
		"results_file": template.Text(m.ResultsFile),
	}
	if s.wants {
		values["results"] = template.JSON(s.run.mapResults())
	}
	return template.Value{}.With(values), true
}

// readRows returns the rows of a results file as one JSON array.
func readRows(path string) (json.RawMessage, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the results of the map phase: %w", err)
	}
	data = bytes.TrimSpace(data)
	array := make([]byte, 0, len(data)+2)
	array = append(array, '[')
	array = append(array, bytes.ReplaceAll(data, []byte("\n"), []byte(","))...)
	return append(array, ']'), nil
}
