package gitspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"prodigy/internal/check"
	"prodigy/internal/events"
)

// What an agent leaves is data of a stranger, and git is made for friends: it waits for what comes out of a pipe, reads
// a device until the memory is full, and follows a link to wherever that leads, also to write there. So nothing here
// opens what an agent has left before vet has been there, and its commits count only once they are in the hub (bring),
// where they are looked at again (examine): in its own repository an object can be another than its name says.

// vet makes a workspace safe for git. After it each .git in it has only directories, and files that git can read:
// links, pipes and the like are removed, as if the agent had done that. It returns the directories whose .git leads out
// of the workspace. A *StateError says what else git would read.
func (s *Space) vet(w workspace) (strangers []string, err error) {
	if !isDir(w.dir) {
		return nil, stateErrorf("its workspace is no longer a directory")
	}
	if !isDir(w.gitDir()) {
		return nil, stateErrorf("the item deleted the .git directory of its workspace")
	}
	err = within(w.dir, func(root *os.Root) error {
		return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
			switch {
			case entry == nil:
				return err
			case err != nil: // git will say what it thinks of it
				return nil
			case !entry.IsDir() && entry.Name()[0] != '.':
				return nil
			case strings.EqualFold(entry.Name(), ".git") && entry.IsDir():
				return cmp.Or(vetRepository(root, name), fs.SkipDir)
			case strings.EqualFold(entry.Name(), ".git"):
				if leadsOut(root, name, entry) {
					strangers = append(strangers, path.Dir(name))
				}
			case entry.IsDir():
				if name != "." && s.keeps(name) {
					return fs.SkipDir
				}
			default:
				return vetRules(name, entry)
			}
			return nil
		})
	})
	if _, is := errors.AsType[*StateError](err); err != nil && !is {
		err = stateErrorf("cannot read its workspace: %v", err)
	}
	return strangers, err
}

// mostRules bounds a file that git reads whole.
const mostRules = 100 << 20

// vetRules refuses what git would take for a file of its own in the working tree, and wait for.
func vetRules(name string, entry fs.DirEntry) error {
	switch strings.ToLower(entry.Name()) {
	case ".gitattributes", ".gitignore":
		if entry.Type() == fs.ModeSymlink {
			return nil // git does not follow it
		}
	case ".gitmodules":
	default:
		return nil
	}
	info, err := entry.Info()
	if err == nil && info.Mode().IsRegular() && info.Size() <= mostRules {
		return nil
	}
	return stateErrorf("git cannot read %s in its workspace", name)
}

// vetRepository makes a .git safe: that of a workspace, or one deeper in it, which git opens to see what it is.
func vetRepository(root *os.Root, dir string) error {
	return fs.WalkDir(root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		case !entry.Type().IsRegular(), path.Dir(name) == dir+"/objects": // where only directories are
			return root.Remove(name)
		}
		most := mostIn(strings.TrimPrefix(name, dir+"/"))
		if most == 0 {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		remove := info.Size() > most
		if entry.Name() == "commondir" && !remove { // it has the refs of a linked worktree, and may lead anywhere
			text, err := root.ReadFile(name)
			remove = err != nil || strings.TrimSpace(string(text)) != "../.."
		}
		if remove {
			return root.Remove(name)
		}
		return nil
	})
}

// mostIn returns how large a file of a .git may be that git reads whole, or 0 for others.
func mostIn(name string) int64 {
	const ref, list = 64 << 10, 1 << 30
	dir, base := path.Split(name)
	for part := range strings.SplitSeq(dir, "/") {
		switch part {
		case "refs":
			return ref
		case "info":
			return list
		case "logs", "lfs", "objects":
			if part != "objects" || !strings.HasSuffix(dir, "objects/info/") {
				return 0
			}
		}
	}
	switch {
	case base == "commondir", base != "FETCH_HEAD" && strings.HasSuffix(base, "HEAD"):
		return ref
	case base == "index", base == "packed-refs", base == "shallow", strings.HasPrefix(base, "sharedindex."):
		return list
	}
	return 0
}

