package gitspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
)

// checkout is the user's repository, as seen from the directory the job was started in. It is only read, but
// for the refs of the job.
type checkout struct {
	place
	// head is the commit that is checked out. It is empty before the first commit.
	head string
	top  string
	// prefix is the path of the directory in the checkout, with / at its end. It is empty at the top level.
	prefix string
	// commonDir is that of the repository, also from a linked worktree.
	commonDir string
	// format is that of object names: sha1 or sha256.
	format string
	// These are paths of files and directories of the repository, of which some may be missing.
	objects, shallow, sparse, exclude, attributes string

	// config has the local settings.
	config []setting
	// hooks is what core.hooksPath is to be. It is empty to leave what is set outside of the repository.
	hooks string
	// promise is set for a partial clone: what is missing is fetched when it is asked for.
	promise bool
}

// places returns the names of the checkout and of the directory in it that the job was started in, with and without
// symbolic links, and the path to the same place of a workspace from where commands begin.
func (c checkout) places() map[string]string {
	up := strings.Repeat("../", strings.Count(c.prefix, "/")) + "."
	all := map[string]string{filepath.Join(c.top, c.prefix): ".", c.dir: "."}
	all[c.top] = up
	if top, is := strings.CutSuffix(c.dir, "/"+strings.TrimSuffix(c.prefix, "/")); is {
		all[top] = up
	}
	return all
}

// setting is one of git's configuration.
type setting struct {
	key   string // section and name in lower case
	value string
	bare  bool // it has no value, which means true
}

// parts returns the section, what is in quotes behind it, and the name of a setting.
func (s setting) parts() (section, sub, name string) {
	section, rest, _ := strings.Cut(s.key, ".")
	last := strings.LastIndexByte(rest, '.')
	return section, rest[:max(last, 0)], rest[last+1:]
}

// parseWords parses settings that are written as words, each KEY=VALUE.
func parseWords(text string) (all []setting) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		all = append(all, setting{key: key, value: value})
	}
	return all
}

