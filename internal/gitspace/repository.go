package gitspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

// makeHub makes the hub and the template of a new job. The record is written last: without it they are made anew.
func (s *Space) makeHub(ctx context.Context, start Start) error {
	sparse, _ := lookup(s.user.config, "core.sparsecheckout")
	s.record = record{
		Base: start.Base, Prefix: s.user.prefix, Format: s.user.format,
		Sparse: len(s.Policy.Sparse) > 0 || isTrue(sparse),
	}
	known, err := s.identify(ctx)
	if err != nil {
		return err
	}
	for _, dir := range [...]string{s.hubDir(), s.templateDir()} {
		if err := removeAll(dir); err != nil {
			return err
		}
	}
	err = s.writeRepository(s.hubDir(), s.user.objects, hubSettings())
	if modules := filepath.Join(s.user.commonDir, "modules"); err == nil && isDir(modules) {
		// There submodules of a workspace look for objects to borrow.
		err = os.Symlink(modules, filepath.Join(s.hubDir(), "modules"))
	}
	if err != nil {
		return fmt.Errorf("create the job's repository: %w", err)
	}
	if err := s.writeTemplate(ctx, known); err != nil {
		return fmt.Errorf("create the workspace template: %w", err)
	}
	data, err := json.Marshal(s.record)
	if err != nil {
		return err
	}
	return jobs.WriteFile(s.recordFile(), data)
}

// identify sets the identity of prodigy's commits: the user's, if git knows one.
func (s *Space) identify(ctx context.Context) (known bool, err error) {
	// The variables count here: they are what the user's own commits would get.
	p := s.user.place
	for _, kv := range s.Config.Environ {
		if strings.HasPrefix(kv, "GIT_AUTHOR_") || strings.HasPrefix(kv, "GIT_COMMITTER_") {
			p.env = append(p.env, kv)
		}
	}
	out, err := p.line(ctx, "var", "GIT_AUTHOR_IDENT")
	if _, failed := errors.AsType[*gitError](err); failed {
		s.record.Identity = identity{Name: "prodigy", Email: "prodigy@localhost"}
		return false, nil
	}
	name, rest, _ := strings.Cut(out, " <") // of "Name <mail> time zone"
	mail, _, _ := strings.Cut(rest, ">")
	s.record.Identity = identity{Name: name, Email: mail}
	return err == nil, err
}

// hubSettings returns the settings of the hub, a bare repository that borrows the user's objects.
func hubSettings() []setting {
	return parseWords(`
		core.bare=true core.alternaterefsprefixes=refs/prodigy/ core.fsync=committed gc.auto=0
		maintenance.auto=false
	`)
}

// writeTemplate writes the .git of a new workspace, which has the branches and tags of the user and borrows the
// objects of the hub.
func (s *Space) writeTemplate(ctx context.Context, identified bool) error {
	own := parseWords(`
		core.bare=false core.logallrefupdates=true core.fsmonitor=false core.splitindex=false
		core.untrackedcache=false core.alternaterefsprefixes=refs/prodigy/ commit.gpgsign=false
		tag.gpgsign=false gc.auto=0 maintenance.auto=false submodule.alternatelocation=superproject
		submodule.alternateerrorstrategy=info
	`)
	if s.user.hooks != "" {
		own = append(own, setting{key: "core.hookspath", value: s.user.hooks})
	}
	if identified { // a directory of another place may have another identity, by includeIf
		own = append(own, setting{key: "user.name", value: s.record.Identity.Name},
			setting{key: "user.email", value: s.record.Identity.Email})
	}
	if _, set := lookup(s.user.config, "lfs.storage"); !set && isDir(filepath.Join(s.user.commonDir, "lfs")) {
		own = append(own, setting{key: "lfs.storage", value: filepath.Join(s.user.commonDir, "lfs")})
	}
	if len(s.Policy.Sparse) > 0 {
		own = append(own, parseWords("core.sparsecheckout=true core.sparsecheckoutcone=true index.sparse=false")...)
	}
	dir := s.templateDir()
	if err := s.writeRepository(dir, filepath.Join(s.hubDir(), "objects"), own); err != nil {
		return err
	}
	if err := s.writeInfo(dir); err != nil {
		return err
	}
	return s.writeRefs(ctx, dir)
}

// inherited returns the user's own settings that are good for a repository at another place.
func (s *Space) inherited() []setting {
	const dropped = `
		core.worktree core.fsmonitor core.hookspath core.repositoryformatversion core.splitindex
		core.untrackedcache core.alternaterefscommand commit.gpgsign tag.gpgsign include.path
	`
	var kept []setting
	for _, one := range s.user.config {
		section, _, name := one.parts()
		if section == "remote" && check.Among("url pushurl", name) && strings.HasPrefix(one.value, ".") {
			one.value = filepath.Join(s.user.top, one.value)
		}
		if !check.Among(dropped, one.key) && !check.Among("gc maintenance includeif", section) &&
			(section != "extensions" || one.key == "extensions.partialclone") {
			kept = append(kept, one)
		}
	}
	return kept
}

