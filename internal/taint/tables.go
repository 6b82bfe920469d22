package taint

import (
	"slices"
	"strings"
)

// prints says what a program prints.
type prints uint8

const (
	anything prints = iota // what it was given, perhaps
	silence                // nothing, or a number, a date, a name that no one else chose
	itsWords               // what stands behind its name
	itsInput               // its input, or the files it is given
	partsOf                // parts of its input
)

// program is what the analysis knows of a program or builtin.
type program struct {
	prints  prints
	options []string // whose value is code
	operand bool     // the first operand is code, unless an option brought it
	reads   bool     // its input is code when it has no operand
	takes   string   // letters of options that take the next word
}

// programTable says what programs do with data, by their names. A language among them runs code that is not the shell's. The first row
// that has a name holds.
var programTable = []struct {
	names string
	program
}{
	{"awk gawk mawk nawk", program{prints: partsOf, operand: true, options: []string{"-e", "--source"}, takes: "vFfe"}},
	{"jq", program{prints: partsOf, operand: true, takes: "fL"}},
	{"sed", program{prints: partsOf, operand: true, options: []string{"-e", "--expression"}, takes: "fl"}},
	{"echo yes", program{prints: itsWords}},
	{"printf", program{prints: itsWords}},
	{"basename dirname", program{prints: itsWords}},
	{"cat tee head tail sort uniq tac", program{prints: itsInput, takes: "nck"}},
	{"tr cut sed grep egrep fgrep rev fold fmt nl paste column expand unexpand pr rg jq yq xmllint base64 base32 xxd od strings iconv look comm join shuf split dd awk gawk mawk", program{prints: partsOf}},
	{"realpath readlink expr getopt", program{prints: anything}},
	{"wc date mktemp id uname nproc hostname stat du df sha1sum sha256sum md5sum cksum seq sleep true false : test [ kill wait mkdir rmdir rm cp mv ln touch chmod chown " + "cd pushd popd export unset shift set exit return break continue trap umask ulimit type hash times which jobs bg fg read mapfile readarray local declare typeset readonly getopts let", program{prints: silence}},
	{"python python2 python3 pypy pypy3", program{options: []string{"-c"}, reads: true, takes: "cmWX"}},
	{"perl", program{options: []string{"-e", "-E"}, reads: true, takes: "eEIMm"}},
	{"ruby", program{options: []string{"-e"}, reads: true, takes: "eIrC"}},
	{"node nodejs bun deno", program{options: []string{"-e", "--eval", "-p", "--print", "eval"}, reads: true, takes: "epr"}},
	{"php", program{options: []string{"-r", "-B", "-E", "-R"}, reads: true, takes: "rBERdfc"}},
	{"lua luajit", program{options: []string{"-e"}, reads: true, takes: "el"}},
	{"Rscript R groovy scala swift", program{options: []string{"-e"}, takes: "e"}},
	{"osascript", program{options: []string{"-e"}, reads: true, takes: "e"}},
	{"tclsh expect m4 ed ex gnuplot", program{options: []string{"-c"}, reads: true, takes: "c"}},
	{"gdb", program{options: []string{"-ex", "-iex"}, takes: "x"}},
	{"vim vi nvim", program{options: []string{"-c", "--cmd"}, takes: "cSsu"}},
	{"emacs", program{options: []string{"--eval", "-eval"}}},
	{"fish pwsh powershell", program{options: []string{"-c", "-Command", "--command"}, reads: true, takes: "c"}},
	{"psql", program{options: []string{"-c", "--command"}, reads: true, takes: "cfdhpUv"}},
	{"mysql", program{options: []string{"-e", "--execute"}, reads: true, takes: "ehuPD"}},
	{"sqlite3", program{reads: true}},
	{"at batch crontab", program{reads: true}},
}

// programOf returns what the table says of a program.
func programOf(name string) (program, bool) {
	for i := range programTable {
		for row := range strings.FieldsSeq(programTable[i].names) {
			if row == name {
				return programTable[i].program, true
			}
		}
	}
	return program{}, false
}

// wrapper is a program that starts the one behind its options.
type wrapper struct {
	name    string
	takes   string // letters of options that take the next word
	operand bool   // one operand stands before the program
}

var wrapperTable = []wrapper{
	{name: "command"},
	{name: "builtin"},
	{name: "exec", takes: "a"},
	{name: "nohup"},
	{name: "setsid"},
	{name: "time", takes: "fo"},
	{name: "chronic"},
	{name: "unbuffer"},
	{name: "busybox"},
	{name: "nice", takes: "n"},
	{name: "ionice", takes: "cnp"},
	{name: "timeout", takes: "sk", operand: true},
	{name: "stdbuf", takes: "ioe"},
	{name: "flock", takes: "wE", operand: true},
	{name: "sudo", takes: "ugpCDhRrtTU"},
	{name: "doas", takes: "uC"},
	{name: "caffeinate", takes: "tw"},
	{name: "strace", takes: "eopsu"},
	{name: "taskset", operand: true},
	{name: "chrt", operand: true},
	{name: "xargs", takes: "aEIdLnPs"},
	{name: "env", takes: "uCS"},
	{name: "coproc"},
	{name: "noglob"},
	{name: "setarch", operand: true},
	{name: "ltrace", takes: "eopsu"},
	{name: "chroot", operand: true},
	{name: "runuser", takes: "ug"},
	{name: "parallel", takes: "jaNnI"},
}

// integerNames are variables that bash evaluates whatever they are given.
var integerNames = []string{"RANDOM", "SRANDOM", "SECONDS", "LINENO", "OPTIND", "HISTCMD"}

// steering are variables of the environment by which a value becomes code: a shell expands it, or a program runs it.
const steering = `BASH_ENV ENV PS0 PS1 PS2 PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS
	LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES PYTHONSTARTUP PYTHONBREAKPOINT PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS
	GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS GIT_PROXY_COMMAND GIT_CONFIG_PARAMETERS
	GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_EXEC_PATH
	PAGER MANPAGER EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR RSYNC_RSH CVS_RSH TAR_OPTIONS
	EXINIT VIMINIT`

// steeringPrefixes begin more of them: names of functions that bash takes over, and settings of git.
var steeringPrefixes = []string{"BASH_FUNC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"}

// searched are variables that say where programs and libraries are looked for, or with which options a program is started: who writes
// them may choose what is run.
const searched = `PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH PYTHONPATH PYTHONHOME PERL5LIB PERLLIB RUBYLIB NODE_PATH CLASSPATH GCONV_PATH
	FPATH ZDOTDIR GIT_DIR GIT_TEMPLATE_DIR LUA_PATH LUA_CPATH GEM_PATH GEM_HOME SHELL CC CXX RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER
	RUSTFLAGS GOFLAGS MAKEFLAGS GNUMAKEFLAGS MFLAGS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS`

// Steering reports whether data in an environment variable of this name becomes code: surely, or by what is found where it points.
func Steering(name string) (runs, searches bool) {
	runs = slices.Contains(strings.Fields(steering), name) || slices.ContainsFunc(steeringPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	return runs, slices.Contains(strings.Fields(searched), name)
}

// steers reports data that is assigned to a variable by which it becomes code.
func (t *analysis) steers(name string, value texts) {
	if !t.last {
		return
	}
	runs, searches := Steering(name)
	switch {
	case runs:
		t.leak(sink{what: "the variable " + name, remedy: "shells and programs run what they find there, so give it a constant value"}, value...)
	case searches:
		t.leak(sink{code: codeCommandName, says: "reaches the variable " + name + "; whoever writes the value may choose which program runs", least: likely}, value...)
	}
}
