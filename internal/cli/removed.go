package cli

// removedCommands returns commands of the older tool, by group, and what to do instead. docs/migrating.md lists them
// too.
func removedCommands() map[string]map[string]string {
	return map[string]map[string]string{
		"prodigy": {
			"resume-job":   "write prodigy resume JOB",
			"sessions":     "prodigy jobs lists the jobs, prodigy status JOB shows one",
			"checkpoints":  "prodigy resume JOB continues a job, prodigy status JOB shows where it is, prodigy clean removes old ones",
			"worktree":     "prodigy status shows what was merged, git merge prodigy/<job> takes it, and prodigy clean removes what is left",
			"cook":         "write prodigy run WORKFLOW",
			"exec":         "write the command as a step with retry_config and timeout, and prodigy run WORKFLOW",
			"batch":        "write prodigy map --glob PATTERN -j N --retry N -- COMMAND, or prodigy run WORKFLOW --map PATTERN",
			"progress":     "write prodigy status JOB --watch",
			"analytics":    "prodigy report, prodigy results and prodigy events stats have the numbers of a job",
			"config":       "settings stand in the workflow file, and agent.command in config.yml below PRODIGY_HOME",
			"init":         "nothing has to be set up: write a workflow file, and prodigy run WORKFLOW",
			"migrate-yaml": "prodigy validate WORKFLOW says what to write differently",
			"template":     "a workflow is one file, which parameters vary",
			"goal-seek":    "write validate with on_incomplete in a step, and prodigy run WORKFLOW",
		},
		"dlq": {
			"show":      "write prodigy dlq inspect ITEM",
			"view":      "prodigy dlq list JOB has all, prodigy dlq inspect ITEM shows one",
			"reprocess": "write prodigy dlq retry JOB",
		},
		"events": {"show": "write prodigy events ls JOB"},
	}
}

const nameTheJob = "name the job, by its id or a prefix of it, as the first argument"

// anyCommand is the key of flags that every command of the older tool had.
const anyCommand = ""

// removedFlags returns flags of the older tool, by command, and what to do instead. docs/migrating.md lists them too.
func removedFlags() map[string]map[string]string {
	return map[string]map[string]string{
		"run": {
			"y":              "nothing is asked, so leave it out",
			"yes":            "nothing is asked, so leave it out",
			"n":              "a workflow runs once; repeat the command, or its steps with foreach",
			"max-iterations": "a workflow runs once; repeat the command, or its steps with foreach",
			"w":              "write --workspace git",
			"worktree":       "write --workspace git",
			"resume":         "prodigy resume continues a job",
			"fail-fast":      "write on_item_failure: stop in the workflow",
		},
		anyCommand: {
			"p":       "start prodigy in that directory",
			"path":    "start prodigy in that directory",
			"v":       "prodigy events follow shows every event",
			"verbose": "prodigy events follow shows every event",
		},
		"validate": {
			"format":  "a workflow has one format, so leave it out",
			"suggest": "it always says what to write, so leave it out",
		},
		"resume": {"from-checkpoint": "a job goes on where it stopped, so leave it out"},
		"logs":   {"summary": "prodigy status and prodigy report have the sums of a job"},
		"events": {"job-id": "write prodigy events ls JOB"},
		"ls":     {"file": nameTheJob},
		"follow": {"file": nameTheJob},
		"search": {"file": nameTheJob, "fields": "all fields are searched; --output jsonl has them for jq"},
		"clean": {
			"max-events": "write --older-than with a unit, as in --older-than 30d", "max-size": "write --older-than with a unit, as in --older-than 30d",
			"archive-path": "--archive takes the directory", "all-jobs": "write --all", "all-repos": "write --all", "mapreduce": "leave it out",
		},
		"purge": {
			"older-than-days": "write --older-than with a unit, as in --older-than 30d",
			"workflow-id":     nameTheJob,
		},
		"stats":   {"group-by": "prodigy events stats counts by type, and prodigy events ls --output csv has all fields to count by", "workflow-id": nameTheJob, "file": nameTheJob},
		"list":    {"workflow-id": nameTheJob},
		"inspect": {"workflow-id": nameTheJob},
		"analyze": {"workflow-id": nameTheJob},
		"export":  {"workflow-id": nameTheJob, "file": nameTheJob},
		"retry":   {"workflow-id": nameTheJob},
	}
}
