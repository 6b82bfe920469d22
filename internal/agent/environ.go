package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"prodigy/internal/template"
)

// The variables that prodigy sets for every command. Those of an outer prodigy are not handed on.
const (
	jobVar         = "PRODIGY_JOB_ID"
	itemIDVar      = "PRODIGY_ITEM_ID"
	itemVar        = "PRODIGY_ITEM"
	itemFileVar    = "PRODIGY_ITEM_FILE"
	attemptVar     = "PRODIGY_ATTEMPT"
	workerVar      = "PRODIGY_WORKER_ID"
	correlationVar = "PRODIGY_CORRELATION_ID"
	automationVar  = "PRODIGY_AUTOMATION"

	// Only of a workflow that runs once for each value, which has two names: its place from 1, and how many there are.
	argVar   = "ARG"
	fileVar  = "FILE"
	indexVar = "INDEX"
	totalVar = "TOTAL"

	valuesVar    = "PRODIGY_VALUES"
	valuesPrefix = "PRODIGY_V" // of the variables that template makes, and of valuesVar
)

// maxItemVar is the size past which an item does not go into the environment: arguments and environment share one limit.
const maxItemVar = 96 << 10

// inherited is the environment that every command starts from, made once for all.
type inherited struct {
	once sync.Once
	vars []string
}

func (i *inherited) of(environ []string) []string {
	i.once.Do(func() { i.vars = slices.DeleteFunc(slices.Clone(environ), ours) })
	return i.vars
}

// ours tells whether a variable is one of those that prodigy sets.
func ours(kv string) bool {
	if !strings.HasPrefix(kv, "PRODIGY_") {
		return false
	}
	name, _, _ := strings.Cut(kv, "=")
	switch name {
	case jobVar, itemIDVar, itemVar, itemFileVar, attemptVar, workerVar, correlationVar, automationVar:
		return true
	}
	return strings.HasPrefix(name, valuesPrefix)
}

// fixed returns the variables that are the same for all commands of the attempt. itemFile is empty when there is none.
func (a *Attempt) fixed(itemFile string) []string {
	vars := []string{automationVar + "=true", jobVar + "=" + a.JobID, correlationVar + "=" + a.CorrelationID}
	if a.Phase != phaseMap {
		return vars
	}
	vars = append(vars, itemIDVar+"="+a.ItemID, attemptVar+"="+strconv.Itoa(a.Number))
	if a.PerValue {
		for _, name := range valueVars() {
			value, _ := a.valueVar(name)
			vars = append(vars, name+"="+value.String())
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

// valueVars returns the names that only a workflow that runs once for each value has.
func valueVars() []string { return []string{argVar, fileVar, indexVar, totalVar} }

// valueVar returns the value of one of valueVars.
func (a *Attempt) valueVar(name string) (template.Value, bool) {
	switch name {
	case argVar, fileVar:
		return template.JSON(a.Item), true
	case indexVar:
		return template.Text(strconv.Itoa(a.ItemIndex + 1)), true
	case totalVar:
		return total(a.ItemTotal), true
	}
	return template.Value{}, false
}

// environ returns the whole environment of a command: inherited variables, those of the workflow and the step, prodigy's, and
// those of the command's values.
func (r *run) environ(vars []string, c call) []string {
	inherited := r.x.inherited.of(r.x.Environ)
	env := make([]string, 0, len(inherited)+len(vars)+len(r.fixed)+len(c.env)+2)
	env = append(env, inherited...)
	env = append(env, vars...)
	env = append(env, r.fixed...)
	if r.a.Phase == phaseMap {
		env = append(env, workerVar+"="+strconv.Itoa(r.a.Worker))
	}
	return append(env, c.env...)
}

// privateFile writes a file that only the user can read, and returns its absolute path.
func (r *run) privateFile(pattern, content string) (path string, err error) {
	err = r.x.inRoom(r.stop, func() (err error) {
		path, err = r.x.writePrivate(pattern, content)
		return err
	})
	return path, err
}

func (x *Executor) writePrivate(pattern, content string) (path string, err error) {
	f, err := os.CreateTemp(x.TempDir, pattern)
	if err != nil {
		return "", fmt.Errorf("make a private file: %w", err)
	}
	_, err = f.WriteString(content)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		path, err = filepath.Abs(f.Name())
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write a private file: %w", err)
	}
	return path, nil
}
