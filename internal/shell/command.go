package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Plan is what a simple command does with its arguments, as far as shells are concerned.
type Plan struct {
	Codes    []Code
	Stdin    *Code // standard input is code
	Numbers  map[int]bool
	Denied   map[int]bool // arguments that name variables, or are expanded again
	Declares map[int]bool // arguments of the form name=value
}

// Code are arguments that a shell takes as code, joined by blanks.
type Code struct {
	Args   []int
	Child  bool
	Remote string // the program behind which the environment may not arrive
}

const (
	shellNames  = "sh bash dash ash zsh ksh ksh93 mksh rbash yash posh"
	remoteNames = `ssh sudo su doas docker docker-compose podman nerdctl kubectl oc chroot nsenter runuser
		pkexec systemd-run lxc machinectl rsh mosh vagrant sshpass run0 crictl ctr firejail bwrap`
	wrapperNames = `env timeout nice ionice nohup exec command builtin time setsid stdbuf busybox flock chronic
		unbuffer caffeinate doas sudo`
	inertNames = "echo printf test [ grep cat cp mv ls rm mkdir touch which type"
)

// ProgramName returns the name of the program in a word of a command.
func ProgramName(word string) string {
	if word == "" {
		return ""
	}
	return path.Base(word)
}

func IsShell(word string) bool { return among(shellNames, ProgramName(word)) }

// PlanCall looks at the words of a simple command; words that are not constant are empty texts.
func PlanCall(args []string) Plan {
	p := Plan{Numbers: map[int]bool{}, Denied: map[int]bool{}, Declares: map[int]bool{}}
	p.builtin(args)
	remote, direct := "", true
	for i := 0; i >= 0 && i < len(args); {
		name := ProgramName(args[i])
		if among(remoteNames, name) || name == "env" && dropsEnvironment(args[i+1:]) {
			remote = name
		}
		next := i + 1
		if taken := p.runner(args, i, remote, direct); taken > i {
			next, direct = taken, false
		} else {
			if among(inertNames, name) {
				return p
			}
			direct = direct && (among(wrapperNames, name) || among(remoteNames, name))
		}
		i = nextRunner(args, next)
	}
	return p
}

// dropsEnvironment reports whether env starts its program with an empty environment.
func dropsEnvironment(args []string) bool {
	for _, a := range args {
		if a == "-i" || a == "-" || a == "--ignore-environment" || strings.HasPrefix(a, "-") &&
			!strings.HasPrefix(a, "--") && strings.Contains(a, "i") {
			return true
		}
		if !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") {
			return false
		}
	}
	return false
}

// nextRunner finds the next word that names a program which takes code.
func nextRunner(args []string, from int) int {
	for i := from; i < len(args); i++ {
		name := ProgramName(args[i])
		if IsShell(name) || among(remoteNames+" eval watch parallel env xargs find exec", name) {
			return i
		}
	}
	return -1
}

// runner takes the code of the program at i, and returns the index after what it took, or i when it takes none.
func (p *Plan) runner(args []string, i int, remote string, direct bool) int {
	switch name := ProgramName(args[i]); {
	case IsShell(name):
		return p.shell(args, i, remote, direct)
	case name == "eval" && direct:
		return p.take(args, i, skipWord(args, i+1, "--"), len(args), Code{Remote: remote})
	case name == "trap" && i == 0:
		code := skipWord(args, i+1, "--")
		return p.take(args, i, code, min(code+1, len(args)), Code{})
	case name == "ssh":
		return p.ssh(args, i)
	case name == "su", name == "runuser", name == "vagrant", name == "script", name == "flock":
		if at := slices.IndexFunc(args[i:], IsCodeOption); at > 0 && i+at+1 < len(args) {
			return p.take(args, i, i+at+1, i+at+2, Code{Remote: remote, Child: true})
		}
	case name == "watch":
		return p.take(args, i, skipOptions(args, i+1, "nq"), len(args), Code{Remote: remote, Child: true})
	case name == "parallel":
		end := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, ":::") })
		if end < 0 {
			end = len(args)
		}
		return p.take(args, i, i+1, end, Code{Remote: name, Child: true})
	case name == "source" || name == ".":
		if i+1 < len(args) && IsDescriptor(args[i+1]) {
			p.Stdin = &Code{}
		}
	}
	return i
}

// IsDescriptor reports whether a file is what a redirection of the command brings.
func IsDescriptor(file string) bool {
	return file == "/dev/stdin" || strings.HasPrefix(file, "/dev/fd/") || strings.HasPrefix(file, "/proc/self/fd/")
}

// IsCodeOption reports whether the next word is code: -c, -qc or --command.
func IsCodeOption(arg string) bool {
	return arg == "--command" || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") &&
		strings.HasSuffix(arg, "c")
}

// take notes that the words from start to end are the code of the program at i.
func (p *Plan) take(args []string, i, start, end int, code Code) int {
	if start >= end || start >= len(args) {
		return i
	}
	for at := start; at < end; at++ {
		code.Args = append(code.Args, at)
	}
	p.Codes = append(p.Codes, code)
	return end
}

