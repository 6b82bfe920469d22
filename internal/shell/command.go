package shell

import (
	"path"
	"slices"
	"strings"

	"prodigy/internal/check"

	"mvdan.cc/sh/v3/syntax"
)

// Plan is what a simple command does with its arguments, as far as shells are concerned. Arguments are given by their
// index among the words of the command, where 0 is the program.
type Plan struct {
	Codes []Code

	// Stdin is set if the command reads code from its standard input, as sh and ssh HOST do. It has no Args.
	Stdin *Code

	// Numbers are the arguments that the shell evaluates as numbers, as in exit N and test A -eq B.
	Numbers map[int]bool

	// Denied are the arguments that name variables, as in read NAME, or that are expanded again, as in alias.
	Denied map[int]bool

	// Declares are the arguments of the form name=value, as in command export NAME=VALUE.
	Declares map[int]bool
}

// Code is a piece of code among the words of a command.
type Code struct {
	// Args are the words that make up the code. The shell that runs it gets them joined by blanks.
	Args []int

	// Child reports whether another process runs the code, as in sh -c. That process sees exported variables only,
	// while the code of eval and trap sees all variables of the shell.
	Child bool

	// Remote is the program on the way to the code that may not pass on the environment, such as ssh, sudo or env -i.
	// It is empty if the code surely gets the environment.
	Remote string
}

const (
	shellNames = "sh bash dash ash zsh ksh ksh93 mksh rbash yash posh"

	// Programs that run a command on another machine, as another user or in a container.
	remoteNames = `ssh sudo su doas docker docker-compose podman nerdctl kubectl oc chroot nsenter runuser
		pkexec systemd-run lxc machinectl rsh mosh vagrant sshpass run0 crictl ctr firejail bwrap`

	// Programs that run the command in their arguments and exit with its code.
	wrapperNames = `env timeout nice ionice nohup exec command builtin time setsid stdbuf busybox flock chronic
		unbuffer caffeinate doas sudo`

	// Programs whose arguments are never run: nothing is code in echo sh -c x.
	inertNames = "echo printf test [ grep cat cp mv ls rm mkdir touch which type"
)

// ProgramName returns the name of the program in a word of a command, such as bash for /bin/bash.
func ProgramName(word string) string {
	if word == "" {
		return ""
	}
	return path.Base(word)
}

// IsShell reports whether a word of a command names a POSIX-like shell, with or without its directory.
func IsShell(word string) bool { return check.Among(shellNames, ProgramName(word)) }

// PlanCall looks at the words of a simple command; words that are not constant are empty texts.
//
// One program may start another, so each word that may name one which takes code is looked at: in
// env A=1 timeout 5 sh -c CODE that is sh, and so it is in find . -exec sh -c CODE ';'.
func PlanCall(args []string) Plan {
	p := Plan{Numbers: map[int]bool{}, Denied: map[int]bool{}, Declares: map[int]bool{}}
	p.builtin(args)
	// Only wrappers stand before args[i] as long as direct is true. Then the shell at i reads the standard input of the
	// command, and an eval there is the builtin and not an argument of some program.
	remote, direct := "", true
	for i := 0; i >= 0 && i < len(args); {
		name := ProgramName(args[i])
		if check.Among(remoteNames, name) || name == "env" && dropsEnvironment(args[i+1:]) {
			remote = name
		}
		next := i + 1
		if taken := p.runner(args, i, remote, direct); taken > i {
			next, direct = taken, false
		} else {
			if check.Among(inertNames, name) {
				return p
			}
			direct = direct && (check.Among(wrapperNames, name) || check.Among(remoteNames, name))
		}
		i = nextRunner(args, next)
	}
	return p
}

// dropsEnvironment reports whether env starts its program with an empty environment.
func dropsEnvironment(args []string) bool {
	for _, a := range args {
		if a == "-" || a == "--ignore-environment" || strings.Contains(letters(a), "i") {
			return true
		}
		if !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") {
			return false
		}
	}
	return false
}

