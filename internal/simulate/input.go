package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/reuse"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// BeginAt reads when a job begins. Without a date it is today, and without a zone it is local time.
func BeginAt(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.In(now.Location()), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", "15:04:05", "15:04"} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		if !strings.HasPrefix(layout, "2006") {
			t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		}
		if t.Year() < 2000 || t.Year() > 2200 {
			return t, fmt.Errorf("%q is outside the supported years 2000 to 2200", text)
		}
		return t, nil
	}
	return now, fmt.Errorf(`invalid time %q: use 22:00, 2006-01-02, "2006-01-02 22:00" or RFC 3339`, text)
}

// InputError says why the items of a simulated job are not known.
type InputError struct{ error }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.error }

// ChooseInput returns w with another input where the real one cannot be read without running a command, or where
// another is given: the path of a file, or the items themselves. c is that of the job, and real is the home of the
// jobs that have run. The error is an *InputError if there have to be others.
func ChooseInput(w *workflow.Workflow, c mapreduce.Config, real jobs.Home, file string, given []json.RawMessage) (
	*workflow.Workflow, error,
) {
	if w.Map == nil {
		return w, nil
	}
	own, m := *w, *w.Map
	own.Map = &m
	in := m.Input
	switch {
	case given != nil:
		m.Input, m.JSONPath = workflow.Input{Items: given, Pos: in.Pos}, workflow.Text{}
	case file == "-":
		m.Input = workflow.Input{Stdin: true, Pos: in.Pos}
	case file != "":
		path, err := filepath.Abs(file)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return nil, &InputError{fmt.Errorf("--items: %w", err)}
		}
		m.Input = workflow.Input{File: []string{path}, Pos: in.Pos}
		if !strings.Contains(filepath.Base(path), ".") {
			m.Input.Format = in.Format
		}
	case in.Job != "":
		path := filepath.Join(c.Home.Root, "input.jsonl")
		c.Home = real
		m.Input = workflow.Input{File: []string{path}, Format: "jsonl", Pos: in.Pos}
		return &own, writeResults(path, c, w)
	default:
		env := c.ItemsEnv()
		if name, _, free := items.Source(in, env); !free {
			return nil, &InputError{fmt.Errorf(
				"%s:%d: items come from a command (%s), which simulate does not run; use --items FILE",
				term.Visible(w.File), in.Pos.Line, term.Visible(term.Ellipsis(name, 60)))}
		}
		if found := items.CheckInput(&m, env); w.Setup == nil && len(found) > 0 {
			found[0].File = w.File
			return nil, &workflow.InvalidError{Problems: found}
		}
	}
	return &own, nil
}

// writeResults writes a file with the results of the job that is the input of w.
func writeResults(path string, c mapreduce.Config, w *workflow.Workflow) error {
	in, err := reuse.OpenInput(c.Reuse(), w)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	err = in.Results(func(_ string, result []byte) error {
		_, err := file.Write(append(slices.Clip(result), '\n'))
		return err
	})
	return errors.Join(err, file.Close(), in.Close())
}