// shell takes CODE of sh -c CODE, or else the standard input of a shell that has no script.
func (p *Plan) shell(args []string, i int, remote string, direct bool) int {
	code := Code{Remote: remote, Child: true}
	hasCode, fromStdin := false, false
	j := i + 1
	for ; j < len(args) && (args[j] == "" || args[j][0] == '-' || args[j][0] == '+'); j++ {
		if args[j] == "" && hasCode {
			break
		}
		if args[j] == "--" || args[j] == "-" {
			j++
			break
		}
		if args[j] == "--rcfile" || args[j] == "--init-file" {
			j++
			continue
		}
		if strings.HasPrefix(args[j], "--") || args[j] == "" {
			continue
		}
		hasCode = hasCode || strings.Contains(args[j], "c")
		fromStdin = fromStdin || strings.Contains(args[j], "s")
		if strings.HasSuffix(args[j], "o") || strings.HasSuffix(args[j], "O") {
			j++
		}
	}
	if hasCode {
		return p.take(args, i, j, min(j+1, len(args)), code)
	}
	if direct && (fromStdin || j >= len(args) || IsDescriptor(args[j])) {
		p.Stdin = &code
	}
	return i
}

// ssh takes what follows the host: ssh joins it by blanks and gives it to a shell over there.
func (p *Plan) ssh(args []string, i int) int {
	code := Code{Remote: "ssh", Child: true}
	host := skipOptions(args, i+1, "BbcDEeFIiJLlmOopQRSWw")
	if host+1 >= len(args) {
		p.Stdin = &code
		return i
	}
	return p.take(args, i, skipWord(args, host+1, "--"), len(args), code)
}

// skipOptions returns the index of the first operand; the options with these letters take the next word.
func skipOptions(args []string, i int, withValue string) int {
	for ; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		if args[i] == "--" {
			return i + 1
		}
		if len(args[i]) == 2 && strings.Contains(withValue, args[i][1:]) {
			i++
		}
	}
	return i
}

func skipWord(args []string, i int, word string) int {
	if i < len(args) && args[i] == word {
		return i + 1
	}
	return i
}

// builtin takes the arguments of builtins that evaluate numbers or names.
func (p *Plan) builtin(args []string) {
	first := 0
	for first < len(args)-1 && (args[first] == "command" || args[first] == "builtin") {
		first++
	}
	switch args[first] {
	case "test", "[":
		p.testNumbers(args)
	case "exit", "return", "shift", "break", "continue", "let":
		for i := first + 1; i < len(args); i++ {
			p.Numbers[i] = true
		}
	case "getopts": // what follows the name is only looked through
		p.denyFrom(first+1, min(first+3, len(args)))
	case "read", "unset", "mapfile", "readarray", "alias", "compgen", "complete":
		p.denyFrom(first+1, len(args))
	case "declare", "typeset", "local", "export", "readonly":
		p.declaration(args, first+1)
	case "printf", "wait":
		if at := slices.IndexFunc(args, func(a string) bool { return a == "-v" || a == "-p" }); at == first+1 {
			p.denyFrom(at+1, min(at+2, len(args)))
		}
	}
}

// declaration takes the arguments of a declaration that the parser took for a common command.
func (p *Plan) declaration(args []string, from int) {
	for i := from; i < len(args); i++ {
		if strings.HasPrefix(args[i], "-") && strings.ContainsAny(args[i], "in") {
			p.denyFrom(from, len(args))
		}
		p.Declares[i] = true
	}
}

func (p *Plan) denyFrom(start, end int) {
	for i := start; i < end; i++ {
		p.Denied[i] = true
	}
}

const numberTests = "-eq -ne -gt -ge -lt -le"

func (p *Plan) testNumbers(args []string) {
	for i, a := range args {
		if among(numberTests, a) {
			p.Numbers[i-1], p.Numbers[i+1] = true, true
		}
		if a == "-v" || a == "-R" {
			p.Denied[i+1] = true
		}
	}
}

// WordText returns the constant text of a word without its quotes, or nothing when the shell has to expand it.
func WordText(word *syntax.Word) string {
	var b strings.Builder
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(Unescape(p.Value, Outside))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return shellVariable(inner)
				}
				b.WriteString(Unescape(lit.Value, InDouble))
			}
		default:
			return shellVariable(part)
		}
	}
	return b.String()
}

// Leading returns the first part of a word, or of the double quotes that it begins with.
func Leading(word *syntax.Word) syntax.WordPart {
	if q, ok := word.Parts[0].(*syntax.DblQuoted); ok && len(q.Parts) > 0 {
		return q.Parts[0]
	}
	return word.Parts[0]
}

// Alone returns the expansion that is all of a word, in double quotes or not, or nil.
func Alone(word *syntax.Word) *syntax.ParamExp {
	parts := word.Parts
	if q, ok := parts[0].(*syntax.DblQuoted); ok && len(parts) == 1 {
		parts = q.Parts
	}
	if len(parts) != 1 {
		return nil
	}
	p, _ := parts[0].(*syntax.ParamExp)
	return p
}

// shellVariable takes $SHELL for a shell.
func shellVariable(part syntax.WordPart) string {
	if p, ok := part.(*syntax.ParamExp); ok && p.Param != nil && (p.Param.Value == "SHELL" || p.Param.Value == "BASH") {
		return "sh"
	}
	return ""
}