// leadsOut reports whether a .git that is not a directory leads to anything but another .git of the workspace, as
// that of a submodule does.
func leadsOut(root *os.Root, name string, entry fs.DirEntry) bool {
	if entry.Type() == fs.ModeSymlink {
		return true
	}
	info, err := entry.Info()
	if err != nil || !info.Mode().IsRegular() {
		return false // git sees that it is no repository
	}
	if info.Size() > mostIn("HEAD") {
		return true
	}
	text, err := root.ReadFile(name)
	to, is := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if err != nil || !is {
		return false
	}
	if filepath.IsAbs(to) {
		to = strings.TrimPrefix(filepath.Clean(to), root.Name()+"/")
	} else {
		to = path.Join(path.Dir(name), to)
	}
	_, err = root.Stat(to)
	inside := slices.ContainsFunc(
		strings.Split(to, "/"), func(part string) bool { return strings.EqualFold(part, ".git") },
	)
	return err != nil || !inside
}

// refuse refuses directories with a repository that is elsewhere, unless they are ignored. Git would open it, whatever
// it is.
func (s *Space) refuse(ctx context.Context, w workspace, strangers []string) error {
	if len(strangers) == 0 {
		return nil
	}
	out, _, err := s.in(w).run(ctx, list(strangers), 1, "check-ignore", "--no-index", "--stdin", "-z")
	if err != nil {
		return s.blame(err, "cannot read its files")
	}
	ignored := fields(out)
	for _, name := range strangers {
		if !slices.Contains(ignored, name) {
			return stateErrorf("it left a repository in %s that is elsewhere: its contents would be lost", name)
		}
	}
	return nil
}

// checkSubmodules refuses files in submodules that are not committed there. Git takes none of them into a commit of the
// workspace, not even those in a directory whose submodule has no repository.
func (s *Space) checkSubmodules(ctx context.Context, w workspace) error {
	if !exists(filepath.Join(w.dir, submodulesFile)) {
		if _, err := s.in(w).output(ctx, "cat-file", "-e", "HEAD:"+submodulesFile); err != nil {
			return nil
		}
	}
	names, err := s.submodules(ctx, w)
	if err != nil || len(names) == 0 {
		return s.blame(err, "its index cannot be read")
	}
	out, err := s.in(w).output(ctx, "diff-files", "-z", "--name-only", "--ignore-submodules=none")
	if err != nil {
		return s.blame(err, "its submodules cannot be compared")
	}
	changed := fields(out)
	for _, name := range names {
		dir := filepath.Join(w.dir, filepath.FromSlash(name))
		bare := isDir(dir) && !exists(filepath.Join(dir, ".git")) && !isEmpty(dir)
		if bare && !s.keeps(name) || slices.Contains(changed, name) {
			return stateErrorf("it changed files in the submodule %s: they would be lost", name)
		}
	}
	return nil
}

// readRef returns what a file of a vetted .git has that holds the name of an object or of another ref, or ""
// if it is not there.
func (w workspace) readRef(name string) string {
	var text []byte
	_ = within(w.gitDir(), func(root *os.Root) error {
		info, err := root.Lstat(name)
		if err == nil && info.Mode().IsRegular() && info.Size() <= mostIn("HEAD") {
			text, err = root.ReadFile(name)
		}
		return err
	})
	return strings.TrimSpace(string(text))
}

