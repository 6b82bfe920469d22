package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// validation compiles the validation of s.
func (c *compiler) validation(s *step, n scopeNames) *validation {
	w := s.Validate
	v := &validation{Validate: w}
	n = namesAfter(n, s.Step)
	v.commands, _ = c.list(w.Commands, n, workflow.LabelPrefix(s.label, "validate"))
	if w.ResultFile != nil {
		v.resultFile = c.plain(s, *w.ResultFile, n)
	}
	s.inner = append(s.inner, v.commands)
	if w.OnIncomplete != nil {
		v.completion, _ = c.list(w.OnIncomplete.Steps, n, workflow.LabelPrefix(s.label, "on_incomplete"))
		s.inner = append(s.inner, v.completion)
	}
	return v
}

// onlyValidation is the command of a step that is only a validation: it does nothing.
type onlyValidation struct{}

func buildValidate(*compiler, *step, scopeNames) command { return onlyValidation{} }

func (onlyValidation) bind(template.Resolver, *Executor) (call, error) {
	return call{action: nothing}, nil
}

func (onlyValidation) render(template.Resolver) string { return "validate" }

// found is the result of a validation, as commands print it and as ${validation.…} has it.
type found struct {
	Completion  float64         `json:"completion_percentage"`
	Status      string          `json:"status"`
	Implemented json.RawMessage `json:"implemented,omitempty"`
	Missing     json.RawMessage `json:"missing,omitempty"`
	Gaps        json.RawMessage `json:"gaps,omitempty"`
	Threshold   float64         `json:"threshold"`

	// Attempt is how often the work has been validated, from 1. It is 0 in logs of older versions.
	Attempt int `json:"attempt_number,omitempty"`

	failure *Failure // of a command of the validation; nil means none
}

const (
	statusComplete   = "complete"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// complete reports whether nothing is left to do.
func (f found) complete() bool { return f.Status == statusComplete }

// run validates st, which has succeeded with res. Work that is not complete is completed by the steps of
// on_incomplete and validated again, as often as the step allows. When they fail, it is not validated in that
// round.
func (v *validation) run(ctx context.Context, r *run, s *scope, st *step, res result) (result, error) {
	inner := s.hooks(res)
	inner.quiet = true
	inner.record(st, res)
	last, err := v.check(ctx, r, inner, st)
	last.Attempt = 1
	rounds := 0
	if v.OnIncomplete != nil {
		rounds = v.OnIncomplete.MaxAttempts
	}
	for ; err == nil && !last.complete() && rounds > 0; rounds-- {
		var incomplete *Failure
		inner.validation = last.json()
		if incomplete, err = r.runSteps(ctx, inner.inside(), v.completion); err == nil && incomplete == nil {
			attempt := last.Attempt + 1
			last, err = v.check(ctx, r, inner, st)
			last.Attempt = attempt
		}
	}
	if err != nil {
		return result{}, err
	}
	res.validation = last.json()
	if st.kind == "validate" {
		res.Output = string(res.validation)
	}
	if last.complete() || v.OnIncomplete != nil && !v.OnIncomplete.FailWorkflow {
		return res, nil
	}
	failure := v.failed(st, last)
	res.code, res.failed = failure.ExitCode, true
	return res, failure
}

// check runs the validation within its time and reads its result.
func (v *validation) check(ctx context.Context, r *run, s *scope, st *step) (found, error) {
	limit := v.Timeout
	if limit == 0 && st.kind == "validate" {
		limit = st.Timeout
	}
	ctx, up := withTimeLimit(ctx, limit, st.label)
	defer up.cancel(nil)
	inner := s.inside()
	var end stepEnd
	for _, command := range v.commands {
		var err error
		if end, err = r.runStep(ctx, inner, command); errors.Is(err, up) {
			return v.judge("", r.timedOut(st.label, limit)), nil
		} else if err != nil {
			return found{}, err
		}
		if end.failure != nil && command != v.commands[len(v.commands)-1] {
			return v.judge("", end.failure), nil
		}
	}
	if r.x.Simulate != nil && end.result.shown().Output == "" && end.failure == nil {
		return found{Completion: 100, Status: statusComplete, Threshold: v.Threshold}, nil
	}
	if v.resultFile == nil || r.x.Simulate != nil {
		return v.judge(end.result.shown().Output, end.failure), nil
	}
	output, err := v.read(ctx, r, s, st)
	if blameless := r.blameless(err); blameless != nil {
		return found{}, blameless
	}
	if err != nil {
		return v.judge("", st.fails("", err.Error())), nil
	}
	return v.judge(r.x.Mask.Text(output), end.failure), nil
}

// read returns the content of the result file.
func (v *validation) read(ctx context.Context, r *run, s *scope, st *step) (string, error) {
	path, err := v.resultFile.Bind(s)
	if err != nil {
		return "", fmt.Errorf("result_file: %w", err)
	}
	dir, err := r.dir(s, st)
	if err != nil {
		return "", err
	}
	var data []byte
	err = r.x.limiter.do(ctx, func() (err error) {
		data, err = os.ReadFile(process.Resolve(dir, path))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("result_file: %w", err)
	}
	return string(data), nil
}

// judge reads the result of the validation from output, which holds no secrets. When a shell command prints
// none, its exit says whether all is complete.
func (v *validation) judge(output string, failure *Failure) found {
	f, ok := readResult(output)
	f.failure, f.Threshold = failure, v.Threshold
	n := len(v.commands)
	byExit := v.resultFile == nil && n > 0 && v.commands[n-1].kind == "shell"
	switch {
	case ok && failure == nil && f.Completion >= v.Threshold && f.Status != statusFailed:
		f.Status = statusComplete
	case ok && f.Status != statusFailed:
		f.Status = statusIncomplete
	case ok:
	case failure == nil && byExit && !strings.Contains(output, "{"):
		f.Completion, f.Status = 100, statusComplete
	case failure == nil:
		f.Status = statusFailed
		f.failure = &Failure{
			Failure: retry.Failure{Message: "validation returned no JSON with completion_percentage", ExitCode: -1},
		}
	default:
		f.Status = statusFailed
	}
	return f
}

// readResult returns the last JSON object in text that is a result. Commands print other things as well.
func readResult(text string) (f found, ok bool) {
	for at := 0; at < len(text); {
		start := strings.IndexByte(text[at:], '{')
		if start < 0 {
			break
		}
		at += start
		decoder := json.NewDecoder(strings.NewReader(text[at:]))
		var object json.RawMessage
		if decoder.Decode(&object) != nil {
			at++
			continue
		}
		var one struct {
			found
			Completion *float64 `json:"completion_percentage"`
		}
		if json.Unmarshal(object, &one) == nil && one.Completion != nil {
			f, ok = one.found, true
			f.Completion = *one.Completion
		}
		at += len(object)
	}
	return f, ok
}

// json returns the result as ${validation} has it.
func (f found) json() json.RawMessage {
	return check.Must(json.Marshal(f))
}

// failed returns the failure of a step whose work is not complete.
func (v *validation) failed(st *step, f found) *Failure {
	failure := st.fails("", "")
	message := fmt.Sprintf("validation: %s%% complete, %s%% required", decimal(f.Completion), decimal(f.Threshold))
	if f.failure != nil {
		failure.Failure = f.failure.Failure
		message += ": " + f.failure.Message
	}
	if len(f.Missing) > 0 && string(f.Missing) != "null" {
		message += "; missing: " + template.JSON(f.Missing).String()
	}
	failure.Message = events.Clip(message, events.MaxError)
	return failure
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
