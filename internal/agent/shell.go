package agent

import (
	"os/exec"
	"path/filepath"
	"sync"

	"prodigy/internal/template"
)

// shell is a step that sh runs. Its values reach it through the environment only.
type shell struct{ *template.Template }

func compileShell(text string, n template.Names) (command, []template.Diag, error) {
	t, err := template.Compile(text, template.Options{Names: n, Shell: "sh"})
	if err != nil {
		return nil, nil, err
	}
	return shell{t}, t.Diags, nil
}

func (s shell) bind(r template.Resolver, x *Executor) (call, error) {
	inv, err := s.Bind(r)
	if err != nil {
		return call{}, err
	}
	c := call{path: x.shell.find(), argv: []string{"sh", "-c", inv.Script}, env: inv.Env, values: inv.Values}
	c.words, c.redirects = inv.Argv, inv.Redirects
	if inv.AsFile {
		c.argv, c.script = []string{"sh"}, inv.Script
	}
	return c, nil
}

func (s shell) render(r template.Resolver) string { return s.Render(r) }

// shellPath is where sh lies and which shell it is, looked up once: a search of PATH for every command is felt.
type shellPath struct {
	once sync.Once
	path string
	name string // of the file that path leads to
}

// find returns the path, or nothing when there is no sh; who starts it will then say so.
func (s *shellPath) find() string {
	s.once.Do(func() {
		path, err := exec.LookPath("sh")
		if err != nil {
			return
		}
		s.path = path
		if file, err := filepath.EvalSymlinks(path); err == nil {
			s.name = filepath.Base(file)
		}
	})
	return s.path
}

// dialect returns how sh starts programs, if that is known.
func (s *shellPath) dialect() (dialect, bool) {
	s.find()
	for _, d := range dialects {
		if d.shell == s.name {
			return d.is, true
		}
	}
	return dialect{}, false
}