// repair makes those files of a vetted .git anew that an agent may have changed and that decide what git sees, and
// removes locks.
func (s *Space) repair(w workspace) error {
	err := within(w.gitDir(), func(root *os.Root) error {
		for name := range strings.FieldsSeq("config.worktree commondir info objects/info") {
			if err := root.RemoveAll(name); err != nil {
				return err
			}
		}
		for dir := range strings.FieldsSeq("info objects/info objects/pack refs/heads") {
			if err := root.MkdirAll(dir, 0o777); err != nil {
				return err
			}
		}
		for name := range strings.FieldsSeq(`config info/exclude info/attributes info/sparse-checkout
			objects/info/alternates shallow`) {
			if err := s.renew(root, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = removeLocks(w.gitDir())
	}
	if err != nil {
		return stateErrorf("cannot read its .git: %v", err)
	}
	return nil
}

// renew makes a file of a .git that of the template.
func (s *Space) renew(root *os.Root, name string) error {
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(s.templateDir(), name))
	if err != nil {
		return check.Unless(err, fs.ErrNotExist)
	}
	return root.WriteFile(name, text, 0o644)
}

// bring puts the objects of a commit into the hub that the known commits do not have, wherever they are: an agent can
// write them anywhere.
func (s *Space) bring(ctx context.Context, w workspace, commit string, known ...string) error {
	// History is to end where the user's does, not where a fetch of the agent has cut it off.
	err := within(w.gitDir(), func(root *os.Root) error { return s.renew(root, "shallow") })
	if err != nil {
		return err
	}
	pack, err := os.CreateTemp(filepath.Join(s.hubDir(), "objects", "pack"), "tmp_left_")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(pack.Close(), os.Remove(pack.Name())) }()
	from := s.in(w)
	from.stdout = pack
	err = from.pack(ctx, []string{commit}, known, "--stdout", "--delta-base-offset")
	if err != nil {
		return s.blame(err, "cannot read its commits")
	}
	return s.admit(ctx, pack)
}

// admit puts the objects of a pack into the hub. Trees with names that no file may have are refused.
func (s *Space) admit(ctx context.Context, pack *os.File) error {
	return s.blame(s.hub().unpack(ctx, pack, "--strict="+tolerated), "cannot read its changes")
}

// tolerated are findings of fsck that are in the history of well-known repositories, and do no harm.
const tolerated = "zeroPaddedFilemode=ignore,badTimezone=ignore,missingSpaceBeforeDate=ignore," +
	"missingEmail=ignore,missingNameBeforeEmail=ignore,missingSpaceBeforeEmail=ignore"

// examine looks at work in the hub: whether it is whole, contains the commits that it began at, and can be checked out.
// The first of known is its base.
func (s *Space) examine(ctx context.Context, commit string, known ...string) (c events.Changes, err error) {
	if err := s.hub().do(ctx, "rev-list", "--objects", "--quiet", commit, "^"+known[0]); err != nil {
		return c, s.blame(err, "its changes are incomplete")
	}
	for _, name := range known {
		contains, err := s.hub().contains(ctx, commit, name)
		if err != nil {
			return c, s.blame(err, "cannot read its changes")
		}
		if !contains {
			return c, stateErrorf("its commits do not contain the commit %s that it started from", short(name))
		}
	}
	if c, err = s.describe(ctx, known[0], commit); err == nil {
		c.Commit = commit
	}
	return c, err
}

// list refuses a commit whose files cannot be listed. A few objects can be a tree of more files than any disk holds,
// and whatever else git does with them would take all memory; this writes one name after the other, until they are too
// many.
func (s *Space) list(ctx context.Context, in place, commit string) error {
	in.most = mostNames
	err := in.do(ctx, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
	return s.blame(err, "cannot list its files")
}

// describe counts what differs between a base and a tree of the hub, and refuses what cannot be checked out.
func (s *Space) describe(ctx context.Context, base, tree string) (c events.Changes, err error) {
	out, err := s.hub().output(ctx, "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff",
		base, tree)
	if err != nil {
		return c, s.blame(err, "cannot read its changes")
	}
	all := fields(out)
	for i := 0; i < len(all); i++ {
		if raw, is := strings.CutPrefix(all[i], ":"); is && i+1 < len(all) {
			i++
			if err := s.checkEntry(raw, all[i]); err != nil {
				return events.Changes{}, err
			}
			continue
		}
		added, rest, _ := strings.Cut(all[i], "\t")
		deleted, _, _ := strings.Cut(rest, "\t")
		c.Files++
		c.Insertions += count(added)
		c.Deletions += count(deleted)
	}
	return c, nil
}

// What can be checked out anywhere: most systems have such limits, and the directory of a workspace has a name too.
const mostName, mostPath = 255, 3 << 10

// checkEntry refuses a changed file, of which raw is what `git diff-tree` says.
func (s *Space) checkEntry(raw, name string) error {
	was, now, _ := strings.Cut(raw, " ")
	switch {
	case was == gitlinkMode, strings.HasPrefix(now, gitlinkMode):
		return stateErrorf("it changed the submodule %s or left a repository there: its contents would be lost", name)
	case strings.HasPrefix(now, "000000"): // deleted
		return nil
	case strings.HasPrefix(s.record.Prefix, name+"/"):
		return stateErrorf("it replaced %s, the directory in which agents start, with a file", name)
	case len(name) > mostPath:
		return stateErrorf("file name too long (%d bytes): %.100s...", len(name), name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || isDotGit(part) || len(part) > mostName {
			return stateErrorf("invalid file name %.300q", name)
		}
	}
	return nil
}

// isDotGit reports whether a name is .git on some system: macOS leaves out characters that are not seen, Windows dots
// and blanks at the end.
func isDotGit(name string) bool {
	seen := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	seen = strings.TrimRight(seen, ". ")
	return seen == ".git" || seen == "git~1"
}
