package workflow

import (
	"reflect"
	"slices"
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
		fields := slices.Collect(reflect.TypeOf(block.zero).Fields())
		if block.name != where && slices.ContainsFunc(fields, func(f reflect.StructField) bool {
			return f.Tag.Get("yaml") == name || f.Tag.Get("alias") == name
		}) {
			blocks = append(blocks, block.name)
		}
	}
	if len(blocks) == 0 {
		return ""
	}
	return ": it is a key of " + check.OneOf(blocks) + "; check the indentation"
}

// otherKeys are keys that other tools have, by block, and the key that means the same here.
const otherKeys = `
workflow | jobs | commands
workflow | tasks | commands
workflow | vars | env
workflow | variables | env
workflow | inputs | parameters
map | items | input
map | parallel | max_parallel
map | concurrency | max_parallel
map | workers | max_parallel
map | jobs | max_parallel
map | do | agent_template
map | steps | agent_template
step | run | shell
step | cmd | shell
step | script | shell
step | bash | shell
step | sh | shell
step | prompt | claude
step | if | when
step | cwd | working_dir
step | dir | working_dir
step | register | capture
foreach | items | input
foreach | list | input
foreach | steps | do
foreach | commands | do
straggler | duplicate | stop: true
retry_config | delay | initial_delay
retry_config | wait | initial_delay
retry_config | tries | attempts
retry_config | times | attempts`

// removedKeys are keys of the older tool that this language does not have, by block, and what to do instead.
// docs/migrating.md lists them too.
const removedKeys = `
workflow | agent_timeout_secs | write it in "map"
workflow | timeout_config | write it in "map"
workflow | imports | put the steps into one file; anchors and aliases repeat parts of it
workflow | extends | put the steps into one file; anchors and merge keys (<<) vary parts of it
workflow | template | put the steps into one file; parameters vary them
workflow | workflows | run the other workflow in a shell step: "prodigy run other.yml"
workflow | storage | jobs are kept below PRODIGY_HOME
workflow | defaults | write the values in "env" or as defaults of "parameters"
workflow | sub_workflows | run the other workflow in a shell step: "prodigy run other.yml"
workflow | agent_merge | write "verify" in "workspace"
workflow | checkpoint | every job can be resumed, so leave it out
workflow | max_retries | write "retry_defaults: {attempts: n}", which counts the first try too
workflow | timeout_secs | write "timeout" in a step, or "agent_timeout_secs" in "map"
secret | provider | write NAME: VARIABLE for a variable of the environment, or {file: …} or {command: …}
secret | key | write NAME: VARIABLE for a variable of the environment, or {file: …} or {command: …}
env value | default | write "value", and the values of other profiles in "profiles"
setup | capture_outputs | write "capture" in the step whose output it is
setup | checkpoint | every job can be resumed, so leave it out
setup | timeout_secs | write "timeout"
reduce | capture_outputs | write "capture" in the step whose output it is
reduce | checkpoint | every job can be resumed, so leave it out
reduce | timeout_secs | write "timeout"
merge | capture_outputs | write "capture" in the step whose output it is
merge | checkpoint | every job can be resumed, so leave it out
merge | timeout_secs | write "timeout"
map | agent_merge | write "verify" in "workspace"
map | checkpoint | every job can be resumed, so leave it out
map | max_retries | write "retry_config: {attempts: n}", which counts the first try too
map | timeout | write "agent_timeout_secs"
map | timeout_secs | write "agent_timeout_secs"
map | timeout_per_agent | write "agent_timeout_secs"
map | retry_on_failure | write "error_policy: {retry_config: {attempts: n}}", which counts the first try too
timeout_config | enable_monitoring | timeouts are always counted: see prodigy status
timeout_config | timeout_secs | write "agent_timeout_secs"
error_policy | max_retries | write "retry_config: {attempts: n}", which counts the first try too
retry_config | max_retries | write "attempts", which counts the first try too
step | analysis | write "shell" with the command that does it
step | analyze | write "shell" with the command that does it
step | args | write the arguments in the command
step | auto_commit | make the commit in a shell step
step | agent_merge | write "verify" in "workspace"
step | checkpoint | every job can be resumed, so leave it out
step | context | write it in the prompt, or in "env"
step | capture_streams | stdout, stderr and exit code are always there, as in ${id.stderr}
step | command | write "shell"
step | clear_env | start the command with "env -i"
step | commit_config | make the commit in a shell step
step | continue_on_error | write "allow_failure"
step | do | write it in "foreach", beside "input"
step | goal_seek | write "validate" with "on_incomplete"
step | handler | write "shell" with the command that does it
step | max_items | write it in "foreach", beside "input"
step | max_retries | write "retry_config: {attempts: n}", which counts the first try too
step | metadata | write it in a comment
step | options | write the options in the command
step | outputs | write "capture" in a step that prints the names of the files, and ${name} in later ones
step | parallel | write it in "foreach", beside "input"
step | retries | write "retry_config: {attempts: n}", which counts the first try too
step | temporary | the variables of a step are only set for that step
step | timeout_secs | write "timeout"
on_failure | max_retries | write "max_attempts"
on_failure | retry_original | write "max_attempts"
on_failure | strategy | the steps say what is done
on_failure | handler_failure_fatal | write "fail_workflow"
on_failure with "commands" | max_retries | write "max_attempts"
on_failure with "commands" | retry_original | write "max_attempts"
on_failure with "commands" | strategy | the steps say what is done
on_failure with "commands" | handler_failure_fatal | write "fail_workflow"
on_failure with "commands" | timeout | write "timeout" in the steps
validate | command | write "shell"
validate | expected_schema | check the result in the command that makes it
on_incomplete | prompt | nobody is asked while a job runs
on_incomplete with "commands" | prompt | nobody is asked while a job runs
on_incomplete with "commands" | commit_required | write "commit_required" in the steps`

// inTable returns what a table says of a key in a block, or "".
func inTable(table, block, key string) string {
	_, row, _ := strings.Cut(table, "\n"+block+" | "+key+" | ")
	instead, _, _ := strings.Cut(row, "\n")
	return instead
}
