package natsfleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/gitspace"
	"prodigy/internal/jobs"
	"prodigy/internal/retry"
	"prodigy/internal/reuse"
)

const (
	mostCached   = 4 << 30 // bytes of files that a worker keeps for other jobs
	mostProduced = 10_000  // files that an item leaves
)

// sendFiles has the broker keep the files that commands run beside, each content once, and enters the name of their
// list for workers.
func (c *coordinator) sendFiles(ctx context.Context) error {
	found := reuse.NewDir(c.o.Dir)
	var paths []string
	for _, pattern := range c.o.Files {
		matches, err := found.Glob(pattern)
		if err != nil {
			return fleet.Refusef("files: %w", err)
		}
		if len(matches) == 0 {
			return fleet.Refusef("files: %s matches nothing in %s", pattern, c.o.Dir)
		}
		paths = append(paths, matches...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	root, err := os.OpenRoot(c.o.Dir)
	if err != nil {
		return err
	}
	defer check.Quietly(root.Close)
	var list []fleet.File
	total := int64(0)
	for _, name := range paths {
		if path.Base(name) == filepath.Base(c.members.path) {
			continue
		}
		f, err := c.sendFile(ctx, root, name)
		if err != nil {
			return fmt.Errorf("files: %s: %w", name, err)
		}
		if total += f.Size; total > mostFiles {
			return fleet.Refusef("files: more than 1 GiB: share the working directory instead, or let the " +
				"commands fetch what they need")
		}
		list = append(list, f)
	}
	c.turn(func(s *jobState) { s.entry.Files, s.shared.files = s.shared.add(list), list })
	return nil
}

// sendFile has the broker keep one file, unless it has its content.
func (c *coordinator) sendFile(ctx context.Context, root *os.Root, name string) (f fleet.File, err error) {
	info, err := root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return f, err
	}
	if !info.Mode().IsRegular() {
		return f, fleet.Refusef("%w", errNotRegular)
	}
	from, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return f, err
	}
	defer check.Quietly(from.Close)
	f, err = readFile(from, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if err != nil {
		return f, err
	}
	f.Path, f.Object = name, c.key+"/file-"+f.Sum
	if is, err := c.sumOf(ctx, f.Object); err != nil || is == f.Sum {
		return f, err
	}
	sent, err := c.putFile(ctx, f.Object, from)
	if err == nil && sent.Sum != f.Sum {
		_ = c.remove(ctx, f.Object) // it has another content than its name says
		err = fleet.Refusef("the file changed while it was read")
	}
	return f, err
}

// sendAgain has the broker keep again a file of the job that a worker misses there. Without one that has changed since,
// workers cannot go on: the run is stopped, and a resume sends what there is then.
func (c *coordinator) sendAgain(name string) error {
	var was fleet.File
	c.turn(func(s *jobState) {
		if i := slices.IndexFunc(s.shared.files, func(f fleet.File) bool { return f.Path == name }); i >= 0 {
			was = s.shared.files[i]
		}
	})
	if was.Path == "" {
		return errNotOut
	}
	c.slow.sending.Lock()
	defer c.slow.sending.Unlock()
	root, err := os.OpenRoot(c.o.Dir)
	var is fleet.File
	if err == nil {
		defer check.Quietly(root.Close)
		is, err = c.sendFile(c.life, root, name)
	}
	if err == nil && is.Sum == was.Sum {
		return nil
	}
	if err == nil {
		err = fleet.Refusef("it has changed since the job started: resume the job to send it again")
	}
	_, unreadable := errors.AsType[*fs.PathError](err)
	if err = fmt.Errorf("files: the broker lost %s: %w", name, err); unreadable || errors.Is(err, fleet.ErrRefused) {
		c.stop(err)
	}
	return overError{err} // also when the broker does not keep it now
}

// install writes a file below a directory, whole or not at all. No link leads it out of there.
func install(root *os.Root, f fleet.File, temporary string, write func(*os.File) error) error {
	name := filepath.FromSlash(f.Path)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%s is outside the directory", f.Path)
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o666)
	if f.Run {
		mode = 0o777
	}
	part := filepath.Join(filepath.Dir(name), temporary)
	file, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Close())
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}

