package shell

import (
	"slices"
	"strings"

	"prodigy/internal/check"

	"mvdan.cc/sh/v3/syntax"
)

// Deciders returns the names of the programs whose exit code may be that of the script, in the order in which they
// stand. It returns nothing for a text that it cannot parse.
func Deciders(script string) (names []string) {
	file, err := Parse(script, []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX})
	if err != nil {
		return nil
	}
	for node := range syntax.Preorder(file) {
		if call, ok := node.(*syntax.CallExpr); ok {
			names = append(names, DecidersOf(check.Each(call.Args, WordText))...)
		}
	}
	return names
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