// nextRunner returns the index of the next word that names a program which takes code or starts one that does, or -1.
func nextRunner(args []string, from int) int {
	for i := from; i < len(args); i++ {
		name := ProgramName(args[i])
		if IsShell(name) || check.Among(remoteNames+" eval watch parallel env xargs find exec", name) {
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
		// What follows the host, which ssh joins by blanks and gives to a shell over there. The letters are the options
		// in ssh(1) that have an argument.
		code, host := Code{Remote: "ssh", Child: true}, skipOptions(args, i+1, "BbcDEeFIiJLlmOopQRSWw")
		if host+1 < len(args) {
			return p.take(args, i, skipWord(args, host+1, "--"), len(args), code)
		}
		p.Stdin = &code
	case name == "su", name == "runuser", name == "vagrant", name == "script", name == "flock":
		// su USER -c CODE, vagrant ssh -c CODE, flock FILE -c CODE.
		if at := slices.IndexFunc(args[i:], IsCodeOption); at > 0 && i+at+1 < len(args) {
			return p.take(args, i, i+at+1, i+at+2, Code{Remote: remote, Child: true})
		}
	case name == "watch":
		return p.take(args, i, skipOptions(args, i+1, "nq"), len(args), Code{Remote: remote, Child: true})
	case name == "parallel":
		// The code ends where the items begin. GNU parallel replaces {} in it, and may send it to other machines.
		end := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, ":::") })
		if end < 0 {
			end = len(args)
		}
		return p.take(args, i, i+1, end, Code{Remote: name, Child: true})
	case name == "source" || name == ".":
		// source /dev/stdin <<EOF runs the heredoc in this shell.
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
	return arg == "--command" || strings.HasSuffix(letters(arg), "c")
}

// letters returns the options in a word such as -eu, and nothing for any other word.
func letters(word string) string {
	if !strings.HasPrefix(word, "-") || strings.HasPrefix(word, "--") {
		return ""
	}
	return word[1:]
}

// take notes that the words from start up to end are the code of the program at i. Like runner, it returns end, or i
// when there are no such words.
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
		// A word that is not constant is taken for an option until -c has come: after that, the word is the code.
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
			j++ // the name of an option, as in -eo pipefail
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

// skipOptions returns the index of the first operand from i on. The options whose letters are in withValue take the
// next word, unless their value is in the same word, as in -p22.
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

// skipWord returns the index after i if that word stands at i, else i.
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
		// Both sides of a comparison of numbers. bash evaluates them only in [[ ]], but others, such as ksh, do so here
		// too. The operand of -v and -R names a variable.
		for i, a := range args {
			if check.Among(numberTests, a) {
				p.Numbers[i-1], p.Numbers[i+1] = true, true
			}
			if a == "-v" || a == "-R" {
				p.Denied[i+1] = true
			}
		}
	case "exit", "return", "shift", "break", "continue", "let":
		for i := first + 1; i < len(args); i++ {
			p.Numbers[i] = true
		}
	case "getopts":
		// getopts OPTIONS NAME ARG...: the arguments are parsed and never evaluated.
		p.denyFrom(first+1, min(first+3, len(args)))
	case "read", "unset", "mapfile", "readarray", "alias", "compgen", "complete":
		p.denyFrom(first+1, len(args))
	case "declare", "typeset", "local", "export", "readonly":
		// A declaration that the parser took for a common command, such as builtin export NAME=VALUE. With -i the
		// values are evaluated, and with -n they name other variables.
		for i, a := range args[first+1:] {
			if strings.HasPrefix(a, "-") && strings.ContainsAny(a, "in") {
				p.denyFrom(first+1, len(args))
			}
			p.Declares[first+1+i] = true
		}
	case "printf", "wait":
		// printf -v NAME FORMAT, wait -p NAME.
		if at := slices.IndexFunc(args, func(a string) bool { return a == "-v" || a == "-p" }); at == first+1 {
			p.denyFrom(at+1, min(at+2, len(args)))
		}
	}
}

