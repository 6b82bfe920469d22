package gitspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/process"
)

// The oldest git that merges without a working tree.
const minMajor, minMinor = 2, 38

// repositoryVars are the variables that lead git to another repository, index or set of objects than those of
// the directory it runs in. It is what `git rev-parse --local-env-vars` lists, and what hooks and aliases get
// besides.
const repositoryVars = `
	GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_OBJECT_DIRECTORY
	GIT_DIR GIT_WORK_TREE GIT_IMPLICIT_WORK_TREE GIT_GRAFT_FILE GIT_INDEX_FILE GIT_INDEX_VERSION
	GIT_NO_REPLACE_OBJECTS GIT_REPLACE_REF_BASE GIT_PREFIX GIT_INTERNAL_SUPER_PREFIX GIT_SHALLOW_FILE
	GIT_COMMON_DIR GIT_NAMESPACE GIT_QUARANTINE_PATH GIT_ATTR_SOURCE GIT_REF_PARANOIA GIT_DEFAULT_HASH
	GIT_DEFAULT_REF_FORMAT
`

// ownVars are the variables that change what the commands of this package do, and that agents may have.
const ownVars = `
	GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
	GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS GIT_EXTERNAL_DIFF
	GIT_DIFF_OPTS GIT_CEILING_DIRECTORIES GIT_OPTIONAL_LOCKS
`

// settings are given to every command of this package: no hooks, no background work, nothing that asks, and
// objects that are on disk when it ends.
const settings = `
	core.hooksPath=/dev/null core.fsmonitor=false core.untrackedCache=false core.splitIndex=false
	core.safecrlf=false gc.auto=0 maintenance.auto=false commit.gpgSign=false submodule.recurse=false
	fetch.recurseSubmodules=false fetch.prune=false fetch.writeCommitGraph=false fetch.fsckObjects=false
	transfer.fsckObjects=false protocol.file.allow=always protocol.version=2 log.showSignature=false
	advice.addEmbeddedRepo=false core.fsync=committed core.alternateRefsPrefixes=refs/prodigy/
`

// git runs git commands.
type git struct {
	path string
	// flags are settings, each as -c and its value.
	flags    []string
	environ  []string
	register *process.Register
	// patience is how long a command may take.
	patience time.Duration

	// mergeBase is set if merge-tree has --merge-base.
	mergeBase bool
}

const (
	// gitPatience is long enough for a filter that copies large files, and ends a git that waits for something that
	// never comes.
	gitPatience = 30 * time.Minute

	mostOutput = 1 << 30   // what git prints of the largest repositories
	mostNames  = 256 << 20 // the names of some million files
)

// newGit returns what runs git commands for a job. It refuses a git that is too old.
func newGit(ctx context.Context, c Config) (g git, err error) {
	g.register, g.patience = c.Register, gitPatience
	for setting := range strings.FieldsSeq(settings) {
		g.flags = append(g.flags, "-c", setting)
	}
	for _, kv := range c.Environ {
		name, _, _ := strings.Cut(kv, "=")
		if name != "OLDPWD" && !check.Among(repositoryVars, name) && !check.Among(ownVars, name) {
			g.environ = append(g.environ, kv)
		}
	}
	// Nobody answers, and what is only read must not be written, not even an index.
	g.environ = append(g.environ, "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true", "GIT_OPTIONAL_LOCKS=0",
		"GIT_DEFAULT_REF_FORMAT=files")
	if g.path, err = exec.LookPath("git"); err != nil {
		return g, errors.New("workspaces need git, which is not on PATH")
	}
	out, err := place{git: &g}.output(ctx, "version")
	if err != nil {
		return g, err
	}
	major, minor, ok := parseVersion(out)
	if !ok {
		return g, fmt.Errorf("workspaces need git %d.%d or newer; cannot parse its version %q", minMajor, minMinor,
			strings.TrimSpace(out))
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return g, fmt.Errorf("workspaces need git %d.%d or newer: this is %d.%d", minMajor, minMinor, major, minor)
	}
	g.mergeBase = major > 2 || minor >= 40
	return g, nil
}

// parseVersion parses the output of `git version`, such as "git version 2.39.5 (Apple Git-154)".
func parseVersion(out string) (major, minor int, ok bool) {
	_, err := fmt.Sscanf(out, "git version %d.%d", &major, &minor)
	return major, minor, err == nil
}

// place is where a command runs, and on which repository.
type place struct {
	*git
	dir string
	// env is what a command gets besides the environment of the run. Without GIT_DIR the repository is that of dir.
	env []string
	// stdin is read instead of the input that is given, and stdout gets the output instead of the caller. Both may be
	// nil.
	stdin, stdout *os.File
	// most is how many bytes a command may print if none are kept; else mostOutput counts.
	most int
}

// gitError is a git command that ended with an exit code that is no answer.
type gitError struct {
	args   []string
	exit   process.Exit
	stderr string
}

