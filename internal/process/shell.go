package process

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/shell"
)

// Shell is the sh that commands are written for. It is immutable.
//
// Where a shell command comes to one program and nobody can see a difference, Run starts that program without
// the shell, which saves half of what starting it costs. Whatever depends on more (an odd environment, a file
// that does not start, a pipe to be opened) is left to the shell.
type Shell struct {
	path    string
	dialect dialect
	known   bool // which dialect it has
}

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
	s := &Shell{path: path}
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return s
	}
	s.dialect, s.known = dialects()[filepath.Base(file)]
	return s
}

// Path returns the path of the shell, or nothing when there is none.
func (s *Shell) Path() string { return s.path }

// dialect is what differs between shells when they run one program and nothing else.
type dialect struct {
	// it stays the parent of the program, and reports with its own exit code and words that a signal killed it
	staysParent bool
	setsShlvl   bool // it names the program in _, counts itself in SHLVL, and hides an OLDPWD that is no directory
	redirects   bool // all of this holds with redirections too, and its words about a signal go where they lead
}

// dialects are known by the name of the shell's file. Any other shell always runs its commands itself.
func dialects() map[string]dialect {
	return map[string]dialect{
		"dash": {staysParent: true, redirects: true},
		"bash": {setsShlvl: true},
	}
}

// Program is what a shell command comes to when it is one program and nothing else.
type Program struct {
	Argv      []string // empty: only the shell knows what the command does
	Redirects []Redirect
}

// Redirect is a redirection of a plain command. Those of a command are applied in their order.
type Redirect struct {
	FD   int    // what is redirected: 0, 1 or 2
	File string // as the shell would open it; without it FD becomes a copy of Copy
	Flag int    // for opening File, as for os.OpenFile
	Copy int
}

// Run runs c, which starts the shell, or instead of it the program p that the shell would start. When the
// program does not start, the shell runs after all: it may know what to do with the file, and says best what is
// wrong with it. run is package process's Run, or a function like it.
func (s *Shell) Run(
	ctx context.Context, run func(context.Context, Command) (Exit, error), c Command, p Program,
) (Exit, error) {
	path, env, ok := s.program(p, c)
	if !ok || ctx.Err() != nil {
		return run(ctx, c)
	}
	files, ok := openStdio(p.Redirects, c)
	if !ok {
		return run(ctx, c)
	}
	defer files.close()
	instead := c
	instead.Path, instead.Argv, instead.Env = path, p.Argv, env
	instead.Stdout, instead.Stderr = files.fds[1], files.fds[2]
	if file, ok := files.fds[0].(*os.File); ok {
		instead.Stdin = file
	}
	exit, err := run(ctx, instead)
	switch {
	case exit.Start != nil:
		files.close()
		return run(ctx, c)
	case err != nil || ctx.Err() != nil:
		return exit, err
	}
	return s.dialect.asShellReports(exit, instead.Stderr), nil
}

// program returns the file that the shell would start for p, and with which environment. It is not ok when only
// the shell knows.
func (s *Shell) program(p Program, c Command) (path string, env []string, ok bool) {
	if !s.known || len(p.Argv) == 0 || !filepath.IsAbs(c.Dir) || filepath.Base(p.Argv[0]) == needsShell {
		return "", nil, false
	}
	if len(p.Redirects) > 0 && (!s.dialect.redirects || slices.ContainsFunc(p.Redirects, opensForWriting)) {
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
	if s.dialect.setsShlvl {
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
	level := "0"
	if v.level != "" {
		n, err := strconv.Atoi(v.level)
		if err != nil || n < 0 || n > 900 || strconv.Itoa(n) != v.level {
			return nil, false
		}
		level = v.level
	}
	return append(env, "_="+path, "SHLVL="+level), true
}

// asShellReports returns exit as the shell would report it. A shell that stays the parent says which signal
// killed the program.
func (d dialect) asShellReports(exit Exit, stderr io.Writer) Exit {
	if !d.staysParent || exit.Signal == "" || exit.TimedOut {
		return exit
	}
	if message := signalMessage(exit); message != "" {
		_, _ = io.WriteString(stderr, message+"\n") // a Capture takes all
	}
	exit.Code, exit.Signal = 128+exit.Number, ""
	return exit
}

// signalMessages are the words of the C library for the signals that kill a program. Shells say nothing of
// SIGINT and SIGPIPE.
func signalMessages() map[string]string {
	return map[string]string{
		"SIGHUP": "Hangup", "SIGINT": "", "SIGQUIT": "Quit", "SIGILL": "Illegal instruction",
		"SIGTRAP": "Trace/breakpoint trap",
		"SIGABRT": "Aborted", "SIGBUS": "Bus error", "SIGFPE": "Floating point exception", "SIGKILL": "Killed",
		"SIGUSR1": "User defined signal 1", "SIGSEGV": "Segmentation fault", "SIGUSR2": "User defined signal 2",
		"SIGPIPE": "",
		"SIGALRM": "Alarm clock", "SIGTERM": "Terminated", "SIGSTKFLT": "Stack fault",
		"SIGXCPU": "CPU time limit exceeded",
		"SIGXFSZ": "File size limit exceeded", "SIGVTALRM": "Virtual timer expired",
		"SIGPROF": "Profiling timer expired",
		"SIGIO":   "I/O possible", "SIGPWR": "Power failure", "SIGSYS": "Bad system call",
	}
}

// firstRealTime is the first of the signals that programs may use as they like; the two before it are the C
// library's own.
const firstRealTime = 34

func signalMessage(exit Exit) string {
	words, named := signalMessages()[exit.Signal]
	switch {
	case named && words == "":
		return ""
	case !named && exit.Number >= firstRealTime:
		words = "Real-time signal " + strconv.Itoa(exit.Number-firstRealTime)
	case !named:
		words = "Unknown signal " + strconv.Itoa(exit.Number)
	}
	if exit.Core {
		words += " (core dumped)"
	}
	return words
}

// stdio is where the descriptors 0, 1 and 2 of a program lead.
type stdio struct {
	fds   [3]io.Writer // fds[0] is nil or a file
	files []*os.File   // those that were opened
}

// openStdio opens the files that redirections name, as the shell would that c runs. It is not ok when they are
// more than files to read from, or when one cannot be opened: then only the shell knows what happens.
func openStdio(redirects []Redirect, c Command) (s stdio, ok bool) {
	s.fds = [3]io.Writer{nil, c.Stdout, c.Stderr}
	for _, r := range redirects {
		if r.File == "" {
			s.fds[r.FD] = s.fds[r.Copy]
			continue
		}
		path := r.File
		if !filepath.IsAbs(path) {
			path = c.Dir + "/" + path // not cleaned: it may lead through links
		}
		if !opensWithoutTrace(path) {
			s.close()
			return stdio{}, false
		}
		file, err := OpenSource(path, r.Flag)
		if err != nil {
			s.close()
			return stdio{}, false
		}
		s.files = append(s.files, file)
		s.fds[r.FD] = file
	}
	return s, true
}

// opensForWriting reports whether a redirection opens a file for writing, which is left to the shell: see OpenSource.
func opensForWriting(r Redirect) bool {
	return r.File != "" && r.File != os.DevNull && r.Flag != os.O_RDONLY
}

// opensWithoutTrace reports whether nobody notices that a file is opened. Opening a pipe would let its writer go on.
func opensWithoutTrace(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.Mode().IsRegular() || path == os.DevNull)
}

// close closes the files. A command that runs has its own descriptors of them.
func (s *stdio) close() {
	for _, file := range s.files {
		_ = file.Close()
	}
	s.files = nil
}
