package workflow

// retired are the keys, by the block they stand in, that files for the older tool may hold and that this language has not, with what to
// do instead. docs/migrating.md has them too.
func retired() map[string]map[string]string {
	return map[string]map[string]string{
		"workflow": {
			"agent_timeout_secs": `write it in "map"`,
			"timeout_config":     `write it in "map"`,
			"imports":            "put the steps into one file; anchors and aliases repeat parts of it",
			"extends":            "put the steps into one file; anchors and merge keys (<<) vary parts of it",
			"template":           "put the steps into one file; parameters vary them",
			"workflows":          `run the other workflow in a shell step: "prodigy run other.yml"`,
			"storage":            "jobs are kept below PRODIGY_HOME",
		},
		"setup":  {"capture_outputs": `write "capture" in the step whose output it is`},
		"reduce": {"capture_outputs": `write "capture" in the step whose output it is`},
		"merge":  {"capture_outputs": `write "capture" in the step whose output it is`},
		"map":    {"timeout": `write "agent_timeout_secs"`},
		"timeout_config": {
			"enable_monitoring": "timeouts are always counted: see prodigy status",
		},
		"step":       retiredInSteps(),
		"on_failure": retiredInHandlers(),
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

func retiredInSteps() map[string]string {
	return map[string]string{
		"analyze":           `write "shell" with the command that does it`,
		"auto_commit":       `make the commit in a shell step`,
		"capture_streams":   "stdout, stderr and exit code are always there, as in ${id.stderr}",
		"command":           `write "shell"`,
		"commit_config":     `make the commit in a shell step`,
		"continue_on_error": `write "allow_failure"`,
		"do":                `write it in "foreach", beside "input"`,
		"goal_seek":         `write "validate" with "on_incomplete"`,
		"handler":           `write "shell" with the command that does it`,
		"max_items":         `write it in "foreach", beside "input"`,
		"parallel":          `write it in "foreach", beside "input"`,
		"retries":           `write "retry_config: {attempts: n}", which counts the first try too`,
	}
}

func retiredInHandlers() map[string]string {
	return map[string]string{
		"max_retries":           `write "max_attempts"`,
		"retry_original":        `write "max_attempts"`,
		"strategy":              "the steps say what is done",
		"handler_failure_fatal": `write "fail_workflow"`,
	}
}
