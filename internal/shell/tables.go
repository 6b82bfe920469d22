package shell

import (
	"slices"
	"strings"
	"sync"

	"prodigy/internal/check"
)

// What a program prints, and so which values its output may hold. Without one of these that is anything: perhaps the
// arguments, the input or the content of files.
const (
	nothing  = "nothing" // no output, or a number, a date or a name that no value can change
	itsWords = "words"   // the arguments
	itsInput = "input"   // the input, or the content of the files that are arguments
	partsOf  = "parts"   // perhaps parts of the same: the value may not be among them
)

// program is what a program does with data.
type program struct {
	names  string // separated by blanks
	prints string

	// runs says what the program runs: starts, the program behind its options and behind-operand, the one behind an
	// operand as well, as timeout 30 CMD does. Or it runs code of its language: operand, the first operand, unless an
	// option brought the code, and reads, the input if there is no operand.
	runs string

	// options are those whose value is code of the program's language, such as -e of perl.
	options []string

	// takes are the letters of the options that take the next word, so that it is not counted as an operand.
	takes string
}

// programTable says what programs do with data: the fields of a program, a line for each. The first line with a name
// holds.
const programTable = `
awk gawk mawk nawk                      | parts   | operand        | -e --source                 | vFfe
jq                                      | parts   | operand        |                             | fL
sed                                     | parts   | operand        | -e --expression             | fl
echo printf yes basename dirname        | words   |                |                             |
cat tee head tail sort uniq tac         | input   |                |                             |
tr cut grep egrep fgrep rev fold fmt nl | parts   |                |                             |
paste column xmllint base64 xxd od yq   | parts   |                |                             |
strings iconv join comm shuf            | parts   |                |                             |
wc date mktemp id uname nproc hostname  | nothing |                |                             |
stat du df sha1sum sha256sum md5sum     | nothing |                |                             |
cksum seq sleep true false : test [     | nothing |                |                             |
kill wait mkdir rmdir rm cp mv ln touch | nothing |                |                             |
chmod chown cd export unset shift set   | nothing |                |                             |
exit return read local declare          | nothing |                |                             |
python python2 python3 pypy pypy3       |         | reads          | -c                          | cmWX
perl                                    |         | reads          | -e -E                       | eEIMm
ruby                                    |         | reads          | -e                          | eIrC
node nodejs bun deno                    |         | reads          | -e --eval -p --print eval   | epr
php                                     |         | reads          | -r -B -E -R                 | rBERdfc
lua luajit                              |         | reads          | -e                          | el
Rscript R groovy scala swift            |         |                | -e                          | e
osascript                               |         | reads          | -e                          | e
tclsh expect m4 ed ex gnuplot           |         | reads          | -c                          | c
gdb                                     |         |                | -ex -iex                    | x
vim vi nvim                             |         |                | -c --cmd                    | cSsu
make gmake                              |         |                | --eval                      | Cfj
tar                                     |         |                | --checkpoint-action         | fCb
emacs                                   |         |                | --eval -eval                |
fish pwsh powershell                    |         | reads          | -c -Command --command       | c
psql                                    |         | reads          | -c --command                | cfdhpUv
mysql                                   |         | reads          | -e --execute                | ehuPD
sqlite3 at batch crontab                |         | reads          |                             |
command builtin nohup setsid chronic    |         | starts         |                             |
unbuffer busybox coproc noglob          |         | starts         |                             |
exec                                    |         | starts         |                             | a
time                                    |         | starts         |                             | fo
nice                                    |         | starts         |                             | n
ionice                                  |         | starts         |                             | cnp
timeout                                 |         | behind-operand |                             | sk
stdbuf                                  |         | starts         |                             | ioe
flock                                   |         | behind-operand |                             | wE
sudo                                    |         | starts         |                             | ugpCDhRrtTU
doas                                    |         | starts         |                             | uC
caffeinate                              |         | starts         |                             | tw
strace ltrace                           |         | starts         |                             | eopsu
taskset chrt setarch chroot             |         | behind-operand |                             |
xargs                                   |         | starts         |                             | aEIdLnPs
env                                     |         | starts         |                             | uCS`

// programs are those of programTable.
var programs = sync.OnceValue(func() (all []program) {
	for line := range strings.Lines(strings.TrimSpace(programTable)) {
		field := check.Each(strings.Split(line, "|"), strings.TrimSpace)
		all = append(all, program{field[0], field[1], field[2], strings.Fields(field[3]), field[4]})
	}
	return all
})

// programOf returns the row of the program that a word names. One that has none may print what it was given.
func programOf(word string) program {
	for _, p := range programs() {
		if check.Among(p.names, ProgramName(word)) {
			return p
		}
	}
	return program{}
}

// wrappedBy returns the index of the program that the words of a command start in the end, behind programs such
// as env and timeout, or len(args) if there is none. Words that are not constant are empty texts.
func wrappedBy(args []string) int {
	i := 0
	for i < len(args) {
		w := programOf(args[i])
		if w.runs != "starts" && w.runs != "behind-operand" {
			return i
		}
		// Skip its options with their values, and for env the assignments.
		for i++; i < len(args) && (strings.HasPrefix(args[i], "-") || w.names == "env" &&
			strings.Contains(args[i], "=")); i++ {
			if len(args[i]) == 2 && strings.Contains(w.takes, args[i][1:]) {
				i++
			}
		}
		if w.runs == "behind-operand" {
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
