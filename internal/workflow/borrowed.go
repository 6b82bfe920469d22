package workflow

// borrowed are keys that other tools have, by the block they would stand in, and what is meant by them here.
func borrowed() map[string]map[string]string {
	return map[string]map[string]string{
		"workflow":     {"jobs": "commands", "tasks": "commands", "vars": "env", "variables": "env", "inputs": "parameters"},
		"map":          {"items": "input", "parallel": "max_parallel", "concurrency": "max_parallel", "workers": "max_parallel", "jobs": "max_parallel", "do": "agent_template", "steps": "agent_template"},
		"step":         {"run": "shell", "cmd": "shell", "script": "shell", "bash": "shell", "sh": "shell", "prompt": "claude", "if": "when", "cwd": "working_dir", "dir": "working_dir", "register": "capture"},
		"retry_config": {"delay": "initial_delay", "wait": "initial_delay", "tries": "attempts", "times": "attempts"},
	}
}
