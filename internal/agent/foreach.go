package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/process"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// foreach is a step that runs steps for each element of a list.
type foreach struct {
	*workflow.Foreach
	listed  []listed
	command command         // whose output is the list; nil means none
	value   *template.Plain // a placeholder whose value is the list; nil means none
	do      []*step
}

// listed is an element that is written in the workflow.
type listed struct {
	text *template.Plain // nil: raw
	raw  json.RawMessage
}

// onePlaceholder matches a text that is nothing but one placeholder.
var onePlaceholder = check.Regexp(`^\$\{[A-Za-z_][^${}]*\}$`)

func buildForeach(c *compiler, s *step, n scopeNames) command {
	f := &foreach{Foreach: s.Foreach}
	switch text := f.Input.Command; {
	case text == nil:
		for _, e := range f.Input.List {
			l := listed{raw: json.RawMessage(e.JSON)}
			if e.Text != nil {
				l.text = c.plain(s, *e.Text, n)
			}
			f.listed = append(f.listed, l)
		}
	case onePlaceholder().MatchString(text.Value):
		f.value = c.plain(s, *text, n)
	default:
		f.command = c.command(s, nil, text.Value, text.At, n)
	}
	if f.Parallel > process.MaxCommands {
		c.failed(s, s.anywhere, fmt.Errorf("parallel: %d exceeds the maximum of %d", f.Parallel, process.MaxCommands))
	}
	c.valueName(s.Step, "element", f.ElementName())
	f.do, _ = c.list(f.Do, withElement(n, f.ElementName()), s.label+"/")
	s.inner = append(s.inner, f.do)
	return f
}

// bind puts the values into the list, or into the command that prints it.
func (f *foreach) bind(r template.Resolver, x *Executor) (call, error) {
	var listing call
	var elements []json.RawMessage
	var err error
	if f.command != nil {
		listing, err = f.command.bind(r, x)
	} else {
		elements, err = f.elements(r)
	}
	return call{env: listing.env, action: func(ctx context.Context, r *run, st *step, b boundCommand) (result, error) {
		if f.command != nil {
			list := b
			list.call, list.output = listing, nil
			if elements, err = r.listing(ctx, st, list); err != nil {
				return notRun, err
			}
		}
		return f.run(ctx, r, b.scope, st, elements)
	}}, err
}

// elements returns the list that is written in the workflow, or the value of its placeholder.
func (f *foreach) elements(r template.Resolver) ([]json.RawMessage, error) {
	if f.value != nil {
		text, err := f.value.Bind(r)
		if err != nil {
			return nil, err
		}
		return elementsOf(text), nil
	}
	var elements []json.RawMessage
	for _, l := range f.listed {
		if l.text == nil {
			elements = append(elements, l.raw)
			continue
		}
		text, err := l.text.Bind(r)
		if err != nil {
			return nil, err
		}
		elements = append(elements, rawjson.Of(text))
	}
	return elements, nil
}

// maxListing is how much a command that lists elements may print.
const maxListing = 64 << 20

// listing runs the command that prints the elements.
func (r *run) listing(ctx context.Context, st *step, b boundCommand) ([]json.RawMessage, error) {
	if err := b.makeFiles(); err != nil {
		return nil, err
	}
	rec, end := r.record(st, nil), stoppedEnd()
	defer func() { rec.close(end) }()
	stdout, stderr := &rec.stdout, &rec.stderr
	stdout.Limit = maxListing
	exit, err := r.execWithTimeout(ctx, st, b, &sink{kept: stdout}, stderr)
	if err != nil {
		return nil, err
	}
	failure := failureOf(st, exit, trimmed(stderr.masked()))
	end = endOf(exit, failure)
	if failure != nil {
		failure.Message = "foreach: input command: " + failure.Message
		return nil, failure
	}
	if stdout.Cut() {
		message := fmt.Sprintf("foreach: the input command printed more than %d bytes: use a map phase", maxListing)
		return nil, st.fails(retry.TypeTemplate, message)
	}
	return elementsOf(stdout.Text()), nil
}

// elementsOf reads the output of a command: a JSON array of the elements, or else one element on each line that
// is not blank. A line that is JSON is that value, any other is text.
func elementsOf(output string) []json.RawMessage {
	var elements []json.RawMessage
	if trimmed := strings.TrimSpace(output); strings.HasPrefix(trimmed, "[") && rawjson.Valid([]byte(trimmed)) &&
		json.Unmarshal([]byte(trimmed), &elements) == nil {
		return elements
	}
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
		case rawjson.Valid([]byte(line)):
			elements = append(elements, json.RawMessage(line))
		default:
			elements = append(elements, rawjson.Of(line))
		}
	}
	return elements
}