func (e *gitError) Error() string {
	how := "exit code " + strconv.Itoa(e.exit.Code)
	if e.exit.Signal != "" {
		how = e.exit.Signal
	}
	return fmt.Sprintf("git %s: %s: %s", e.args[0], how, e.reason())
}

// byItself reports whether git has failed by itself: it said so, or crashed. Other signals are those of a stop, or of
// a machine without memory.
func (e *gitError) byItself() bool {
	return !e.exit.Expired && (e.exit.Signal == "" || check.Among("SIGSEGV SIGBUS SIGABRT SIGFPE SIGILL", e.exit.Signal))
}

// reason returns what git printed, in one line, or else how it ended.
func (e *gitError) reason() string {
	if e.exit.Expired {
		return e.stderr
	}
	if e.stderr == "" && e.exit.Signal != "" {
		return "git " + e.args[0] + " was killed by " + e.exit.Signal
	}
	lines := strings.FieldsFunc(e.stderr, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		for _, word := range [...]string{"fatal: ", "error: "} {
			line = strings.TrimPrefix(line, word)
		}
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "; ")
}

// refusal returns the error of a git that has failed by itself, or nil if err is nil or another error.
func refusal(err error) *gitError {
	if failed, is := errors.AsType[*gitError](err); is && failed.byItself() {
		return failed
	}
	return nil
}

// do runs a command.
func (p place) do(ctx context.Context, args ...string) error {
	_, err := p.output(ctx, args...)
	return err
}

// commit returns the name of the commit that a revision stands for, or "" if there is none.
func (p place) commit(ctx context.Context, revision string) (string, error) {
	out, _, err := p.answer(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	return strings.TrimSpace(out), err
}

// contains reports whether a commit is another one, or has it in its history.
func (p place) contains(ctx context.Context, commit, other string) (bool, error) {
	_, code, err := p.answer(ctx, "merge-base", "--is-ancestor", other, commit)
	return code == 0, err
}

// output runs a command and returns what it printed to stdout.
func (p place) output(ctx context.Context, args ...string) (string, error) {
	return p.feed(ctx, "", args...)
}

// feed is output for a command that reads input.
func (p place) feed(ctx context.Context, input string, args ...string) (string, error) {
	out, _, err := p.run(ctx, input, 0, args...)
	return out, err
}

// answer runs a command whose exit codes 0 and 1 are answers.
func (p place) answer(ctx context.Context, args ...string) (out string, code int, err error) {
	return p.run(ctx, "", 1, args...)
}

// line is output without the newline at its end.
func (p place) line(ctx context.Context, args ...string) (string, error) {
	out, err := p.output(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// run runs a command. Exit codes other than 0 and that of an answer are a *gitError; a stop is its cause.
func (p place) run(
	ctx context.Context, input string, answer int, args ...string,
) (out string, code int, err error) {
	expiry, expire := context.WithTimeout(context.Background(), p.patience)
	defer expire()
	stdout := bounded{most: cmp.Or(p.most, mostOutput), keep: p.most == 0, full: expire}
	stderr := process.Capture{Limit: 16 << 10}
	c := process.Command{
		Path: p.path, Argv: slices.Concat([]string{"git"}, p.flags, args), Dir: p.dir,
		Env:   slices.Concat(p.environ, p.env, []string{"PWD=" + p.dir}), // PWD is for filters, drivers, and what signs
		Stdin: p.stdin, Input: input, Stdout: &stdout, Stderr: &stderr, Grace: 5 * time.Second, Register: p.register,
		Expiry: expiry,
	}
	if p.stdout != nil {
		c.Stdout = p.stdout
	}
	exit, err := process.Run(ctx, c)
	switch {
	case err != nil:
		return "", -1, err
	case exit.Start != nil:
		return "", -1, fmt.Errorf("git %s: %w", args[0], exit.Start)
	case exit.Expired:
		why := fmt.Sprintf("git %s did not finish within %v", args[0], p.patience)
		if stdout.size > stdout.most {
			why = fmt.Sprintf("git %s printed more than %s", args[0], size(int64(stdout.most)))
		}
		return "", -1, &gitError{args: args, exit: exit, stderr: why}
	case exit.Code != 0 && exit.Code != answer:
		return "", exit.Code, &gitError{args: args, exit: exit, stderr: stderr.Text()}
	}
	return stdout.text.String(), exit.Code, nil
}

// bounded takes what is written up to a limit, and calls full when there is more.
type bounded struct {
	text bytes.Buffer
	most int // bytes
	keep bool
	full func()
	size int
}

// Write implements io.Writer. It never fails: full ends the command.
func (b *bounded) Write(data []byte) (int, error) {
	if b.size += len(data); b.size > b.most {
		b.full()
	} else if b.keep {
		b.text.Write(data)
	}
	return len(data), nil
}

// list returns names as the input of commands with -z.
func list(names []string) string { return strings.Join(names, "\x00") + "\x00" }

// fields splits output of commands with -z.
func fields(out string) []string {
	if out == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}
