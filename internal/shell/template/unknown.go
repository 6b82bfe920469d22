package template

import (
	"strings"

	"prodigy/internal/check"
)

// knownOnly says where a name of prodigy is known that is not known everywhere: a text that has one at a wrong
// place means it all the same. Of any other name it says nothing.
func knownOnly(root string) string {
	switch root {
	case "item":
		return "in agent_template, handlers and foreach only"
	case "items", "items_file":
		return "in agent_template and handlers of a map with batch only"
	case "worker", "item_id", "item_index", "item_total", "attempt":
		return "in agent_template and handlers only"
	case "map":
		return "in reduce and merge only"
	case "error":
		return "in steps that handle a failure only"
	case "validation":
		return "after a step with validate and in its on_incomplete only"
	case "merge", "workspace":
		return "with `workspace: git` at the root of the file"
	}
	return ""
}

// renamed are names of the older tool that stand for other values here.
var renamed = map[string]string{"item_json": "item", "output": "last.output", "step": "last"}

// unknown says what is wrong with an expansion that begins with a name of nobody, and whether that is nearly a name of
// prodigy, or one at the wrong place. Names in capitals are those of the environment.
func (s *scanner) unknown(written, name string) (text string, meant bool) {
	text = "unknown value " + written
	if check.Among(s.names.later, name) {
		return text + ": " + name + " is known only after its step has run, so that step must come first", false
	}
	if where := knownOnly(name); where != "" {
		return text + ": " + name + " is known " + where, true
	}
	capitals := name == strings.ToUpper(name)
	near := renamed[name]
	if root, _, _ := strings.Cut(near, "."); !s.known(root) {
		near = ""
	}
	if near == "" && len(name) > 2 && !capitals {
		near = check.Nearest(name, s.names.all())
	}
	switch {
	case near != "":
		return text + " (did you mean ${" + near + strings.TrimPrefix(written, "${"+name) + "?)", true
	case capitals && s.noShell:
		return text + ": no shell expands this text, so use ${env." + name + "} for the environment variable", false
	}
	return text + " (known: " + strings.Join(s.names.all(), ", ") + ")", false
}

// gitCommands print what the older tool took from git after each step, as in ${step.files_added}.
var gitCommands = map[string]string{
	"files_added":    "git diff --name-only --diff-filter=A $PRODIGY_BASE",
	"files_modified": "git diff --name-only --diff-filter=M $PRODIGY_BASE",
	"files_deleted":  "git diff --name-only --diff-filter=D $PRODIGY_BASE",
	"files_changed":  "git diff --name-only $PRODIGY_BASE",
	"commits":        "git rev-list $PRODIGY_BASE..HEAD",
	"commit_count":   "git rev-list --count $PRODIGY_BASE..HEAD",
	"insertions":     "git diff --shortstat $PRODIGY_BASE",
	"deletions":      "git diff --shortstat $PRODIGY_BASE",
}

// retired says what to write instead of what the older tool took from git, a command, a file or JSON, as in
// ${step.commits} and ${date:%F}. rest is what follows the name, up to the brace. Of anything else it says nothing.
func (s *scanner) retired(name, rest string) string {
	command, more := strings.TrimPrefix(rest, ":"), ""
	switch name {
	case "step", "workflow":
		field, _, _ := strings.Cut(strings.TrimPrefix(rest, "."), ":")
		command, more = gitCommands[field], "; $PRODIGY_BASE is known with `workspace: git` at the root of the file"
	case "cmd":
	case "date":
		command = "date +" + command
	case "file":
		command = "cat " + command
	case "json":
		return "capture the text with capture_format: json, and name the field, as in ${<capture>.field}"
	default:
		return ""
	}
	switch {
	case command == "":
		return ""
	case s.noShell:
		return "no shell expands this text, so run " + command +
			" in an earlier step with `capture: name`, and use ${name} here" + more
	}
	return "use $(" + command + ")" + more
}

// foreignRoots are what names of terraform, of Maven and of JavaScript begin with.
const foreignRoots = "count data document each local module path process project self terraform this var window"

// isForeign reports whether a dotted name of nobody is hardly meant for prodigy: it is one of another language, or
// stands in a template of JavaScript, which has backquotes around it.
func (s *scanner) isForeign(root string) bool {
	return check.Among(foreignRoots, root) || strings.Contains(s.src, "`")
}