// writeRepository writes a repository by hand, with the user's settings and own instead of them: `git init`
// would follow the user's templates and defaults.
func (s *Space) writeRepository(dir, borrowed string, own []setting) error {
	// a key with two values could not be set any more
	config := slices.DeleteFunc(s.inherited(), func(one setting) bool {
		_, set := lookup(own, one.key)
		return set
	})
	config = append(config, own...)
	_, partial := lookup(config, "extensions.partialclone")
	config = append(formatSettings(s.record.Format, partial), config...)
	err := writeGitDir(dir, borrowed, formatConfig(config), nil)
	if err == nil {
		err = copyIfThere(s.user.shallow, filepath.Join(dir, "shallow"))
	}
	if err == nil {
		err = copyIfThere(s.user.attributes, filepath.Join(dir, "info", "attributes"))
	}
	return err
}

// formatSettings returns the settings that say how a repository is stored.
func formatSettings(format string, partial bool) []setting {
	switch {
	case format != "sha1":
		return parseWords("core.repositoryformatversion=1 extensions.objectformat=" + format)
	case partial:
		return parseWords("core.repositoryformatversion=1")
	}
	return parseWords("core.repositoryformatversion=0")
}

// writeGitDir writes the files of a repository that borrows objects, if borrowed is not empty.
func writeGitDir(dir, borrowed, config string, more map[string]string) error {
	files := map[string]string{"HEAD": "ref: " + headRef + "\n", "config": config}
	if borrowed != "" {
		files["objects/info/alternates"] = borrowed + "\n"
	}
	maps.Copy(files, more)
	for sub := range strings.FieldsSeq("objects/info objects/pack refs/heads refs/tags info") {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			return err
		}
	}
	return writeFiles(dir, files)
}

// writeFiles writes files below a directory.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := jobs.WriteFile(file, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// writeInfo writes what a workspace ignores and which files it has.
func (s *Space) writeInfo(dir string) error {
	exclude, err := os.ReadFile(s.user.exclude)
	if check.Unless(err, fs.ErrNotExist) != nil {
		return err
	}
	text := string(exclude)
	if ignored := slices.Concat(s.Ignore, s.Policy.Keep); len(ignored) > 0 { // what is kept must never be committed
		text = strings.TrimSuffix(text, "\n") + "\n" + strings.Join(ignored, "\n") + "\n"
	}
	if err := jobs.WriteFile(filepath.Join(dir, "info", "exclude"), []byte(text)); err != nil {
		return err
	}
	sparse := filepath.Join(dir, "info", "sparse-checkout")
	if len(s.Policy.Sparse) > 0 {
		return jobs.WriteFile(sparse, []byte(conePatterns(s.Policy.Sparse)))
	}
	return copyIfThere(s.user.sparse, sparse)
}

// conePatterns returns the sparse-checkout file of directories, as `git sparse-checkout set --cone` writes it.
func conePatterns(dirs []string) string {
	var whole, above []string
	for _, dir := range dirs {
		dir = cleanDir(dir)
		if dir == "" {
			return "/*\n"
		}
		whole = append(whole, dir)
		for up := path.Dir(dir); up != "."; up = path.Dir(up) {
			above = append(above, up)
		}
	}
	slices.Sort(whole)
	slices.Sort(above)
	var b strings.Builder
	b.WriteString("/*\n!/*/\n")
	escape := func(dir string) string { return check.Escape(dir, `\*?[`) }
	for _, dir := range slices.Compact(above) {
		if !slices.ContainsFunc(whole, func(w string) bool { return dir == w || strings.HasPrefix(dir, w+"/") }) {
			fmt.Fprintf(&b, "/%s/\n!/%s/*/\n", escape(dir), escape(dir))
		}
	}
	for _, dir := range slices.Compact(whole) {
		fmt.Fprintf(&b, "/%s/\n", escape(dir))
	}
	return b.String()
}

// writeRefs writes the branches, tags and notes of the user. A branch that would be in the way of those of the
// job is left out.
func (s *Space) writeRefs(ctx context.Context, dir string) error {
	out, err := s.user.output(ctx, "for-each-ref", refFormat, "refs/heads", "refs/tags", "refs/remotes", "refs/notes",
		"refs/replace")
	if err != nil {
		return err
	}
	result := "refs/heads/" + s.ResultBranch()
	files, _ := refFiles(out, func(name string) bool {
		return strings.HasPrefix(result+"/", name+"/") || strings.HasPrefix(name, result)
	})
	return writeFiles(dir, files)
}

