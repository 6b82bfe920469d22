package cli

import (
	"io"
	"strings"
	"testing"
)

// goneLines are lines that were documented for the older tool, with commands and flags that are gone.
const goneLines = `batch *.py --command /x --parallel 5 --retry 2
batch *.rs --command claude:/x --timeout 300 --path /p
exec /fix --retry 3 --timeout 300
exec shell:ls -p /x
sessions list --status failed
sessions ls
sessions show x --json
sessions clean --all
sessions clean --force
checkpoints list --workflow-id x
checkpoints clean --workflow-id x --force
checkpoints clean --all -f
checkpoints show x --version 3
checkpoints validate x --repair
checkpoints mapreduce x --detailed
checkpoints delete x --force
worktree clean --force
worktree clean -f --all
worktree clean --older-than 24h --dry-run
worktree clean --merged-only
worktree clean --mapreduce --job-id x
worktree ls --json
worktree ls -d
worktree merge --all
worktree clean-orphaned x --dry-run
worktree clean-orphaned --force
progress JOB --web 8080
progress JOB --export p.json --format csv
analytics --since 7d
config trace --all
config trace a.b --diagnose --json
config show --json
init --force
init --commands a,b --path .
migrate-yaml --dry-run a
migrate-yaml --force a
template list --long
template register a.yml --name x -t y
template show x
resume-job x --force
resume-job x --max-retries 5 -p /p
cook a.yml -n 3
cook a.yml --worktree
dlq show x --json
dlq reprocess x --max-retries 3
dlq view x
events show x
goal-seek --goal x --command claude:/x`

// What was documented for the older tool is refused with what to write instead, whatever its flags.
func TestLinesOfTheOlderToolAreRefusedWithWhatToWriteInstead(t *testing.T) {
	for line := range strings.Lines(goneLines) {
		args := strings.Fields(line)
		root := newRootCommandFor(&console{out: io.Discard, err: io.Discard}, args)
		root.SetArgs(args)
		err := root.Execute()
		if exitCode(err) != exitUsage || !isRefusal(err.Error()) {
			t.Errorf("%s: got %v, want what to write instead", strings.TrimSpace(line), err)
		}
	}
}

// isRefusal reports whether a message says of an unknown command what to write instead.
func isRefusal(message string) bool {
	rest, ok := strings.CutPrefix(message, `unknown command "`)
	_, instead, quoted := strings.Cut(rest, `": `)
	return ok && quoted && instead != ""
}
