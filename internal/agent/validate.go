package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// validate is the compiled validation of a step.
type validate struct {
	*workflow.Validate
	commands   []*step
	resultFile *template.Plain // nil: the output is the result
	mend       []*step
}

// validation compiles the validation of s, which may be absent.
func (c *compiler) validation(s *step, p place) *validate {
	w := s.Validate
	if w == nil {
		return nil
	}
	v := &validate{Validate: w}
	p = p.behind(s.Step)
	v.commands, _ = c.list(w.Commands, p, workflow.LabelPrefix(s.label, "validate"))
	if w.ResultFile != nil {
		v.resultFile = c.plain(s, *w.ResultFile, p)
	}
	s.inner = append(s.inner, v.commands)
	if w.OnIncomplete != nil {
		v.mend, _ = c.list(w.OnIncomplete.Steps, p, workflow.LabelPrefix(s.label, "on_incomplete"))
		s.inner = append(s.inner, v.mend)
	}
	return v
}

// onlyValidation is the command of a step that is nothing but a validation: it does nothing.
type onlyValidation struct{}

func buildValidation(*compiler, *step, place) command { return onlyValidation{} }

func (onlyValidation) bind(template.Resolver, *Executor) (call, error) {
	return call{does: func(context.Context, *run, *step, bound) (result, *Failure, error) { return result{}, nil, nil }}, nil
}

func (onlyValidation) render(template.Resolver) string { return "validate" }

// found is what a validation found, as commands print it and as ${validation.…} has it.
type found struct {
	Completion  float64         `json:"completion_percentage"`
	Status      string          `json:"status"`
	Implemented json.RawMessage `json:"implemented,omitempty"`
	Missing     json.RawMessage `json:"missing,omitempty"`
	Gaps        json.RawMessage `json:"gaps,omitempty"`
	Threshold   float64         `json:"threshold"`

	failure *Failure // of a command of the validation; nil: none
}

const (
	statusComplete   = "complete"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// complete tells whether nothing is left to do.
func (f found) complete() bool { return f.Status == statusComplete }

// validated does what st is and validates it. Work that is not complete is mended and validated again as often as the step allows.
// After mending that failed it is not validated in that round.
func (r *run) validated(ctx context.Context, s *scope, st *step, b bound) (result, *Failure, error) {
	res, failure, err := r.watched(ctx, st, b)
	v := st.validate
	if err != nil || failure != nil || v == nil {
		return res, failure, err
	}
	inner := s.inside()
	inner.unshown = true
	inner.record(st, res)
	last, err := v.check(ctx, r, inner, st)
	for round := 0; err == nil && !last.complete() && round < v.rounds(); round++ {
		var unmended *Failure
		inner.validation = last.json()
		if unmended, err = r.list(ctx, inner.inside(), v.mend); err == nil && unmended == nil {
			last, err = v.check(ctx, r, inner, st)
		}
	}
	if err != nil {
		return result{}, nil, err
	}
	res.validation = last.json()
	if st.kind == "validate" {
		res.output = string(res.validation)
	}
	if last.complete() || v.OnIncomplete != nil && !v.OnIncomplete.FailWorkflow {
		return res, nil, nil
	}
	failure = v.failed(st, last)
	res.code, res.failed = failure.ExitCode, true
	return res, failure, nil
}

func (v *validate) rounds() int {
	if v.OnIncomplete == nil {
		return 0
	}
	return v.OnIncomplete.MaxAttempts
}

// check runs the validation within its time and reads its result.
func (v *validate) check(ctx context.Context, r *run, s *scope, st *step) (found, error) {
	limit := v.Timeout
	if limit == 0 && st.kind == "validate" {
		limit = st.Timeout
	}
	ctx, up := within(ctx, limit, st.label)
	defer up.cancel()
	inner := s.inside()
	var end ended
	for _, command := range v.commands {
		var err error
		if end, err = r.step(ctx, inner, command); errors.Is(err, up) {
			return v.judge("", r.timedOut(st.label, limit)), nil
		} else if err != nil {
			return found{}, err
		}
		if end.failure != nil && command != v.commands[len(v.commands)-1] {
			return v.judge("", end.failure), nil
		}
	}
	if v.resultFile == nil {
		return v.judge(end.result.shown().output, end.failure), nil
	}
	output, err := v.read(ctx, r, s, st)
	if own := r.own(err); own != nil {
		return found{}, own
	}
	if err != nil {
		failure := &Failure{Step: st.label, Failure: retry.Failure{Message: err.Error(), ExitCode: -1}}
		return v.judge("", failure), nil
	}
	return v.judge(r.x.Mask.Text(output), end.failure), nil
}

// read returns what is in the result file.
func (v *validate) read(ctx context.Context, r *run, s *scope, st *step) (string, error) {
	path, err := v.resultFile.Bind(s)
	if err != nil {
		return "", fmt.Errorf("result_file: %w", err)
	}
	dir, err := r.dir(s, st)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	var data []byte
	err = r.x.inRoom(ctx, func() (err error) {
		data, err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("result_file: %w", err)
	}
	return string(data), nil
}

// judge reads the result that the validation ended with, which holds no secrets. A shell command that prints none says by its exit whether all is complete.
func (v *validate) judge(output string, failure *Failure) found {
	f, ok := readResult(output)
	f.failure, f.Threshold = failure, v.Threshold
	switch {
	case ok && failure == nil && f.Completion >= v.Threshold && f.Status != statusFailed:
		f.Status = statusComplete
	case ok && f.Status != statusFailed:
		f.Status = statusIncomplete
	case ok:
	case failure == nil && v.byExit() && !strings.Contains(output, "{"):
		f.Completion, f.Status = 100, statusComplete
	case failure == nil:
		f.Status = statusFailed
		f.failure = &Failure{Failure: retry.Failure{Message: "it gave no result: no JSON with completion_percentage", ExitCode: -1}}
	default:
		f.Status = statusFailed
	}
	return f
}

// byExit tells whether the last command says by its exit code alone how complete the work is.
func (v *validate) byExit() bool {
	return v.resultFile == nil && len(v.commands) > 0 && v.commands[len(v.commands)-1].kind == "shell"
}

// readResult returns the result that a text is, or the last one in it that stands alone: commands print other things as well.
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

// json returns what ${validation} stands for.
func (f found) json() json.RawMessage {
	data, err := json.Marshal(f)
	if err != nil {
		panic("BUG: the result of a validation has no JSON: " + err.Error())
	}
	return data
}

// failed is the failure of a step whose work is not complete.
func (v *validate) failed(st *step, f found) *Failure {
	failure := &Failure{Step: st.label, Failure: retry.Failure{ExitCode: -1}}
	if f.failure != nil {
		failure.Failure = f.failure.Failure
	}
	message := fmt.Sprintf("validation: %s%% complete, want %s%%", percent(f.Completion), percent(f.Threshold))
	if f.failure != nil {
		message += ": " + f.failure.Message
	}
	if len(f.Missing) > 0 && string(f.Missing) != "null" {
		message += "; missing: " + template.JSON(f.Missing).String()
	}
	failure.Message = events.Clip(message, events.MaxError)
	return failure
}

func percent(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// validationValue is what ${validation} stands for after a validation.
func validationValue(raw json.RawMessage) template.Value {
	v := template.JSON(raw)
	completion, _ := v.Field("completion_percentage")
	return v.With(map[string]template.Value{
		"completion": completion, "missing": template.JSON(json.RawMessage("[]")), "implemented": template.JSON(json.RawMessage("[]")),
		"gaps": template.JSON(json.RawMessage("{}")),
	})
}
