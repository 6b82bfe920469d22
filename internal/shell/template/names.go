package template

import (
	"maps"
	"slices"
	"strings"

	"prodigy/internal/check"
)

// Names are the names that are prodigy's at some place of a workflow. The zero Names has none. They do not
// change: With returns others, and shares with them what they have in common, so that a name more costs little
// however many there are.
type Names struct {
	top  *frame
	open bool // see Open

	// later are names that are not known yet, separated by blanks: see Before.
	later string
}

// Name says what a name is. It may be a root and declared at once, as a captured name is.
type Name struct {
	// Root reports whether ${name.x} and ${name} are prodigy's: item, map, shell, env, ids of steps and others.
	Root bool

	// Declared reports whether ${name} and $name are prodigy's: captured names, names of env, item_id, attempt and
	// others.
	Declared bool

	// Constant reports whether the workflow file itself gives the name its value, so that no one else wrote it.
	Constant bool

	// Data reports whether the values come from items or from what commands have printed.
	Data bool

	// Fields are all the fields of a root. Nil means that it may have any.
	Fields []string

	// List reports whether a root is a list. ${name} stands for its elements then, as ${name[*]} does.
	List bool

	// Text reports whether a root is a text. Fields are then only what the run adds to it, such as output.
	Text bool

	// Seen reports whether Fields are those that were found in the data. Others may have more, so a placeholder with a
	// default may name a field that is not among them.
	Seen bool
}

// frame holds some of the names, with a pointer to the others. Each frame holds more names than all those above it
// together, so a look-up visits few of them.
type frame struct {
	names map[string]Name
	below *frame
}

// With returns n and one name more. A name that n has already is both. It merges the frames on top as long as the next
// one holds no more names than those above it: a name is copied only a logarithmic number of times.
func (n Names) With(name string, is Name) Names {
	if had, ok := n.Lookup(name); ok {
		is = had.and(is)
	}
	names, below := map[string]Name{name: is}, n.top
	for ; below != nil && len(below.names) <= len(names); below = below.below {
		for name, is := range below.names {
			if _, nearer := names[name]; !nearer {
				names[name] = is
			}
		}
	}
	n.top = &frame{names, below}
	return n
}

// Open returns n for texts that are only checked, before all variables are known: a ${name} of nobody is then
// no error in a Plain either.
func (n Names) Open() Names {
	n.open = true
	return n
}

// Before returns n for texts whose author may name what steps leave that have not run yet. Messages say so of these
// names.
func (n Names) Before(names []string) Names {
	n.later += " " + strings.Join(names, " ")
	return n
}

// and returns what a name is that is both n and m. It is only as constant, as much a text and as limited in its fields
// as both are.
func (n Name) and(m Name) Name {
	both := Name{
		Root: n.Root || m.Root, Declared: n.Declared || m.Declared, Data: n.Data || m.Data,
		Constant: n.Constant && m.Constant, Text: n.Text && m.Text, Seen: n.Seen || m.Seen,
	}
	if n.Fields != nil && m.Fields != nil && slices.Equal(n.Fields, m.Fields) {
		both.Fields = n.Fields
	}
	return both
}

// Lookup returns what a name is, if it is known.
func (n Names) Lookup(name string) (Name, bool) {
	for f := n.top; f != nil; f = f.below {
		if is, ok := f.names[name]; ok {
			return is, true
		}
	}
	return Name{}, false
}

func (n Names) root(name string) bool {
	is, _ := n.Lookup(name)
	return is.Root
}

func (n Names) declared(name string) bool {
	is, _ := n.Lookup(name)
	return is.Declared
}

// all returns the names in their order.
func (n Names) all() []string {
	all := map[string]bool{}
	for f := n.top; f != nil; f = f.below {
		for name := range f.names {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// reservedNames are variables that shells, the dynamic linker and common programs obey. A captured output of that name
// would change how every later command of the agent runs.
const reservedNames = `PATH IFS ENV BASH_ENV PS4 SHELLOPTS BASHOPTS CDPATH HOME SHELL PROMPT_COMMAND FPATH ZDOTDIR
	GLOBIGNORE POSIXLY_CORRECT NODE_OPTIONS NODE_PATH RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH
	MAKEFLAGS EDITOR VISUAL PAGER LESSOPEN LESSCLOSE TMPDIR TERMINFO LOCPATH GCONV_PATH HOSTALIASES MALLOC_CHECK_
	RUSTC_WRAPPER GOFLAGS`

var reservedPrefixes = strings.Fields("PRODIGY_ LD_ DYLD_ BASH_FUNC_ GIT_ PYTHON PERL5")

// ReservedName reports whether a captured name or parameter must not be called this: an environment variable of
// the name would steer the shell or the programs it starts, or it is prodigy's own.
func ReservedName(name string) bool {
	if check.Among(reservedNames, name) {
		return true
	}
	return slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
