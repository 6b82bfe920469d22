package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/events"

	"prodigy/internal/process"
	"prodigy/internal/shell/template"
)

// variables returns prodigy's variables that are the same for all commands of the attempt. itemFile is empty
// when there is none.
func (a *Attempt) variables(itemFile string) []string {
	vars := []string{automationVar + "=true", jobVar + "=" + a.JobID, correlationVar + "=" + a.CorrelationID}
	if a.Base != "" {
		vars = append(vars, baseVar+"="+a.Base)
	}
	if a.Phase != phaseMap {
		return vars
	}
	vars = append(vars, itemIDVar+"="+a.ItemID, attemptVar+"="+strconv.Itoa(a.Number))
	if len(a.Produces) > 0 {
		vars = append(vars, producesVar+"="+strings.Join(a.Produces, "\n"))
	}
	if a.PerValue {
		for _, name := range valueVars {
			vars = append(vars, name+"="+a.valueVar(name).String())
		}
	}
	if itemFile != "" {
		vars = append(vars, itemFileVar+"="+itemFile)
	}
	if len(a.Item) <= maxItemVar {
		vars = append(vars, itemVar+"="+string(a.Item))
	}
	return vars
}

// valueVar returns the value of one of valueVars.
func (a *Attempt) valueVar(name string) template.Value {
	switch name {
	case indexVar:
		return number(a.ItemIndex + 1)
	case totalVar:
		return total(a.ItemTotal)
	}
	return template.JSON(a.Item)
}

// total returns an empty text while n is unknown, so that a default can take its place.
func total(n int) template.Value {
	if n == 0 {
		return template.Text("")
	}
	return number(n)
}

func number(n int) template.Value { return template.Text(strconv.Itoa(n)) }

// places returns the inherited variables that name a place, as they are for the commands of the attempt.
func (a *Attempt) places(relative map[string]string) []string {
	var vars []string
	if a.Base != "" {
		for name, path := range relative {
			vars = append(vars, name+"="+filepath.Join(a.Dir, path))
		}
	}
	return appendPWD(vars, a.Dir)
}

// appendPWD sets PWD, which a program believes that is started without a shell.
func appendPWD(env []string, dir string) []string {
	if !filepath.IsAbs(dir) {
		return env
	}
	return append(env, pwdVar+"="+filepath.Clean(dir))
}

// environ returns the whole environment of a command in dir: inherited variables, those of the workflow and the step,
// prodigy's, and those of the values in the command.
func (r *run) environ(vars []string, c call, dir string) []string {
	var trace, place, worker []string
	if span, traced := events.ParseTrace(r.a.Trace); traced {
		// In place of the one that prodigy was started with.
		trace = []string{events.TraceVar + "=" + span.Step(r.position).String()}
	}
	if dir != r.a.Dir {
		place = appendPWD(nil, dir)
	}
	if r.a.Phase == phaseMap {
		worker = []string{workerVar + "=" + strconv.Itoa(r.a.Worker)}
	}
	return slices.Concat(c.defaults, r.x.inherited(), r.places, trace, vars, r.vars, place, worker, c.env)
}

// add writes a file that only the user can read, and returns its absolute path.
func (s *scratch) add(pattern, content string) (path string, err error) {
	if s.run.x.Simulate != nil {
		return filepath.Join(s.run.x.TempDir, pattern), nil // nobody reads it
	}
	err = s.make(func() (err error) {
		path, err = writePrivate(s.run.x.TempDir, pattern, content)
		return err
	})
	if err == nil {
		s.files = append(s.files, path)
	}
	return path, err
}

// make calls f, which makes a file, when one more may be open.
func (s *scratch) make(f func() error) error {
	err := s.run.x.limiter.do(s.run.stop, f)
	s.err = cmp.Or(s.err, err)
	return err
}

// addValues is add for values. A file that holds a secret is kept in memory, so that nothing of it is left when
// prodigy is killed. Programs that want the real path of a file do not find such a one, so it is not used for
// all.
func (s *scratch) addValues(pattern, content string) (string, error) {
	var path string
	if s.run.x.Simulate == nil && s.run.x.Mask.Holds(content) {
		err := s.make(func() error {
			file, at, err := process.MemoryFile(content)
			switch {
			case err == nil:
				path, s.memory = at, append(s.memory, file)
			case errors.Is(err, errors.ErrUnsupported):
				return nil
			}
			return err
		})
		if path != "" || err != nil {
			return path, err
		}
	}
	return s.add(pattern, content)
}

func writePrivate(dir, pattern, content string) (path string, err error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", fmt.Errorf("make a private file: %w", err)
	}
	_, err = f.WriteString(content)
	if err = cmp.Or(err, f.Close()); err == nil {
		path, err = filepath.Abs(f.Name())
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write a private file: %w", err)
	}
	return path, nil
}

// remove removes the files.
func (s *scratch) remove() {
	for _, f := range s.files {
		_ = os.Remove(f)
	}
	for _, f := range s.memory {
		_ = f.Close()
	}
	s.files, s.memory = nil, nil
}
