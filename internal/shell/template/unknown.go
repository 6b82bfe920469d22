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

// gitValues are what the older tool took from git after each step, as in ${step.files_added}.
const gitValues = "files_added files_modified files_deleted files_changed commits commit_count insertions deletions"

// retired says what to write instead of what the older tool took from git, a command, a file or JSON, as in
// ${step.commits} and ${date:%F}. rest is what follows the name. Of anything else it says nothing.
func retired(name, rest string) string {
	switch name {
	case "step", "workflow":
		field, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(rest, "."), "}"), ":")
		if check.Among(gitValues, field) {
			return "ask git in a step, as in git diff --name-only $PRODIGY_BASE, " +
				"which is known with `workspace: git` at the root of the file"
		}
	case "cmd", "date", "file", "json":
		if strings.HasPrefix(rest, ":") {
			return "take it from the output of an earlier step, with `capture: name` and ${name}"
		}
	}
	return ""
}
