package shell

import (
	"slices"
	"strings"

	"prodigy/internal/check"

	"mvdan.cc/sh/v3/syntax"
)

// Deciders returns the names of the programs whose exit code may be that of the script, in the order in which they
// stand: the last command, both sides of && and of a pipe, every command after set -e, and exit where the script may
// end earlier. It returns nothing for a text that it cannot parse.
func Deciders(script string) []string {
	file, err := Parse(script, []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX})
	if err != nil {
		return nil
	}
	return decidersOf(file.Stmts)
}

// DecidersOf returns the same for the words of a command. timeout decides as well, since it exits with a code of its
// own, 124, when the time is up. The code of sh -c CODE is looked into; of sh FILE only sh is known.
func DecidersOf(args []string) []string {
	for i := range args {
		name := ProgramName(args[i])
		switch {
		case name == "timeout":
			return append([]string{name}, DecidersOf(args[i+1:])...)
		case IsShell(name):
			if code := slices.IndexFunc(args[i:], IsCodeOption); code >= 0 && i+code+1 < len(args) {
				return Deciders(args[i+code+1])
			}
			return []string{name}
		case check.Among(wrapperNames, name), isWrapperArgument(args[i]):
			continue
		case name == "":
			return nil
		}
		return []string{name}
	}
	return nil
}

// isWrapperArgument reports whether a word before the program is an option, a number, a duration or an assignment, as
// all words before CMD are in env A=1 nice -n 5 timeout 30s CMD.
func isWrapperArgument(word string) bool {
	return word != "" && (word[0] == '-' || '0' <= word[0] && word[0] <= '9' || strings.Contains(word, "="))
}

// decidersOf returns the deciders of a list of statements. The last one decides, as does the one before an exit without
// a code. After set -e each of them may. Of the others only an exit in them counts.
func decidersOf(stmts []*syntax.Stmt) (names []string) {
	errexit := false
	for i, s := range stmts {
		if args := wordsOf(s); len(args) > 1 && args[0] == "set" && setsErrexit(args[1:]) {
			errexit = true
			continue
		}
		if errexit || i == len(stmts)-1 || exitsWithLast(stmts[i+1]) {
			names = append(names, statementDeciders(s)...)
		} else if mayExit(s) {
			names = append(names, "exit")
		}
	}
	return names
}

// mayExit reports whether a statement, or a function that it declares, may end the script.
func mayExit(s *syntax.Stmt) bool {
	for node := range syntax.Preorder(s) {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			if name := WordText(call.Args[0]); name == "exit" || name == "return" {
				return true
			}
		}
	}
	return false
}

// wordsOf returns the constant words of a simple command. Others are empty.
func wordsOf(s *syntax.Stmt) []string {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return nil
	}
	return check.Each(call.Args, WordText)
}

// setsErrexit reports whether the arguments of set switch on errexit: -e, -eu or -o errexit.
func setsErrexit(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return a == "errexit" || strings.Contains(letters(a), "e")
	})
}

// exitsWithLast reports whether s is exit or return without a code of its own.
func exitsWithLast(s *syntax.Stmt) bool {
	args := append(wordsOf(s), "", "")
	return (args[0] == "exit" || args[0] == "return") && args[1] == ""
}

func statementDeciders(s *syntax.Stmt) []string {
	names := commandDeciders(s)
	if slices.ContainsFunc(s.Redirs, opensConnection) {
		names = append(names, "bash")
	}
	return names
}

// opensConnection reports whether bash opens a connection for a redirection. Then bash itself prints why that failed,
// and its code is that of the command.
func opensConnection(r *syntax.Redirect) bool {
	if r.Word == nil {
		return false
	}
	first, ok := r.Word.Parts[0].(*syntax.Lit)
	return ok && (strings.HasPrefix(first.Value, "/dev/tcp/") || strings.HasPrefix(first.Value, "/dev/udp/"))
}

// commandDeciders returns the deciders of a statement without its redirections. A command that is not listed here, such
// as the declaration of a function, starts no program.
func commandDeciders(s *syntax.Stmt) []string {
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return DecidersOf(wordsOf(s))
	case *syntax.BinaryCmd:
		right := statementDeciders(c.Y)
		// In a || b, the code of a is gone when b has run. a && b ends with that of a when a fails, and so
		// does a | b with pipefail.
		if c.Op == syntax.OrStmt {
			return right
		}
		return append(statementDeciders(c.X), right...)
	case *syntax.Subshell:
		return decidersOf(c.Stmts)
	case *syntax.Block:
		return decidersOf(c.Stmts)
	case *syntax.WhileClause:
		return decidersOf(c.Do)
	case *syntax.ForClause:
		return decidersOf(c.Do)
	case *syntax.IfClause:
		names := decidersOf(c.Then)
		if c.Else != nil {
			names = append(names, statementDeciders(&syntax.Stmt{Cmd: c.Else})...)
		}
		return names
	case *syntax.CaseClause:
		var names []string
		for _, item := range c.Items {
			names = append(names, decidersOf(item.Stmts)...)
		}
		return names
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return statementDeciders(c.Stmt)
		}
	}
	return nil
}
