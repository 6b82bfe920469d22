package workflow

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// hint returns the end of a message about an unknown word: the nearest known word, or else all of them.
func hint(wrong string, words []string) string {
	return check.Hint(wrong, words, check.OneOf(words))
}

// quoted returns the words in double quotes.
func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = strconv.Quote(w)
	}
	return all
}

// misplacedKey returns the end of a message about a key that is unknown in block where: the names of the
// blocks that have such a key. It is empty if no block has.
func misplacedKey(name, where string) string {
	var blocks []string
	for _, block := range []struct {
		name string
		zero any
	}{
		{"workflow", Workflow{}},
		{"map", Map{}},
		{"step", Step{}},
		{"retry_config", retry.Policy{}},
		{"error_policy", errorpolicy.Policy{}},
		{"circuit_breaker", limit.BreakerConfig{}},
		{"timeout_config", Timeouts{}},
		{"input", Input{}},
		{"on_failure", OnFailure{}},
		{"workspace", Workspace{}},
	} {
		if block.name != where && hasKey(reflect.TypeOf(block.zero), name) {
			blocks = append(blocks, block.name)
		}
	}
	if len(blocks) == 0 {
		return ""
	}
	return ": it is a key of " + check.OneOf(blocks) + "; is it indented wrongly?"
}

// slashCommand returns the command of Claude that a step of the older tool named as a text, as
// "/prodigy-lint" or "prodigy-lint fast".
func slashCommand(text string) (command string, ok bool) {
	if strings.HasPrefix(text, "prodigy-") {
		return "/" + text, true
	}
	name, _, _ := strings.Cut(text, " ")
	return text, strings.HasPrefix(text, "/") && !strings.Contains(name[1:], "/")
}

// hasKey reports whether a struct has a field with that key or alias.
func hasKey(t reflect.Type, name string) bool {
	fields := slices.Collect(t.Fields())
	return slices.ContainsFunc(fields, func(f reflect.StructField) bool {
		return f.Tag.Get("yaml") == name || f.Tag.Get("alias") == name
	})
}

// aliasesOfOtherTools returns keys that other tools have, by block, and the key that means the same here. It
// is a function, as those below and like it, so that only a mistake pays for the map.
func aliasesOfOtherTools() map[string]map[string]string {
	return map[string]map[string]string{
		"workflow":     {"jobs": "commands", "tasks": "commands", "vars": "env", "variables": "env", "inputs": "parameters"},
		"map":          {"items": "input", "parallel": "max_parallel", "concurrency": "max_parallel", "workers": "max_parallel", "jobs": "max_parallel", "do": "agent_template", "steps": "agent_template"},
		"step":         {"run": "shell", "cmd": "shell", "script": "shell", "bash": "shell", "sh": "shell", "prompt": "claude", "if": "when", "cwd": "working_dir", "dir": "working_dir", "register": "capture"},
		"foreach":      {"items": "input", "list": "input", "steps": "do", "commands": "do"},
		"straggler":    {"duplicate": "stop: true"},
		"retry_config": {"delay": "initial_delay", "wait": "initial_delay", "tries": "attempts", "times": "attempts"},
	}
}

