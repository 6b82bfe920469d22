package template

import (
	"slices"
	"strings"
)

var reservedNames = []string{
	"PATH", "IFS", "ENV", "BASH_ENV", "PS4", "SHELLOPTS", "BASHOPTS", "CDPATH", "HOME", "SHELL", "PROMPT_COMMAND", "FPATH", "ZDOTDIR",
	"GLOBIGNORE", "POSIXLY_CORRECT", "NODE_OPTIONS", "NODE_PATH", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
	"CLASSPATH", "MAKEFLAGS", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "TMPDIR", "TERMINFO", "LOCPATH", "GCONV_PATH",
	"HOSTALIASES", "MALLOC_CHECK_", "RUSTC_WRAPPER", "GOFLAGS",
}

var reservedPrefixes = []string{"PRODIGY_", "LD_", "DYLD_", "BASH_FUNC_", "GIT_", "PYTHON", "PERL5"}

// ReservedName tells whether a captured name or parameter must not be called this: an environment variable of the name would
// steer the shell or the programs it starts, or it is prodigy's own.
func ReservedName(name string) bool {
	if slices.Contains(reservedNames, name) {
		return true
	}
	return slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