// inspect reads the repository that dir is in.
func (g *git) inspect(ctx context.Context, dir string) (checkout, error) {
	c := checkout{place: place{git: g, dir: dir}}
	out, err := c.output(ctx, "rev-parse", "--is-bare-repository", "--is-inside-work-tree")
	failed, is := errors.AsType[*gitError](err)
	switch {
	case is:
		return c, fmt.Errorf("workspaces need a git repository: %s", failed.reason())
	case err != nil:
		return c, err
	case strings.HasPrefix(out, "true"):
		return c, fmt.Errorf("workspaces need a working tree, and %s is a bare repository: run prodigy in a clone of it", dir)
	case !strings.HasSuffix(out, "true\n"):
		return c, fmt.Errorf("workspaces need a working tree, and %s is inside a .git directory", dir)
	}
	out, err = c.output(ctx, "rev-parse", "--path-format=absolute", "--show-toplevel", "--show-prefix",
		"--git-common-dir",
		"--git-path", "objects", "--git-path", "shallow", "--git-path", "info/sparse-checkout", "--git-path",
		"info/exclude", "--git-path", "info/attributes",
		"--show-object-format")
	if err != nil {
		return c, err
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	into := []*string{
		&c.top, &c.prefix, &c.commonDir, &c.objects, &c.shallow, &c.sparse, &c.exclude, &c.attributes, &c.format,
	}
	if len(lines) != len(into) {
		return c, fmt.Errorf("the path of the repository of %s contains a newline, which git does not support", dir)
	}
	for i, line := range lines {
		*into[i] = line
	}
	if c.head, err = c.commit(ctx, "HEAD"); err != nil {
		return c, err
	}
	return c, c.readConfig(ctx)
}

// readConfig reads the local settings of a repository, as far as a workspace needs them.
func (c *checkout) readConfig(ctx context.Context) error {
	out, err := c.output(ctx, "config", "--local", "--includes", "--list", "-z")
	if err != nil {
		return err
	}
	c.config = parseSettings(out)
	if on, _ := lookup(c.config, "extensions.worktreeconfig"); isTrue(on) {
		out, err := c.output(ctx, "config", "--worktree", "--includes", "--list", "-z")
		if err != nil {
			return err
		}
		c.config = append(c.config, parseSettings(out)...)
	}
	local, found := lookup(c.config, "core.hookspath")
	c.hooks = local.value
	for _, scope := range [...]string{"--global", "--system"} {
		if found {
			break
		}
		_, code, err := c.answer(ctx, "config", scope, "--includes", "--get", "core.hooksPath")
		if err != nil {
			return err
		}
		found = code == 0
	}
	if !found {
		c.hooks = filepath.Join(c.commonDir, "hooks")
	}
	for _, s := range c.config {
		section, _, name := s.parts()
		c.promise = c.promise || s.key == "extensions.partialclone" ||
			section == "remote" && name == "promisor" && isTrue(s)
	}
	return nil
}

// parseSettings parses the output of `git config --list -z`.
func parseSettings(out string) []setting {
	var all []setting
	for _, field := range fields(out) {
		key, value, has := strings.Cut(field, "\n")
		all = append(all, setting{key: key, value: value, bare: !has})
	}
	return all
}

// lookup returns the last setting of a key.
func lookup(all []setting, key string) (last setting, ok bool) {
	for _, s := range all {
		if s.key == key {
			last, ok = s, true
		}
	}
	return last, ok
}

// isTrue reports whether git takes a setting for true.
func isTrue(s setting) bool {
	switch strings.ToLower(s.value) {
	case "true", "yes", "on", "1":
		return true
	}
	return s.bare
}

// Check reports why a job cannot have workspaces, or what it begins with. It only reads. With allowDirty,
// changes of tracked files are no reason: the job goes on without them.
func Check(ctx context.Context, c Config, allowDirty bool) (start Start, err error) {
	g, err := newGit(ctx, c)
	if err != nil {
		return start, err
	}
	user, err := g.inspect(ctx, c.Dir)
	if err != nil {
		return start, err
	}
	if user.head == "" {
		return start, errors.New("the repository has no commit yet, and workspaces start from one: commit first")
	}
	start.Base = user.head
	if want := c.Policy.Base; want != "" && want != "HEAD" {
		if start.Base, err = user.commit(ctx, want); err != nil || start.Base == "" {
			return start, errors.Join(fmt.Errorf("workspace.base: commit %q not found", want), err)
		}
	}
	branch, _, err := user.answer(ctx, "symbolic-ref", "--quiet", "HEAD")
	if err != nil {
		return start, err
	}
	start.Branch = strings.TrimPrefix(strings.TrimSpace(branch), "refs/heads/")
	head, changes, err := user.state(ctx)
	if err != nil {
		return start, err
	}
	start.Checkout = kept(head, changes)
	if start.Notices, err = unseen(changes, allowDirty); err != nil {
		return start, err
	}
	if start.Files, start.Bytes, err = user.size(ctx, c.Policy.Sparse, start.Base); err != nil {
		return start, err
	}
	return start, checkDisk(c, start.Bytes)
}

// unseen says which changes no agent will see, since the user has not committed them.
func unseen(changes []string, allowDirty bool) (notices []string, err error) {
	var tracked, untracked []string
	for _, change := range changes {
		if name, is := strings.CutPrefix(change, "?? "); is {
			untracked = append(untracked, name)
		} else {
			tracked = append(tracked, change[3:])
		}
	}
	switch {
	case len(tracked) == 0:
	case allowDirty:
		notices = append(notices, "agents do not see uncommitted changes: "+check.Few(tracked, namesShown))
	default:
		return nil, fmt.Errorf("agents would not see uncommitted changes: %s; commit or stash them, or use --allow-dirty",
			check.Few(tracked, namesShown))
	}
	if len(untracked) > 0 {
		notices = append(notices, "agents do not see untracked files: "+check.Few(untracked, namesShown))
	}
	return notices, nil
}

// namesShown is how many files a message names.
const namesShown = 5

const blockSize = 4096

// size returns how many files a workspace has, and about how many bytes they take on disk. Of a checkout that is sparse
// it looks at the files that are there.
func (c checkout) size(ctx context.Context, cone []string, base string) (files int, total int64, err error) {
	add := func(n int64) {
		files++
		total += (n + blockSize - 1) / blockSize * blockSize
	}
	if on, _ := lookup(c.config, "core.sparsecheckout"); len(cone) == 0 && isTrue(on) {
		out, err := place{git: c.git, dir: c.top}.output(ctx, "ls-files", "-t", "-z")
		for _, field := range fields(out) {
			name, present := strings.CutPrefix(field, "H ")
			if !present {
				continue
			}
			n := int64(0)
			if info, err := os.Lstat(filepath.Join(c.top, name)); err == nil && info.Mode().IsRegular() {
				n = info.Size()
			}
			add(n)
		}
		return files, total, err
	}
	args := []string{"ls-tree", "-r", "-z", "--full-tree"}
	if !c.promise { // it would fetch every file to learn its size
		args = append(args, "-l")
	}
	out, err := c.output(ctx, append(args, base)...)
	for _, field := range fields(out) {
		meta, name, _ := strings.Cut(field, "\t")
		if !inCone(cone, name) {
			continue
		}
		n := int64(0) // also of a submodule
		if columns := strings.Fields(meta); len(columns) == 4 {
			n, _ = strconv.ParseInt(columns[3], 10, 64)
		}
		add(n)
	}
	return files, total, err
}

// inCone reports whether a sparse checkout of dirs has a file: those of the top level, of the directories above
// dirs, and all in dirs.
func inCone(dirs []string, name string) bool {
	if len(dirs) == 0 || !strings.Contains(name, "/") {
		return true
	}
	for _, dir := range dirs {
		dir = cleanDir(dir)
		if strings.HasPrefix(name, dir+"/") || strings.HasPrefix(dir+"/", path.Dir(name)+"/") {
			return true
		}
	}
	return false
}

// cleanDir returns a directory of the repository as git writes it.
func cleanDir(dir string) string { return strings.Trim(path.Clean("/"+filepath.ToSlash(dir)), "/") }

// checkDisk refuses workspaces that do not fit on the disk. They are one for each slot, and one for the phases.
func checkDisk(c Config, bytes int64) error {
	free, ok := freeSpace(c.WorkDir)
	count := int64(c.Slots + 1)
	if !ok || bytes == 0 || bytes*count <= free {
		return nil
	}
	return fmt.Errorf("%d workspaces of %s need %s, and %s are free in %s: use fewer slots (--max-parallel), "+
		"workspace.sparse, or set PRODIGY_WORK to a directory with more space", count, size(bytes), size(bytes*count),
		size(free), c.WorkDir)
}

// size returns a number of bytes for people.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for ; value >= 1000; unit++ {
		value /= 1000
	}
	return fmt.Sprintf("%.3g %cB", value, "kMGTPE"[unit])
}