// removedKeys returns keys of the older tool that this language does not have, by block, and what to do
// instead. docs/migrating.md lists them too.
func removedKeys() map[string]map[string]string {
	const resumable = "every job can be resumed, so leave it out"
	phase := map[string]string{
		"capture_outputs": `write "capture" in the step whose output it is`,
		"checkpoint":      resumable,
		"timeout_secs":    `write "timeout"`,
	}
	return map[string]map[string]string{
		"workflow": {
			"agent_timeout_secs": `write it in "map"`,
			"timeout_config":     `write it in "map"`,
			"imports":            "put the steps into one file; anchors and aliases repeat parts of it",
			"extends":            "put the steps into one file; anchors and merge keys (<<) vary parts of it",
			"template":           "put the steps into one file; parameters vary them",
			"workflows":          `run the other workflow in a shell step: "prodigy run other.yml"`,
			"storage":            "jobs are kept below PRODIGY_HOME",
			"defaults":           `write the values in "env" or as defaults of "parameters"`,
			"sub_workflows":      `run the other workflow in a shell step: "prodigy run other.yml"`,
			"agent_merge":        `write "verify" in "workspace"`,
			"checkpoint":         resumable,
			"max_retries":        `write "retry_defaults: {attempts: n}", which counts the first try too`,
			"timeout_secs":       `write "timeout" in a step, or "agent_timeout_secs" in "map"`,
		},
		"secret": {
			"provider": `write NAME: VARIABLE for a variable of the environment, or {file: …} or {command: …}`,
			"key":      `write NAME: VARIABLE for a variable of the environment, or {file: …} or {command: …}`,
		},
		"env value": {"default": `write "value", and the values of other profiles in "profiles"`},
		"setup":     phase,
		"reduce":    phase,
		"merge":     phase,
		"map": {
			"agent_merge":       `write "verify" in "workspace"`,
			"checkpoint":        resumable,
			"max_retries":       `write "retry_config: {attempts: n}", which counts the first try too`,
			"timeout":           `write "agent_timeout_secs"`,
			"timeout_secs":      `write "agent_timeout_secs"`,
			"timeout_per_agent": `write "agent_timeout_secs"`,
			"retry_on_failure":  `write "error_policy: {retry_config: {attempts: n}}", which counts the first try too`,
		},
		"timeout_config": {
			"enable_monitoring": "timeouts are always counted: see prodigy status",
			"timeout_secs":      `write "agent_timeout_secs"`,
		},
		"error_policy": {"max_retries": `write "retry_config: {attempts: n}", which counts the first try too`},
		"retry_config": {"max_retries": `write "attempts", which counts the first try too`},
		"step": {
			"analysis":          `write "shell" with the command that does it`,
			"analyze":           `write "shell" with the command that does it`,
			"args":              `write the arguments in the command`,
			"auto_commit":       `make the commit in a shell step`,
			"agent_merge":       `write "verify" in "workspace"`,
			"checkpoint":        resumable,
			"context":           `write it in the prompt, or in "env"`,
			"capture_streams":   "stdout, stderr and exit code are always there, as in ${id.stderr}",
			"command":           `write "shell"`,
			"clear_env":         `start the command with "env -i"`,
			"commit_config":     `make the commit in a shell step`,
			"continue_on_error": `write "allow_failure"`,
			"do":                `write it in "foreach", beside "input"`,
			"goal_seek":         `write "validate" with "on_incomplete"`,
			"handler":           `write "shell" with the command that does it`,
			"max_items":         `write it in "foreach", beside "input"`,
			"max_retries":       `write "retry_config: {attempts: n}", which counts the first try too`,
			"metadata":          `write it in a comment`,
			"options":           `write the options in the command`,
			"outputs":           `write "capture" in a step that prints the names of the files, and ${name} in later ones`,
			"parallel":          `write it in "foreach", beside "input"`,
			"retries":           `write "retry_config: {attempts: n}", which counts the first try too`,
			"temporary":         `the variables of a step are only set for that step`,
			"timeout_secs":      `write "timeout"`,
		},
		"on_failure": {
			"max_retries":           `write "max_attempts"`,
			"retry_original":        `write "max_attempts"`,
			"strategy":              "the steps say what is done",
			"handler_failure_fatal": `write "fail_workflow"`,
		},
		`on_failure with "commands"`: {
			"max_retries": `write "max_attempts"`, "retry_original": `write "max_attempts"`,
			"strategy": "the steps say what is done", "handler_failure_fatal": `write "fail_workflow"`,
			"timeout": `write "timeout" in the steps`,
		},
		"validate": {
			"command":         `write "shell"`,
			"expected_schema": "check the result in the command that makes it",
		},
		"on_incomplete": {"prompt": "nobody is asked while a job runs"},
		`on_incomplete with "commands"`: {
			"prompt": "nobody is asked while a job runs", "commit_required": `write "commit_required" in the steps`,
		},
	}
}
