package template

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// values is a Resolver of fixed values.
type values map[string]Value

func (v values) Resolve(root string) (Value, bool) {
	value, ok := v[root]
	return value, ok
}

func item(doc string) values { return values{"item": JSON(json.RawMessage(doc))} }

var testNames = namesOf([]string{"item", "map", "env", "shell", "build-step"}, []string{"item_id", "count", "API_KEY", "item", "item_index"})

func namesOf(roots, declared []string) Names {
	var n Names
	for _, name := range roots {
		n = n.With(name, Name{Root: true})
	}
	for _, name := range declared {
		n = n.With(name, Name{Declared: true})
	}
	return n
}

// shells are those of the wanted ones that this machine has.
func shells(wanted ...string) []string {
	var found []string
	for _, s := range wanted {
		if _, err := exec.LookPath(s); err == nil {
			found = append(found, s)
		}
	}
	return found
}

// run executes an invocation as an agent would: in an empty directory, with nothing to read.
func run(ctx context.Context, shell, dir string, inv *Invocation) ([]byte, error) {
	env := append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=/h"}, inv.Env...)
	side, err := os.MkdirTemp("", "invocation")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(side) }()
	if inv.Values != "" {
		path := filepath.Join(side, "values")
		if err := os.WriteFile(path, []byte(inv.Values), 0o600); err != nil {
			return nil, err
		}
		env = append(env, "PRODIGY_VALUES="+path)
	}
	args := []string{"-c", inv.Script}
	if inv.AsFile {
		path := filepath.Join(side, "script")
		if err := os.WriteFile(path, []byte(inv.Script), 0o600); err != nil {
			return nil, err
		}
		args = []string{path}
	}
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Dir, cmd.Env = dir, env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// pwned returns the files that a payload left behind.
func pwned(dir string) []string {
	found, err := filepath.Glob(filepath.Join(dir, "pwned*"))
	if err != nil {
		panic("BUG: bad pattern: " + err.Error())
	}
	return found
}

// emptyDir empties a directory that a case left files in.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// printed compiles, binds and runs a script, and returns what it prints.
func printed(t *testing.T, shell, script string, r Resolver) string {
	t.Helper()
	tmpl, err := Compile(script, Options{Names: testNames, Shell: shell})
	if err != nil {
		t.Fatalf("compile %q: %v", script, err)
	}
	inv, err := tmpl.Bind(r)
	if err != nil {
		t.Fatalf("bind %q: %v", script, err)
	}
	dir := t.TempDir()
	out, err := run(t.Context(), shell, dir, inv)
	if err != nil {
		t.Errorf("run %q as %q: %v", script, inv.Script, err)
	}
	if files := pwned(dir); len(files) > 0 {
		t.Errorf("%q as %q ran the payload", script, inv.Script)
	}
	return string(out)
}
