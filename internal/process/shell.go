package process

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"prodigy/internal/shell"
)

// Shell is the sh that commands are written for. It is immutable.
//
// Where a shell command comes to one program and nobody can see a difference, Run starts that program without
// the shell, which saves half of what starting it costs. Whatever depends on more (an odd environment, a file
// that does not start) is left to the shell.
type Shell struct {
	Path string // empty if this system has no shell

	// kind is dash or bash, by the name of the shell's file. Any other shell always runs its commands itself.
	kind string
}

// The shells whose behaviour is known. Dash stays the parent of the program, and reports with its own exit code and
// words that a signal killed it. Bash becomes the program, names it in _, counts itself in SHLVL, and hides an OLDPWD
// that is not a directory.
const (
	dash = "dash"
	bash = "bash"
)

// FindShell returns the sh in PATH. Without one its Path is empty, and starting it says what is wrong.
func FindShell() *Shell {
	path, err := exec.LookPath("sh")
	if err != nil {
		return &Shell{}
	}
	return ShellAt(path)
}

// ShellAt returns the shell at path. What kind of shell it is shows in the name of the file that path leads to.
func ShellAt(path string) *Shell {
	file, _ := filepath.EvalSymlinks(path)
	return &Shell{Path: path, kind: filepath.Base(file)}
}

// Program is what a shell command comes to when it is one program and nothing else.
type Program struct {
	// Argv is empty if only a shell knows what the command does.
	Argv []string

	// Redirects are applied in their order.
	Redirects []Redirect
}

// Redirect makes a standard file of a program, 0, 1 or 2, the same as another one, as in 2>&1, or /dev/null.
type Redirect struct {
	FD int

	// To is the other file, or Null.
	To int
}

// Null is /dev/null, as the target of a Redirect.
const Null = -1

// Run runs c, which starts the shell, or instead of it the program p that the shell would start. When the program
// does not start, the shell runs after all: it may know what to do with the file, and says best what is wrong with it.
// run is package process's Run, or a function like it.
func (s *Shell) Run(
	ctx context.Context, run func(context.Context, Command) (Exit, error), c Command, p Program,
) (Exit, error) {
	path, env, ok := s.program(p, c)
	if !ok || ctx.Err() != nil {
		return run(ctx, c)
	}
	instead := c
	instead.Path, instead.Argv, instead.Env = path, p.Argv, env
	instead.redirect(p.Redirects)
	exit, err := run(ctx, instead)
	switch {
	case exit.Start != nil:
		return run(ctx, c)
	case err != nil || ctx.Err() != nil:
		return exit, err
	}
	return s.report(exit, instead.Stderr), nil
}

// redirect applies redirections.
func (c *Command) redirect(redirects []Redirect) {
	for _, r := range redirects {
		outputs := map[int]io.Writer{1: c.Stdout, 2: c.Stderr} // and none for Null
		switch r.FD {
		case 0:
			c.Stdin, c.Input = nil, ""
		case 1:
			c.Stdout = outputs[r.To]
		case 2:
			c.Stderr = outputs[r.To]
		}
	}
}

// program returns the file that the shell would start for p, and with which environment. It is not ok when only
// the shell knows.
func (s *Shell) program(p Program, c Command) (path string, env []string, ok bool) {
	switch {
	case len(p.Argv) == 0 || !filepath.IsAbs(c.Dir) || filepath.Base(p.Argv[0]) == needsShell:
		return "", nil, false
	case s.kind != dash && (s.kind != bash || p.Redirects != nil): // bash writes other words where a redirection leads
		return "", nil, false
	}
	vars, ok := readVariables(c.Env)
	if !ok {
		return "", nil, false
	}
	path, found := lookUp(p.Argv[0], vars.path)
	pwd, known := workingDir(c.Dir, vars.pwd)
	if !found || !known {
		return "", nil, false
	}
	env = c.Env
	if pwd != vars.pwd {
		env = append(env, "PWD="+pwd)
	}
	if s.kind == bash {
		env, ok = vars.addBash(env, path)
	}
	return path, env, ok
}