// row is the outcome of one element, in the output of the step.
type row struct {
	Index    int             `json:"index"`
	Item     json.RawMessage `json:"item"`
	Status   string          `json:"status"` // success, failed
	Output   string          `json:"output"`
	ExitCode int             `json:"exit_code"`
	Error    string          `json:"error,omitempty"`

	failure *Failure
	cut     *Failure
}

// run runs the steps for each element, and makes the result of the step from their outcomes.
func (f *foreach) run(
	ctx context.Context, r *run, s *scope, st *step, elements []json.RawMessage,
) (result, error) {
	began := time.Now()
	if f.MaxItems != nil {
		elements = elements[:min(len(elements), *f.MaxItems)]
	}
	rows, err := f.each(ctx, r, s, elements)
	for _, one := range rows {
		if one != nil && one.cut != nil {
			r.cut = one.cut
		}
	}
	if err != nil {
		return notRun, err
	}
	res := result{Printed: Printed{Output: rowsJSON(rows)}, duration: time.Since(began)}
	if failure := f.failure(st, rows); failure != nil {
		return res, failure
	}
	return res, nil
}

// each runs the steps for the elements, at most as many at once as the step says. After a failure nothing new
// is started, unless the step goes on; what runs gets to finish. An element that was not started has no row.
func (f *foreach) each(ctx context.Context, r *run, s *scope, elements []json.RawMessage) ([]*row, error) {
	rows := make([]*row, len(elements))
	var halt atomic.Bool // nothing new is started
	var group errgroup.Group
	group.SetLimit(max(1, f.Parallel))
	for i := range elements {
		if halt.Load() || ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if halt.Load() {
				return nil
			}
			l := &loop{as: f.ElementName(), value: elements[i], index: i, total: len(elements), outer: s.loop}
			one, err := f.element(ctx, r, s, l)
			rows[i] = one
			if err != nil || one.failure != nil && !f.Continue {
				halt.Store(true)
			}
			return err
		})
	}
	err := group.Wait()
	if err == nil && !halt.Load() && slices.Contains(rows, nil) {
		err = context.Cause(ctx)
	}
	return rows, err
}

// element runs the steps for one element, in a scope of its own.
func (f *foreach) element(ctx context.Context, r *run, s *scope, l *loop) (*row, error) {
	a := *r.a
	a.Retrying = nil // it does not say for which element
	child := *r
	child.a, child.heads, child.cut, child.keepSlot = &a, nil, nil, true
	child.element = append(slices.Clip(r.element), l.index)
	inner := s.inside()
	inner.run, inner.loop, inner.quiet = &child, l, true
	one := &row{Index: l.index, Item: l.value, Status: "success"}
	for _, st := range f.do {
		end, err := child.runStep(ctx, inner, st)
		one.cut = child.cut
		if err != nil {
			return one, err
		}
		if !end.result.skipped {
			one.Output, one.ExitCode = end.result.shown().Output, end.result.code
		}
		if failure := end.failure; failure != nil {
			one.Status, one.Error, one.failure = "failed", failure.Message, failure
			break
		}
	}
	return one, nil
}

// maxRows is how much of the outputs of its elements a foreach keeps in all.
const maxRows = 1 << 20

// rowsJSON returns the rows of the elements that ran as a JSON array.
func rowsJSON(rows []*row) string {
	share := maxRows / max(1, len(rows))
	ran := slices.DeleteFunc(rows, func(one *row) bool { return one == nil })
	for _, one := range ran {
		if len(one.Output) > share {
			c := process.Capture{Limit: max(share, 2)}
			_, _ = c.Write([]byte(one.Output))
			one.Output = c.Text()
		}
	}
	return string(rawjson.Of(ran))
}

// failure returns the failure of the first element that failed as that of the step, or nil when the step
// continues after failures.
func (f *foreach) failure(st *step, rows []*row) *Failure {
	failed := slices.DeleteFunc(slices.Clone(rows), func(one *row) bool { return one == nil || one.failure == nil })
	if len(failed) == 0 || f.Continue {
		return nil
	}
	failure := *failed[0].failure
	failure.Message = fmt.Sprintf("%d of %d elements failed; %s of element %d: %s",
		len(failed), len(rows), failure.Step, failed[0].Index, failure.Message)
	failure.Step = st.label
	return &failure
}

func (f *foreach) render(r template.Resolver) string {
	var list string
	switch {
	case f.command != nil:
		list = "$(" + f.command.render(r) + ")"
	case f.value != nil:
		list = f.value.Render(r)
	default:
		list = strings.Join(check.Each(f.listed, func(l listed) string {
			if l.text != nil {
				return l.text.Render(r)
			}
			return string(l.raw)
		}), ", ")
	}
	return fmt.Sprintf("for each %s in %s", f.ElementName(), list)
}
