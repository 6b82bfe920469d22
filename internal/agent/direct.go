package agent

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/process"
)

// program is a command that is started without the shell it was written for: what the shell would have started. When it does not
// start, the shell has to be asked after all, since it may know what to do with the file, and says best what is wrong with it.
type program struct {
	path  string
	argv  []string
	env   []string
	shell dialect
}

// dialect is what differs between shells when they run one program and nothing else. A shell that is not in dialects is always run.
type dialect struct {
	parent bool // it stays the parent of the program, and tells with its own exit code and words that a signal killed it
	marks  bool // it names the program in _, counts itself in SHLVL, and hides an OLDPWD that is no directory
	opens  bool // with redirections all this is the same, and that it tells of a signal goes where they lead
}

// dialects are known by the name of the file that sh is.
var dialects = []struct {
	shell string
	is    dialect
}{
	{"dash", dialect{parent: true, opens: true}},
	{"bash", dialect{marks: true}},
}

// unruly are the names of variables that some shell reads from its environment and does not hand on as they were.
var unruly = []string{
	"COPROC", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "IFS", "LINENO", "OPTERR", "OPTIND",
	"POSIXLY_CORRECT", "PPID", "PS1", "PS2", "PS4", "RANDOM", "SECONDS", "SHELLOPTS", "SRANDOM", "UID",
}

// leaders are programs that do something else when they lead a process group, as they do without a shell above them.
var leaders = []string{"setsid"}

// direct returns the program that sh would start for c and nothing else, and false when only the shell knows.
func (x *Executor) direct(c call, env []string, dir string) (program, bool) {
	if len(c.words) == 0 || !filepath.IsAbs(dir) || slices.Contains(leaders, filepath.Base(c.words[0])) || slices.ContainsFunc(c.redirects, writes) {
		return program{}, false
	}
	shell, known := x.shell.dialect()
	vars, plain := shellVars(env)
	if !known || !plain || len(c.redirects) > 0 && !shell.opens {
		return program{}, false
	}
	path, found := lookUp(c.words[0], vars.path)
	pwd, sure := workingDir(dir, vars.pwd)
	if !found || !sure {
		return program{}, false
	}
	if pwd != vars.pwd {
		env = append(env, "PWD="+pwd)
	}
	if shell.marks {
		if env, sure = marked(env, vars, path); !sure {
			return program{}, false
		}
	}
	return program{path: path, argv: c.words, env: env, shell: shell}, true
}

// variables are those of an environment that say how a shell starts a program.
type variables struct {
	path, pwd, level, oldPWD string
	hasOldPWD                bool
}

// shellVars finds the variables in env, of which the last of a name holds. It is not ok when a shell would change another one or
// leave it out, as some do with names that they could not have given.
func shellVars(env []string) (v variables, ok bool) {
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
			if !shellName(name) || slices.Contains(unruly, name) || strings.HasPrefix(name, "BASH") {
				return variables{}, false
			}
		}
	}
	return v, true
}

func shellName(s string) bool {
	for i := range len(s) {
		letter := s[i] == '_' || 'a' <= s[i]|0x20 && s[i]|0x20 <= 'z'
		if !letter && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}

// lookUp returns the file that a shell runs for name: the first in path that may be run. What two shells see in different ways is
// not found, such as a folder that is relative or ends in a slash.
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

// workingDir returns what a shell started in dir makes of an inherited PWD: it stands when it leads to dir.
func workingDir(dir, inherited string) (pwd string, sure bool) {
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

// marked adds what bash adds to the environment of a program that it becomes.
func marked(env []string, v variables, path string) (with []string, sure bool) {
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

// told returns the exit as the shell would have told it: of a program that a signal killed it says which one.
func (d dialect) told(exit process.Exit, stderr io.Writer) process.Exit {
	if !d.parent || exit.Signal == "" || exit.TimedOut {
		return exit
	}
	if death := deathNotice(exit); death != "" {
		_, _ = io.WriteString(stderr, death+"\n") // a Capture takes all
	}
	exit.Code, exit.Signal = 128+exit.Number, ""
	return exit
}

// deaths are the words of the C library for what killed a program. Of SIGINT and SIGPIPE nothing is told.
func deaths() map[string]string {
	return map[string]string{
		"SIGHUP": "Hangup", "SIGINT": "", "SIGQUIT": "Quit", "SIGILL": "Illegal instruction", "SIGTRAP": "Trace/breakpoint trap",
		"SIGABRT": "Aborted", "SIGBUS": "Bus error", "SIGFPE": "Floating point exception", "SIGKILL": "Killed",
		"SIGUSR1": "User defined signal 1", "SIGSEGV": "Segmentation fault", "SIGUSR2": "User defined signal 2", "SIGPIPE": "",
		"SIGALRM": "Alarm clock", "SIGTERM": "Terminated", "SIGSTKFLT": "Stack fault", "SIGXCPU": "CPU time limit exceeded",
		"SIGXFSZ": "File size limit exceeded", "SIGVTALRM": "Virtual timer expired", "SIGPROF": "Profiling timer expired",
		"SIGIO": "I/O possible", "SIGPWR": "Power failure", "SIGSYS": "Bad system call",
	}
}

// firstRealTime is the first of the signals that programs may use as they like; the two before it are the C library's own.
const firstRealTime = 34

func deathNotice(exit process.Exit) string {
	words, named := deaths()[exit.Signal]
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
