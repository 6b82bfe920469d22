package gitspace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// Seed is what another machine needs to make workspaces of a job, besides objects: see OpenClone.
type Seed struct {
	Record record             `json:"record"`
	Store  string             `json:"store"` // names the repository, so that the jobs in it fetch only what is new
	Config string             `json:"config"`
	Files  map[string]string  `json:"files"`          // of a new .git, by their paths in it
	Tips   []string           `json:"tips,omitempty"` // tags, which are objects of their own: they come with the base
	Policy workflow.Workspace `json:"policy"`
}

// Seed returns what another machine needs. Branches and tags that the base of the job does not contain are not
// in it, nor are passwords.
func (s *Space) Seed(ctx context.Context) (Seed, error) {
	dir := s.templateDir()
	template := s.git.bare(dir)
	seed := Seed{Record: s.record, Files: map[string]string{}, Policy: workflow.Workspace{
		Mode: s.Policy.Mode, Take: s.Policy.Take, Setup: s.Policy.Setup, Keep: s.Policy.Keep, Sparse: s.Policy.Sparse,
	}}
	out, err := template.output(ctx, "config", "--file", filepath.Join(dir, "config"), "--list", "-z")
	if err != nil {
		return seed, err
	}
	seed.Config = formatConfig(portable(parseSettings(out)))
	for name := range strings.FieldsSeq("shallow info/exclude info/attributes info/sparse-checkout") {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case err == nil:
			seed.Files[name] = string(data)
		case !errors.Is(err, fs.ErrNotExist):
			return seed, err
		}
	}
	out, err = template.output(ctx, "for-each-ref", "--merged="+s.record.Base, refFormat, "refs/heads", "refs/tags",
		"refs/remotes")
	if err != nil {
		return seed, err
	}
	refs, tags := refFiles(out, func(string) bool { return false })
	maps.Copy(seed.Files, refs)
	slices.Sort(tags)
	seed.Tips = slices.Compact(tags)
	s.tips = seed.Tips
	origin, _ := lookup(s.user.config, "remote.origin.url")
	host, _ := os.Hostname()
	name := withoutPassword(origin.value)
	if name == "" || filepath.IsAbs(name) {
		name = host + "\x00" + s.user.commonDir
	}
	seed.Store = jobs.Digest([]byte(strings.Join([]string{name, seed.Files["shallow"], s.record.Format}, "\x00")))
	return seed, nil
}

// portable returns the settings that are good on another machine, and no secret.
func portable(all []setting) []setting {
	const sections = `
		branch color core diff extensions filter gc i18n init log maintenance merge pull push rebase remote
		submodule tag user commit index
	`
	const dropped = `
		core.sshcommand core.askpass core.gitproxy core.alternaterefscommand core.excludesfile
		core.attributesfile extensions.partialclone user.signingkey
	`
	var kept []setting
	for _, one := range all {
		section, _, name := one.parts()
		switch {
		case !check.Among(sections, section), check.Among(dropped, one.key):
			continue
		case section == "remote" && !check.Among("url pushurl fetch", name):
			continue
		case section == "remote" && name != "fetch":
			one.value = withoutPassword(one.value)
		}
		kept = append(kept, one)
	}
	return kept
}

// withoutPassword returns a URL without a password, and but for SSH without a name, which may be a token.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	if name := u.User.Username(); u.Scheme == "ssh" {
		u.User = url.User(name)
	} else {
		u.User = nil
	}
	return u.String()
}

// OpenClone makes the workspaces of a job on a machine that has not its repository. Their objects come in
// packs: those of the base into store, a directory that other jobs of the repository use too, and all else into
// the hub. The directories of c must be new.
func OpenClone(ctx context.Context, c Config, seed Seed, store string) (*Space, error) {
	c.Policy = seed.Policy
	s, err := newSpace(ctx, c)
	if err == nil {
		store, err = madeDir(store)
	}
	if err != nil {
		return nil, err
	}
	s.record, s.store, s.tips = seed.Record, store, seed.Tips
	own := append(formatSettings(seed.Record.Format, false), hubSettings()...)
	shallow := map[string]string{}
	if text, ok := seed.Files["shallow"]; ok {
		shallow["shallow"] = text
	}
	// The files are written anew, by which it is seen when the store was used last.
	if err := writeGitDir(store, "", formatConfig(own), shallow); err != nil {
		return nil, fmt.Errorf("create the object store: %w", err)
	}
	if err := writeGitDir(s.hubDir(), filepath.Join(store, "objects"), formatConfig(own), shallow); err != nil {
		return nil, fmt.Errorf("create the job's repository: %w", err)
	}
	for name := range seed.Files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("create the workspace template: %q points outside of it", name)
		}
	}
	if err := writeGitDir(s.templateDir(), filepath.Join(s.hubDir(), "objects"), seed.Config, seed.Files); err != nil {
		return nil, fmt.Errorf("create the workspace template: %w", err)
	}
	return s, nil
}