// mostChanges is how many changes of the user's checkout are kept by name.
const mostChanges = 200

// state returns what a checkout is like: HEAD, and what git says of each file that is not as it was committed. It can
// be kept as JSON.
func (c checkout) state(ctx context.Context) (head string, changes []string, err error) {
	out, err := c.output(ctx, "rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
	if err != nil {
		return "", nil, err
	}
	head = strings.Join(strings.Fields(out), " ")
	out, err = c.output(ctx, "status", "--porcelain=v1", "--no-renames", "-z", "--untracked-files=normal")
	return head, fields(strings.ToValidUTF8(out, "\uFFFD")), err
}

// kept returns a state of bounded size. Of many changes the last are one entry, which differs if one of them does.
func kept(head string, changes []string) []string {
	if n := len(changes) - mostChanges; n > 0 {
		rest := sha256.Sum256([]byte(strings.Join(changes[mostChanges:], "\x00")))
		changes = append(changes[:mostChanges:mostChanges], fmt.Sprintf("   %d more, %x", n, rest))
	}
	return append([]string{head}, changes...)
}

// Checkout returns the state of the user's checkout that Changed compares with: that of the Start, or of when the
// Space was opened.
func (s *Space) Checkout() []string { return s.before }

// Changed returns in what the user's checkout differs from Checkout: HEAD, or the first paths. It returns nil when it
// does not.
func (s *Space) Changed(ctx context.Context) []string {
	head, changes, err := s.user.state(ctx)
	if err != nil {
		return nil
	}
	var names []string
	before, after := s.before, kept(head, changes)
	if before[0] != after[0] {
		names = append(names, "HEAD")
	}
	for _, pair := range [...][2][]string{{after[1:], before[1:]}, {before[1:], after[1:]}} {
		for _, entry := range pair[0] {
			name := entry[3:]
			if strings.HasPrefix(entry, "   ") {
				name = "others"
			}
			if !slices.Contains(pair[1], entry) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