// refFormat has `git for-each-ref` print what refFiles reads.
const refFormat = "--format=%(objectname) %(refname) %(*objectname) %(symref)"

// refFiles returns the files of a repository that hold refs, by their paths in it, and the tags that are
// objects of their own.
func refFiles(out string, skip func(name string) bool) (files map[string]string, tags []string) {
	files = make(map[string]string)
	packed := []byte("# pack-refs with: peeled fully-peeled sorted \n")
	for line := range strings.Lines(out) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(columns) != 4 {
			continue
		}
		object, name, peeled, symref := columns[0], columns[1], columns[2], columns[3]
		if skip(name) {
			continue
		}
		if symref != "" {
			files[name] = "ref: " + symref + "\n"
			continue
		}
		packed = fmt.Appendf(packed, "%s %s\n", object, name)
		if peeled != "" {
			packed = fmt.Appendf(packed, "^%s\n", peeled)
			tags = append(tags, object)
		}
	}
	files["packed-refs"] = string(packed)
	return files, tags
}

// formatConfig writes settings as a file of git.
func formatConfig(all []setting) string {
	var b strings.Builder
	for _, s := range all {
		section, sub, name := s.parts()
		b.WriteString("[" + section)
		if strings.Count(s.key, ".") > 1 {
			b.WriteString(` "` + check.Escape(sub, `\"`) + `"`)
		}
		b.WriteString("]\n\t" + name)
		if !s.bare {
			escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
			b.WriteString(` = "` + escape.Replace(s.value) + `"`)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// restore removes what a killed git left in the hub, and sets its refs. The hidden ref in the user's repository keeps the base, however the user's
// branches change.
func (s *Space) restore(ctx context.Context, head string, live []Work) error {
	if head == "" {
		head = s.record.Base
	}
	if err := removeLocks(s.hubDir()); err != nil {
		return err
	}
	// The locks of the two refs of the job in the user's repository: nobody else writes those while the job is locked.
	for _, ref := range [...]string{s.hiddenRef(), "refs/heads/" + s.ResultBranch()} {
		_ = os.Remove(filepath.Join(s.user.commonDir, filepath.FromSlash(ref)+".lock"))
	}
	if boot, err := os.ReadFile(s.bootFile()); err == nil && string(boot) != process.BootID() {
		if err := s.inspectHub(ctx, head, live); err != nil {
			return err
		}
	}
	if err := s.setRefs(ctx, head, live); err != nil {
		return fmt.Errorf("cannot read the job's commits: %w", err)
	}
	if err := jobs.WriteFile(s.bootFile(), []byte(process.BootID())); err != nil {
		return err
	}
	// Each of the refs is a file until now.
	if err := s.hub().do(ctx, "pack-refs", "--all"); err != nil {
		return err
	}
	kept, err := s.user.commit(ctx, s.hiddenRef())
	if err != nil || kept != "" {
		return err
	}
	return s.user.do(ctx, "update-ref", s.hiddenRef(), s.record.Base)
}

// setRefs sets the refs of the head and of the work that waits, and deletes those of what is merged.
func (s *Space) setRefs(ctx context.Context, head string, live []Work) error {
	merged, err := s.hub().output(ctx, "for-each-ref", "--format=%(refname)", "--merged="+head, "refs/items")
	if refusal(err) != nil { // some work that nobody waits for is damaged, so the refs of what is merged stay
		merged, err = "", nil
	}
	if err != nil {
		return err
	}
	var update strings.Builder
	fmt.Fprintf(&update, "update %s %s\n", headRef, head)
	waits := make(map[string]bool)
	for _, w := range live {
		waits[w.ref()] = true
		if _, lost := s.lost[w.Commit]; !lost {
			fmt.Fprintf(&update, "update %s %s\n", w.ref(), w.Commit)
		}
	}
	for ref := range strings.Lines(merged) {
		if ref = strings.TrimSuffix(ref, "\n"); !waits[ref] {
			fmt.Fprintf(&update, "delete %s\n", ref)
		}
	}
	_, err = s.hub().feed(ctx, update.String(), "update-ref", "--stdin")
	return err
}

// removeLocks removes the locks and temporary files of git in a repository that nobody works in.
func removeLocks(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return check.Unless(err, fs.ErrNotExist)
		case entry.IsDir() && filepath.Dir(name) == filepath.Join(dir, "objects") && len(entry.Name()) == 2:
			return fs.SkipDir // loose objects, which have no locks
		case !entry.IsDir() && (strings.HasSuffix(name, ".lock") || strings.HasPrefix(entry.Name(), "tmp_") || name == filepath.Join(dir, "packed-refs.new")):
			return os.Remove(name)
		}
		return nil
	})
}