// Usable reports why there can be no workspaces on this machine: an error without git, or with an old one.
func Usable(ctx context.Context, environ []string) error {
	_, err := newGit(ctx, Config{Environ: environ})
	return err
}

// mostHaves is how many commits are named as known: the newest.
const mostHaves = 32

// Lacks returns which commits a clone has to ask for before attempts can begin at these, and some that it has.
// When it has nothing of the job it asks for the base, and is to be asked again. It is not called at the same
// time as itself or Take.
func (s *Space) Lacks(ctx context.Context, commits []string) (want, have []string, err error) {
	if len(s.haves) == 0 {
		out, err := s.git.bare(s.store).output(ctx, "for-each-ref", "--sort=-committerdate",
			"--format=%(objectname)", "refs/have")
		if err != nil {
			return nil, nil, err
		}
		have = strings.Fields(out)
		if !slices.Contains(have, s.record.Base) {
			return []string{s.record.Base}, check.First(have, mostHaves), nil
		}
		s.haves = []string{s.record.Base}
		if err := s.writeRef(headRef, s.record.Base); err != nil {
			return nil, nil, err
		}
		absent, err := s.hub().absent(ctx, s.tips)
		if err != nil || len(absent) > 0 { // there are new tags
			return []string{s.record.Base}, s.haves, err
		}
	}
	if slices.ContainsFunc(commits, func(name string) bool { return !slices.Contains(s.haves, name) }) {
		want, err = s.hub().absent(ctx, commits)
	}
	return want, s.haves, err
}

// absent returns those of names that a repository does not have, or cannot read.
func (p place) absent(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out, err := p.feed(ctx, without(names, nil), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(out) {
		if name, is := strings.CutSuffix(line, " missing\n"); is {
			all = append(all, name)
		}
	}
	return all, nil
}

// Take takes a pack that was asked for by Lacks, and looks whether it has all of the commits.
func (s *Space) Take(ctx context.Context, want, have []string, pack *os.File) error {
	in := s.hub()
	if slices.Contains(want, s.record.Base) {
		in = s.git.bare(s.store)
		want = append(slices.Clone(want), s.tips...)
		if err := removeLocks(s.store); err != nil {
			return err
		}
	}
	if err := in.unpack(ctx, pack); err != nil {
		return err
	}
	if _, err := in.feed(ctx, without(want, have), "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		return fmt.Errorf("the received part of the repository is incomplete: %w", err)
	}
	s.Knows(want...)
	if err := s.writeRef(headRef, want[0]); err != nil { // or what an agent commits would be fetched into the hub with all that it is built on
		return err
	}
	if in.dir != s.store {
		return nil
	}
	return in.do(ctx, "update-ref", "refs/have/"+s.record.Base, s.record.Base)
}

// Knows notes commits that the clone has, with all that they contain. Of many the newest are kept, and the
// base. It is called as Lacks is.
func (s *Space) Knows(commits ...string) {
	for _, name := range commits {
		if !isObjectName(name) || slices.Contains(s.tips, name) || slices.Contains(s.haves, name) {
			continue
		}
		if s.haves = append(s.haves, name); len(s.haves) > mostHaves {
			s.haves = append(s.haves[:1:1], s.haves[2:]...)
		}
	}
}

// fewObjects is how many objects of a pack become files of their own: many small packs make everything slow.
const fewObjects = 100

// unpack puts the objects of a pack into a repository.
func (p place) unpack(ctx context.Context, pack *os.File, flags ...string) error {
	var header [12]byte
	if _, err := pack.ReadAt(header[:], 0); err != nil {
		return stateErrorf("not a pack: %v", err)
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return err
	}
	args := []string{"index-pack", "--stdin", "--fix-thin"}
	if binary.BigEndian.Uint32(header[8:]) < fewObjects {
		args = []string{"unpack-objects", "-q"}
	}
	p.stdin = pack
	return p.do(ctx, append(args, flags...)...)
}

// Pack writes the objects of commits, with all that they contain, to a file as a pack, without those that
// whoever gets it has. With the base come the tags of Seed, which is called before.
func (s *Space) Pack(ctx context.Context, want, have []string, to *os.File) error {
	for _, name := range slices.Concat(want, have) {
		if !isObjectName(name) {
			return stateErrorf("%q is not a commit name", name)
		}
	}
	if slices.Contains(want, s.record.Base) && s.store == "" {
		want = slices.Concat(want, s.tips)
	}
	absent, err := s.hub().absent(ctx, have)
	if err != nil {
		return err
	}
	have = slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(absent, name) })
	in := s.hub()
	in.stdout = to
	return in.pack(ctx, want, have, "--thin", "--stdout", "--delta-base-offset")
}