func (p *Plan) denyFrom(start, end int) {
	for i := start; i < end; i++ {
		p.Denied[i] = true
	}
}

const numberTests = "-eq -ne -gt -ge -lt -le"

// WordText returns the constant text of a word without its quotes, or nothing when the shell has to expand it.
func WordText(word *syntax.Word) string {
	var b strings.Builder
	for _, part := range word.Parts {
		parts, special := []syntax.WordPart{part}, Outside
		if q, ok := part.(*syntax.DblQuoted); ok {
			parts, special = q.Parts, InDouble
		}
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(Unescape(p.Value, special))
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			default:
				return shellVariable(part)
			}
		}
	}
	return b.String()
}

// Constants returns the variables that a script assigns, with the text of those that it gives no other value. The text
// of the others is empty.
func Constants(file *syntax.File) map[string]string {
	texts := map[string]string{}
	for node := range syntax.Preorder(file) {
		a, ok := node.(*syntax.Assign)
		if !ok || a.Name == nil || a.Naked {
			continue
		}
		text := ""
		if a.Value != nil && !a.Append && a.Index == nil {
			text = WordText(a.Value)
		}
		if before, known := texts[a.Name.Value]; known && before != text {
			text = ""
		}
		texts[a.Name.Value] = text
	}
	return texts
}

// Texts returns the constant texts of words, where the word of an assignment or an option is name= or --name=, and $S is
// that of S in constants if it may run code, as sh, -c and ${S:-sh} do. Others are empty: the script may give S something
// else after all, which must not be taken for harmless.
func Texts(words []*syntax.Word, constants map[string]string) []string {
	return check.Each(words, func(word *syntax.Word) string {
		if text := WordText(word); text != "" {
			return text
		}
		if lit, ok := Leading(word).(*syntax.Lit); ok {
			name, _, assigns := strings.Cut(lit.Value, "=")
			if assigns && (syntax.ValidName(name) || strings.HasPrefix(name, "--")) {
				return name + "="
			}
			return ""
		}
		p := Alone(word)
		switch {
		case p == nil || p.Param == nil:
		case HasDefault(p) && p.Exp.Word != nil && IsShell(WordText(p.Exp.Word)):
			return WordText(p.Exp.Word)
		case p.Short || IsPlainExpansion(p):
			if text := constants[p.Param.Value]; IsCodeOption(text) || nextRunner(strings.Fields(text), 0) >= 0 {
				return text
			}
		}
		return ""
	})
}

// Leading returns the first part of a word, or of the double quotes that it begins with.
func Leading(word *syntax.Word) syntax.WordPart {
	if q, ok := word.Parts[0].(*syntax.DblQuoted); ok && len(q.Parts) > 0 {
		return q.Parts[0]
	}
	return word.Parts[0]
}

// Unquoted returns the parts of a word, or of the double quotes that are all of it.
func Unquoted(word *syntax.Word) []syntax.WordPart {
	if q, ok := word.Parts[0].(*syntax.DblQuoted); ok && len(word.Parts) == 1 {
		return q.Parts
	}
	return word.Parts
}

// Alone returns the expansion that is all of a word, in double quotes or not, or nil.
func Alone(word *syntax.Word) *syntax.ParamExp {
	parts := Unquoted(word)
	if len(parts) != 1 {
		return nil
	}
	p, _ := parts[0].(*syntax.ParamExp)
	return p
}

// shellVariable takes $SHELL and $BASH for a shell, whichever it is. Of other expansions nothing is known.
func shellVariable(part syntax.WordPart) string {
	if p, ok := part.(*syntax.ParamExp); ok && p.Param != nil && (p.Param.Value == "SHELL" || p.Param.Value == "BASH") {
		return "sh"
	}
	return ""
}
