package agent

// kinds returns what makes the command of a step, by the key of its kind in the workflow file.
func kinds() map[string]func(c *compiler, s *step, n scopeNames) command {
	return map[string]func(c *compiler, s *step, n scopeNames) command{
		"shell":      buildShell,
		"claude":     buildClaude,
		"agent":      buildAgent,
		"write_file": buildWriteFile,
		"foreach":    buildForeach,
		"validate":   buildValidate,
	}
}