// needsShell does something else when it leads a process group, as it does without a shell above it.
const needsShell = "setsid"

// shellManagedVars are variables that some shell reads from its environment and does not pass on as they were.
var shellManagedVars = strings.Fields(`
	COPROC DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD IFS LINENO OPTERR OPTIND
	POSIXLY_CORRECT PPID PS1 PS2 PS4 RANDOM SECONDS SHELLOPTS SRANDOM UID
`)

// variables are those of an environment that decide how a shell starts a program.
type variables struct {
	path, pwd, level, oldPWD string
	hasOldPWD                bool
}

// Variable returns the value of a variable in an environment, where the last of a name holds.
func Variable(env []string, name string) (value string, ok bool) {
	for _, kv := range slices.Backward(env) {
		if value, ok = strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// readVariables finds the variables in env, where the last of a name holds. It is not ok when a shell would
// change or drop one of the others, as some do with names that are none in shell.
func readVariables(env []string) (v variables, ok bool) {
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH":
			v.path = value
		case "PWD":
			v.pwd = value
		case "OLDPWD":
			v.oldPWD, v.hasOldPWD = value, true
		case "SHLVL":
			v.level = value
		default:
			if !shell.IsName(name) || slices.Contains(shellManagedVars, name) || strings.HasPrefix(name, "BASH") {
				return variables{}, false
			}
		}
	}
	return v, true
}

// lookUp returns the file that a shell runs for name: the first in path that may be run. Nothing is
// found where shells differ, such as in a folder that is relative or ends in a slash.
func lookUp(name, path string) (file string, found bool) {
	if strings.Contains(name, "/") {
		return name, true
	}
	for dir := range strings.SplitSeq(path, ":") {
		if !strings.HasPrefix(dir, "/") || strings.HasSuffix(dir, "/") || strings.Contains(dir, "%") {
			return "", false
		}
		file := dir + "/" + name
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, true
		}
	}
	return "", false
}

// workingDir returns the PWD of a shell that is started in dir: the inherited one if that leads to dir, else
// the real path of dir.
func workingDir(dir, inherited string) (pwd string, known bool) {
	if !strings.HasPrefix(inherited, "/") {
		inherited = ""
	}
	if inherited != "" && filepath.Clean(inherited) != inherited {
		return "", false
	}
	if inherited == dir {
		return dir, true
	}
	here, err := os.Stat(dir)
	if err != nil {
		return "", false
	}
	if there, err := os.Stat(inherited); err == nil && os.SameFile(here, there) {
		return inherited, true
	}
	pwd, err = filepath.EvalSymlinks(dir)
	return pwd, err == nil
}

// addBash adds to env what bash adds to the environment of a program that it becomes. It is not ok when only
// bash knows that.
func (v variables) addBash(env []string, path string) (with []string, ok bool) {
	if v.hasOldPWD {
		if info, err := os.Stat(v.oldPWD); err != nil || !info.IsDir() {
			return nil, false
		}
	}
	level := cmp.Or(v.level, "0")
	if n, err := strconv.Atoi(level); err != nil || n < 0 || n > 900 || strconv.Itoa(n) != level {
		return nil, false
	}
	return append(env, "_="+path, "SHLVL="+level), true
}

// report returns exit as the shell would report it. Dash says which signal killed the program, in the words of the C
// library, but nothing of SIGINT and SIGPIPE.
func (s *Shell) report(exit Exit, stderr io.Writer) Exit {
	if s.kind != dash || exit.Signal == "" || exit.TimedOut {
		return exit
	}
	if exit.Signal != "SIGINT" && exit.Signal != "SIGPIPE" && stderr != nil {
		words := syscall.Signal(exit.Number).String()
		words = strings.ToUpper(words[:1]) + words[1:]
		if exit.Core {
			words += " (core dumped)"
		}
		_, _ = io.WriteString(stderr, words+"\n") // a Capture takes all
	}
	exit.Code, exit.Signal = 128+exit.Number, ""
	return exit
}
