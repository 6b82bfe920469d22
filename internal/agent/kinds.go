package agent

// builder makes the command of a step.
type builder func(c *compiler, s *step, n scopeNames) command

// kinds returns the builders by the key of the kind in the workflow file.
func kinds() map[string]builder {
	return map[string]builder{
		"shell":      buildShell,
		"claude":     buildClaude,
		"agent":      buildAgent,
		"write_file": buildWriteFile,
		"foreach":    buildForeach,
		"validate":   buildValidate,
	}
}
