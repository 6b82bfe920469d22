package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"time"

	"prodigy/internal/events"
)

// Execute runs the steps of a. A failed step is an Outcome; the error is for a stop, and then it is context.Cause(ctx),
// or for what prodigy itself could not do.
func (x *Executor) Execute(ctx context.Context, a Attempt) (Outcome, error) {
	began := time.Now()
	r := &run{x: x, a: &a, plan: x.plans.of(&a), stop: ctx}
	defer r.close()
	if err := r.begin(); err != nil {
		return Outcome{}, err
	}
	s := r.scope()
	end, err := r.inTime(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	o := r.outcome(s, end)
	if r.wantsHandler(end.failure) {
		failure, err := r.list(ctx, s.failing(&end), r.plan.handler)
		if err != nil {
			return Outcome{}, err
		}
		o.Handled = failure == nil
	}
	o.Duration = time.Since(began)
	return o, nil
}

// Holds returns none: commands on this machine are ended when their run dies, and before it is resumed.
func (x *Executor) Holds(context.Context, []string) ([]string, error) { return nil, nil }

// run is one execution of an attempt. It belongs to the goroutine of the attempt.
type run struct {
	x        *Executor
	a        *Attempt
	plan     *plan
	fixed    []string // prodigy's variables
	env      []string // of the workflow
	envErr   error    // a value of env is missing: the steps fail by it
	itemFile string
	rows     json.RawMessage // of map.results, once they were read
	rowsErr  error           // they could not be read
	missed   error           // the step that is bound names what is not known any more
	captured map[string]json.RawMessage
	stop     context.Context  // ends when the attempt is to be stopped; the time limits are not in it
	at       string           // the step that runs, of the attempt's own list
	stays    bool             // it is one of several that share a slot, and cannot leave it while it waits
	cut      *Failure         // the command that a time limit of more than itself ended
	scratch  scratch          // files of the variables of the workflow
	heads    map[*step]string // commits that steps with commit_required began at
}

// begin makes what all steps of the attempt share.
func (r *run) begin() error {
	if r.a.Phase == phaseMap && (r.plan.itemFile || len(r.a.Item) > maxItemVar) {
		path, err := r.privateFile("item-*.json", string(r.a.Item))
		if err != nil {
			return err
		}
		r.itemFile = path
	}
	r.fixed = r.a.fixed(r.itemFile)
	r.scratch.run = r
	secrets, err := r.secrets()
	if err != nil {
		return err
	}
	r.env, r.envErr = r.bindEnv(&scope{run: r, env: secrets, scratch: &r.scratch}, r.plan.env)
	return nil
}

func (r *run) close() {
	r.scratch.remove()
	if r.itemFile != "" {
		_ = os.Remove(r.itemFile)
	}
}

// scope returns the variables before the first step that is to run.
func (r *run) scope() *scope {
	s := &scope{run: r, env: r.env}
	for _, e := range r.a.Earlier {
		s.set(r.completed(e), e.Capture)
	}
	for _, e := range r.a.Done {
		s.restore(e)
	}
	return s
}

// all runs the steps of the attempt that are not done yet. It returns how the last one that ran ended: the others have not failed.
func (r *run) all(ctx context.Context, s *scope) (end ended, err error) {
	steps := r.plan.steps
	for _, st := range steps[min(len(r.a.Done), len(steps)):] {
		if err := r.stopping(); err != nil {
			return ended{}, err
		}
		r.at = st.label
		r.progress(st, len(steps))
		next, err := r.step(ctx, s, st)
		if err != nil {
			return ended{}, err
		}
		r.capture(st, next.result)
		if next.failure != nil {
			return next, nil
		}
		if r.a.Phase != phaseMap {
			r.emit(r.stepCompleted(st, next))
		}
		if !next.result.skipped {
			end = next
		}
	}
	return end, nil
}

func (r *run) stopping() error {
	if r.a.Phase == phaseMap {
		return nil
	}
	return r.x.host.Stopping()
}

// progress tells which step an agent has come to: those who look on, and the log when that is wanted.
func (r *run) progress(st *step, steps int) {
	if r.a.Phase != phaseMap {
		return
	}
	e := events.AgentProgress{ItemID: r.a.ItemID, Step: st.label, StepIndex: st.position, Steps: steps}
	r.x.host.Progress(r.a, e)
	if r.x.LogSteps {
		r.emit(e)
	}
}

// list runs the steps of a handler and shows what they print. It returns the failure of the one that failed for good, or nil.
func (r *run) list(ctx context.Context, s *scope, steps []*step) (*Failure, error) {
	for _, st := range steps {
		end, err := r.step(ctx, s, st)
		if err != nil || end.failure != nil {
			return end.failure, err
		}
		r.tell(s, st, &end)
	}
	return nil, nil
}

func (r *run) stepCompleted(st *step, end ended) events.StepCompleted {
	res := end.result
	shown := res.shown()
	e := events.StepCompleted{
		Phase: r.a.Phase, Step: st.label, StepIndex: st.position, Kind: st.written(), ID: st.ID, Capture: st.Capture,
		DurationMS: events.Millis(res.duration), ExitCode: res.code, Output: shown.output, Stderr: shown.stderr, Masked: res.masked != nil, Printed: end.told,
		CaptureFormat: string(st.Format), Failed: res.failed, Skipped: res.skipped, Validation: res.validation,
	}
	if e.Masked {
		r.x.host.KeepUnmasked(r.a, st.position, Printed{res.output, res.stderr})
	}
	return e
}

// capture keeps the output of st for the outcome, when it has a name and has run.
func (r *run) capture(st *step, res result) {
	if st.Capture == "" || res.skipped {
		return
	}
	if r.captured == nil {
		r.captured = make(map[string]json.RawMessage)
	}
	r.captured[st.Capture] = res.data
	if res.data == nil {
		r.captured[st.Capture] = jsonText(res.shown().output)
	}
}

// jsonText returns s as a JSON string. Unlike json.Marshal it leaves <, > and & readable.
func jsonText(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("BUG: a string has no JSON: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// outcome returns how the attempt ended, but for its handler. s holds the result of the last step that ran, here or before a
// resume. A step that was forgiven ended with what its handler did.
func (r *run) outcome(s *scope, end ended) Outcome {
	res := s.results[last]
	if end.failure == nil && end.handler != nil {
		res = *end.handler
	}
	if f := end.failure; f != nil {
		f.Message = r.x.Mask.Text(f.Message)
	}
	return Outcome{Failure: end.failure, ExitCode: res.code, Output: res.shown().output, Captured: r.captured}
}

// mapResults returns the array that map.results stands for. What goes wrong is kept for the end of the binding.
func (r *run) mapResults() json.RawMessage {
	if r.rows == nil && r.rowsErr == nil {
		r.rows, r.rowsErr = readRows(r.a.Map.ResultsFile)
	}
	return r.rows
}

func (r *run) emit(e events.Event) { r.x.host.Emit(r.a, e) }