// pack makes a pack of the objects of some commits that others do not have.
func (p place) pack(ctx context.Context, want, have []string, args ...string) error {
	_, err := p.feed(ctx, without(want, have), append([]string{"pack-objects", "-q", "--revs"}, args...)...)
	return err
}

// without names the objects of some commits that others do not have, for the input of git.
func without(want, have []string) string {
	var b strings.Builder
	for _, name := range want {
		b.WriteString(name + "\n")
	}
	for _, name := range have {
		b.WriteString("^" + name + "\n")
	}
	return b.String()
}

// Export writes what an attempt has done in a clone to a file as a pack, and forgets it.
func (s *Space) Export(ctx context.Context, a *agent.Attempt, commit string, to *os.File) error {
	if err := s.Pack(ctx, []string{commit}, BeganAt(a), to); err != nil {
		return err
	}
	ref := filepath.Join(s.hubDir(), filepath.FromSlash(itemRef(a.ItemIndex, a.Number)))
	_ = os.Remove(ref)
	_ = os.Remove(filepath.Dir(ref))
	return nil
}

// isObjectName reports whether a text can be the name of an object.
func isObjectName(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && (len(text) == 40 || len(text) == 64)
}

// Import takes what an attempt has done in a clone: the commit that its outcome names, whose objects are in
// pack. As with an attempt that has run here, work whose state cannot be told is a failure of the attempt. An
// error is about git or the disk.
func (s *Space) Import(ctx context.Context, a *agent.Attempt, o *agent.Outcome, pack *os.File) error {
	var c events.Changes
	var err error
	if !isObjectName(o.Commit) {
		err = stateErrorf("its worker sent an invalid commit name %q", o.Commit)
	}
	if err == nil {
		err = s.admit(ctx, pack)
	}
	if err == nil {
		err = s.list(ctx, s.hub(), o.Commit)
	}
	if err == nil {
		c, err = s.accept(ctx, o.Commit, itemRef(a.ItemIndex, a.Number), BeganAt(a)...)
	}
	c.Discarded = o.Discarded
	return s.conclude(a, o, c, err)
}

// RemoveClone deletes the directories of a clone. Agents may have taken permissions away.
func RemoveClone(dir string) error { return removeAll(dir) }

// RepackStores packs those stores in dir that have many packs, but for those in use.
func RepackStores(ctx context.Context, dir string, environ []string, inUse func(name string) bool) error {
	stores, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, store := range stores {
		packs, _ := filepath.Glob(filepath.Join(store, "objects", "pack", "*.pack")) // err says what is wrong with dir
		if len(packs) <= manyPacks || inUse(filepath.Base(store)) {
			continue
		}
		g, err := newGit(ctx, Config{Environ: environ})
		if err != nil {
			return err
		}
		if err := g.bare(store).do(ctx, "repack", "-a", "-d", "-k", "-q"); err != nil {
			return err
		}
	}
	return err
}

// manyPacks is from how many packs on a store is packed anew.
const manyPacks = 20

// ParseSeed reads a Seed that was sent.
func ParseSeed(data []byte) (Seed, error) {
	var seed Seed
	err := json.Unmarshal(data, &seed)
	if err == nil && !isObjectName(seed.Record.Base) {
		err = errors.New("no commit given")
	}
	if err == nil && (len(seed.Store) != 2*sha256.Size || !filepath.IsLocal(seed.Store)) {
		err = errors.New("no object store given")
	}
	for _, tip := range seed.Tips {
		if err == nil && !isObjectName(tip) {
			err = fmt.Errorf("%q is not an object name", tip)
		}
	}
	return seed, err
}
