package shell

import (
	"slices"
	"strings"

	"prodigy/internal/check"
)

// prints says what a program prints, and so which values its output may hold.
type prints uint8

const (
	// The zero value is anything: perhaps the arguments, the input or the content of files.
	_ prints = iota
	// nothing is no output, or a number, a date or a name that no value can change.
	nothing
	// itsWords are the arguments, as with echo.
	itsWords
	// itsInput is the input, or the content of the files that are arguments, as with cat.
	itsInput
	// partsOf are perhaps parts of the same, as with grep: the value may not be among them.
	partsOf
)

// program is what a program does with data.
type program struct {
	names  string // separated by blanks
	prints prints

	// options are those whose value is code of the program's language, such as -e of perl.
	options []string

	// operand reports whether the first operand is such code, unless an option brought it: awk CODE FILE.
	operand bool

	// reads reports whether the input is such code if there is no operand: python3 <<EOF.
	reads bool

	// takes are the letters of the options that take the next word, so that it is not counted as an operand.
	takes string
}

// programTable says what programs do with data. The first row with a name holds.
var programTable = []program{
	{names: "awk gawk mawk nawk", prints: partsOf, operand: true, options: []string{"-e", "--source"}, takes: "vFfe"},
	{names: "jq", prints: partsOf, operand: true, takes: "fL"},
	{names: "sed", prints: partsOf, operand: true, options: []string{"-e", "--expression"}, takes: "fl"},
	{names: "echo printf yes basename dirname", prints: itsWords},
	{names: "cat tee head tail sort uniq tac", prints: itsInput},
	{names: "tr cut grep egrep fgrep rev fold fmt nl paste column xmllint base64 xxd od strings iconv join comm shuf yq", prints: partsOf},
	{names: "wc date mktemp id uname nproc hostname stat du df sha1sum sha256sum md5sum cksum seq sleep true false : test [ kill wait " +
		"mkdir rmdir rm cp mv ln touch chmod chown cd export unset shift set exit return read local declare", prints: nothing},
	{names: "python python2 python3 pypy pypy3", options: []string{"-c"}, reads: true, takes: "cmWX"},
	{names: "perl", options: []string{"-e", "-E"}, reads: true, takes: "eEIMm"},
	{names: "ruby", options: []string{"-e"}, reads: true, takes: "eIrC"},
	{names: "node nodejs bun deno", options: []string{"-e", "--eval", "-p", "--print", "eval"}, reads: true, takes: "epr"},
	{names: "php", options: []string{"-r", "-B", "-E", "-R"}, reads: true, takes: "rBERdfc"},
	{names: "lua luajit", options: []string{"-e"}, reads: true, takes: "el"},
	{names: "Rscript R groovy scala swift", options: []string{"-e"}, takes: "e"},
	{names: "osascript", options: []string{"-e"}, reads: true, takes: "e"},
	{names: "tclsh expect m4 ed ex gnuplot", options: []string{"-c"}, reads: true, takes: "c"},
	{names: "gdb", options: []string{"-ex", "-iex"}, takes: "x"},
	{names: "vim vi nvim", options: []string{"-c", "--cmd"}, takes: "cSsu"},
	{names: "make gmake", options: []string{"--eval"}, takes: "Cfj"},
	{names: "tar", options: []string{"--checkpoint-action"}, takes: "fCb"},
	{names: "emacs", options: []string{"--eval", "-eval"}},
	{names: "fish pwsh powershell", options: []string{"-c", "-Command", "--command"}, reads: true, takes: "c"},
	{names: "psql", options: []string{"-c", "--command"}, reads: true, takes: "cfdhpUv"},
	{names: "mysql", options: []string{"-e", "--execute"}, reads: true, takes: "ehuPD"},
	{names: "sqlite3 at batch crontab", reads: true},
}

// programOf returns the row of a program. One that has none may print what it was given.
func programOf(name string) program {
	for _, p := range programTable {
		if check.Among(p.names, name) {
			return p
		}
	}
	return program{}
}

// wrapper is a program that starts the one behind its options.
type wrapper struct {
	names string // separated by blanks
	takes string // letters of the options that take the next word

	// operand reports whether one operand stands before the program, as in timeout 30 CMD.
	operand bool
}

var wrapperTable = []wrapper{
	{names: "command builtin nohup setsid chronic unbuffer busybox coproc noglob"},
	{names: "exec", takes: "a"},
	{names: "time", takes: "fo"},
	{names: "nice", takes: "n"},
	{names: "ionice", takes: "cnp"},
	{names: "timeout", takes: "sk", operand: true},
	{names: "stdbuf", takes: "ioe"},
	{names: "flock", takes: "wE", operand: true},
	{names: "sudo", takes: "ugpCDhRrtTU"},
	{names: "doas", takes: "uC"},
	{names: "caffeinate", takes: "tw"},
	{names: "strace ltrace", takes: "eopsu"},
	{names: "taskset chrt setarch chroot", operand: true},
	{names: "xargs", takes: "aEIdLnPs"},
	{names: "env", takes: "uCS"},
}

// wrappedBy returns the index of the program that the words of a command start in the end, behind programs such
// as env and timeout, or len(args) if there is none. Words that are not constant are empty texts.
func wrappedBy(args []string) int {
	i := 0
	for i < len(args) {
		at := slices.IndexFunc(wrapperTable, func(w wrapper) bool {
			return check.Among(w.names, ProgramName(args[i]))
		})
		if at < 0 {
			return i
		}
		w := wrapperTable[at]
		// Skip its options with their values, and for env the assignments.
		for i++; i < len(args) && (strings.HasPrefix(args[i], "-") || w.names == "env" &&
			strings.Contains(args[i], "=")); i++ {
			if len(args[i]) == 2 && strings.Contains(w.takes, args[i][1:]) {
				i++
			}
		}
		if w.operand {
			i++
		}
	}
	return len(args)
}

// steering are variables of the environment by which a value becomes code: a shell expands it, or a program runs it.
const steering = `BASH_ENV ENV PS0 PS1 PS2 PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS
	LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES PYTHONSTARTUP PYTHONBREAKPOINT PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS
	GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS GIT_PROXY_COMMAND
	GIT_CONFIG_PARAMETERS GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_EXEC_PATH
	PAGER MANPAGER EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR RSYNC_RSH CVS_RSH TAR_OPTIONS
	EXINIT VIMINIT`

// steeringPrefixes begin more of them: names of functions that bash takes over, and settings of git.
var steeringPrefixes = []string{"BASH_FUNC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"}

// searched are variables that say where programs and libraries are looked for, or with which options a program
// is started: who writes them may choose what is run.
const searched = `PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH PYTHONPATH PYTHONHOME PERL5LIB PERLLIB RUBYLIB NODE_PATH CLASSPATH GCONV_PATH
	FPATH ZDOTDIR GIT_DIR GIT_TEMPLATE_DIR LUA_PATH LUA_CPATH GEM_PATH GEM_HOME SHELL CC CXX RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER
	RUSTFLAGS GOFLAGS MAKEFLAGS GNUMAKEFLAGS MFLAGS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS`

// Steering reports whether data in an environment variable of this name becomes code: surely (runs), as with
// BASH_ENV, or by what is found where it points (searches), as with PATH.
func Steering(name string) (runs, searches bool) {
	runs = check.Among(steering, name) ||
		slices.ContainsFunc(steeringPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	return runs, check.Among(searched, name)
}