// directory returns the directory that attempts of a job run in whose files were sent. It is called with j.asking held.
func (w *worker) directory(ctx context.Context, j *workerJob, list string) (string, error) {
	if dir := j.dirs[list]; dir != "" {
		return dir, nil
	}
	var files []fleet.File
	if err := w.ask(ctx, j, callShared, 0, callArgs{Name: list}, &files); err != nil {
		return "", fmt.Errorf("the file list: %w", err)
	}
	dir := filepath.Join(w.o.Home, "jobs", j.key, fleet.Digest([]byte(list)))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer check.Quietly(root.Close)
	for i, f := range files {
		cached, err := w.cached(ctx, j, f)
		if err == nil {
			err = install(root, f, fmt.Sprintf(".prodigy-%d", i), func(to *os.File) error {
				from, err := os.Open(cached)
				if err == nil {
					_, err = io.Copy(to, from)
					_ = from.Close()
				}
				return err
			})
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	j.dirs[list] = dir
	w.caching.Lock()
	defer w.caching.Unlock()
	return dir, pruneOldest(filepath.Join(w.o.Home, "cache"), mostCached, func(string) bool { return false })
}

// cached returns a file with the content of one that a job has sent, which it fetches if no job has before.
func (w *worker) cached(ctx context.Context, j *workerJob, f fleet.File) (string, error) {
	if _, err := hex.DecodeString(f.Sum); err != nil || len(f.Sum) != 2*sha256.Size {
		return "", fmt.Errorf("%q is not a digest", f.Sum)
	}
	dir := filepath.Join(w.o.Home, "cache")
	name := filepath.Join(dir, f.Sum)
	w.caching.Lock()
	defer w.caching.Unlock()
	if info, err := os.Stat(name); err == nil && info.Size() == f.Size {
		now := time.Now()
		return name, os.Chtimes(name, now, now)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	part, err := os.CreateTemp(dir, "part-")
	if err != nil {
		return "", err
	}
	err = w.fetchFile(ctx, f, part)
	if isAny(err, errObjectGone, errNotSent) {
		asking, cancel := context.WithTimeout(ctx, 30*time.Second) // other jobs wait for the cache
		if w.ask(asking, j, callSendAgain, 0, callArgs{Name: f.Path}, new(callResult)) == nil {
			err = w.fetchFile(ctx, f, part)
		}
		cancel()
	}
	return name, jobs.Finish(part, name, err)
}

// pruneOldest removes the files and directories in dir that were not used for longest, but for those in use, until they
// have at most so many bytes.
func pruneOldest(dir string, most int64, inUse func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return check.Unless(err, fs.ErrNotExist)
	}
	var all []fs.FileInfo
	sizes, total := map[string]int64{}, int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		all = append(all, info)
		_ = filepath.WalkDir(filepath.Join(dir, e.Name()), func(_ string, inside fs.DirEntry, err error) error {
			if err == nil && !inside.IsDir() {
				if info, err := inside.Info(); err == nil {
					sizes[e.Name()] += info.Size()
				}
			}
			return nil
		})
		total += sizes[e.Name()]
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, one := range all {
		if total <= most {
			break
		}
		if inUse(one.Name()) {
			continue
		}
		if err := gitspace.RemoveClone(filepath.Join(dir, one.Name())); err != nil {
			return err
		}
		total -= sizes[one.Name()]
	}
	return nil
}

// collect has the broker keep the files that an attempt has left, as far as there are any, and returns them. What is
// wrong with them is a failure.
func (w *worker) collect(ctx context.Context, x *jobExecutor, h *heldAttempt, a agent.Attempt,
	o *agent.Outcome,
) ([]fleet.File, error) {
	if x.produces == nil || o.Failure != nil {
		return nil, nil
	}
	fail := func(err error) {
		o.Failure = &agent.Failure{Failure: retry.Failure{
			Type:    retry.TypeMissingOutput,
			Message: "produces: " + err.Error(), ExitCode: o.ExitCode, Exact: true,
		}}
	}
	paths, err := produced(x.produces, a.ItemID, a.Item, a.Dir)
	if err != nil {
		return nil, nil //nolint:nilerr // the coordinator finds that too, and says so
	}
	root, err := os.OpenRoot(a.Dir)
	if err != nil {
		return nil, err
	}
	defer check.Quietly(root.Close)
	var names []string
	total := int64(0)
	for _, p := range paths {
		err := fs.WalkDir(root.FS(), p, func(name string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the coordinator misses it
			}
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			names, total = append(names, name), total+info.Size()
			if tooMuch := checkProduced(len(names), total); tooMuch != nil {
				return fmt.Errorf("with %s: %w", p, tooMuch)
			}
			return nil
		})
		if err != nil {
			fail(err)
			return nil, nil
		}
	}
	var list []fleet.File
	for i, name := range names {
		f, err := w.sendMade(ctx, h, root, name, i)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
			fail(fmt.Errorf("%s: %w", name, err))
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// sendMade has the broker keep a file that an attempt has left, one of several.
func (w *worker) sendMade(ctx context.Context, h *heldAttempt, root *os.Root, name string, i int) (f fleet.File,
	err error,
) {
	from, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return f, err
	}
	defer check.Quietly(from.Close)
	// each try with a name of its own: a worker has no right to purge what it has sent
	err = w.untilKept(ctx, func(n int) (err error) {
		f, err = w.putFile(ctx, fmt.Sprintf("%s/made-%d-%s-%d-%d", h.job.key, h.token, w.node.Instance, i, n), from)
		return err
	})
	f.Path = name
	return f, err
}

// checkProduced returns an error if an item may not leave so many files of so many bytes.
func checkProduced(files int, size int64) error {
	if files > mostProduced {
		return fmt.Errorf("more than %d files", mostProduced)
	}
	if size > mostFiles {
		return errTooLarge
	}
	return nil
}

// untilKept calls keep, with the number of the try, until the broker has taken what it sends, however long it is away,
// full, or without its disk. A worker that is to end tries a few times.
func (w *worker) untilKept(ctx context.Context, keep func(n int) error) error {
	n := -1
	return persist(ctx, func(context.Context) error {
		n++
		err := keep(n)
		if err == nil || notKept(err) {
			w.noteKept(err)
		}
		return err
	}, func(err error) bool {
		stopping := false
		w.turn(func(s *workerState) { stopping = s.stopping })
		return !w.nc.IsConnected() || (notKept(err) || isMissing(err)) && (!stopping || n < triesAtEnd)
	})
}

// triesAtEnd is how often a worker that is to end offers something to a broker that does not take it.
const triesAtEnd = 8

// produced returns the paths of what an item leaves, with slashes, below the directory.
func produced(paths func(string, json.RawMessage) ([]string, error), id string, item json.RawMessage, dir string) ([]string, error) {
	all, err := paths(id, item)
	if err != nil {
		return nil, err
	}
	files := reuse.NewDir(dir)
	for i, p := range all {
		if all[i], err = files.Local(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// fetchMade writes what an attempt on a worker has left into the directory of the run. It is accepted only while the
// attempt is out.
func (c *coordinator) fetchMade(f *flight, files []fleet.File) error {
	allowed, err := produced(c.produces, f.ItemID, f.Item, c.o.Dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(c.o.Dir)
	if err != nil {
		return err
	}
	defer check.Quietly(root.Close)
	total := int64(0)
	for _, file := range files {
		total += int64(min(uint64(file.Size), mostFiles+1)) // which may be any number
	}
	if err := checkProduced(len(files), total); err != nil {
		return &agent.LostError{Reason: "its worker sent too much data: " + err.Error()}
	}
	for i, file := range files {
		name := path.Clean(file.Path)
		if !filepath.IsLocal(filepath.FromSlash(file.Path)) || !slices.ContainsFunc(allowed, func(p string) bool {
			return name == p || p == "." || strings.HasPrefix(name, p+"/")
		}) {
			return &agent.LostError{Reason: "its worker sent " + strconv.Quote(file.Path) + ", which it does not " +
				"produce"}
		}
		part := fmt.Sprintf(".prodigy-%d-%d", f.Token, i)
		_ = root.Remove(path.Join(path.Dir(file.Path), part)) // of a run that was killed
		err := install(root, file, part, func(to *os.File) error {
			err := c.fetchFile(c.life, file, to)
			out := false
			c.turn(func(s *jobState) { out = s.flights[f.Token] == f })
			if !out {
				return &agent.LostError{Reason: "the attempt was abandoned in the meantime"}
			}
			if err != nil {
				reason := "its files could not be fetched: " + inWords(err).Error()
				return &agent.LostError{Reason: reason, Unbegun: true}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
