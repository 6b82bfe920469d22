package natsfleet

import (
	"cmp"
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

	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/fingerprint"
	"prodigy/internal/fleet"
	"prodigy/internal/retry"
)

const (
	mostFiles    = 1 << 30 // bytes of the files of a job
	mostCached   = 4 << 30 // bytes of files that a worker keeps for other jobs
	mostProduced = 10_000  // files that an item leaves
	readings     = 3       // of a file that changes while it is read
)

// errNotSent is the error about an object that is not what its digest says.
var errNotSent = errors.New("it is not what was sent")

// errChanges is the error about a file that changes each time it is read.
var errChanges = errors.New("it changes while it is read")

// sendFiles has the broker keep the files that commands run beside, each content once, and returns the name of the object with their list.
func (c *crew) sendFiles(ctx context.Context) (string, error) {
	found := fingerprint.NewFiles(c.o.Dir)
	var paths []string
	for _, pattern := range c.o.Files {
		matches, err := found.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("%w: files: %w", fleet.ErrRefused, err)
		}
		if len(matches) == 0 {
			return "", fmt.Errorf("%w: files: %s matches nothing in %s", fleet.ErrRefused, pattern, c.o.Dir)
		}
		paths = append(paths, matches...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	root, err := os.OpenRoot(c.o.Dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	list, total := make([]fleet.File, 0, len(paths)), int64(0)
	for _, name := range paths {
		if path.Base(name) == filepath.Base(c.probe) {
			continue
		}
		f, err := c.sendFile(ctx, root, name)
		if err != nil {
			return "", fmt.Errorf("files: %s: %w", name, err)
		}
		if total += f.Size; total > mostFiles {
			return "", fmt.Errorf("%w: files: more than 1 GiB: share the directory of the run instead, or have the commands fetch what they need", fleet.ErrRefused)
		}
		list = append(list, f)
	}
	data := encoded(list)
	name := c.key + "/files-" + digest(data)
	c.mu.Lock()
	c.objects[name], c.files = data, list
	c.mu.Unlock()
	return name, c.restoring(ctx, func(ctx context.Context) error { return c.put(ctx, name, data) })
}

// sendFile has the broker keep one file, unless it has its content.
func (c *crew) sendFile(ctx context.Context, root *os.Root, name string) (fleet.File, error) {
	info, err := root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return fleet.File{}, err
	}
	if !info.Mode().IsRegular() {
		return fleet.File{}, fmt.Errorf("%w: it is no regular file: %s", fleet.ErrRefused, info.Mode().Type())
	}
	for range readings {
		f, err := readFile(root, name, io.Discard)
		if err != nil {
			return fleet.File{}, err
		}
		object := c.key + "/file-" + f.Sum
		if has, err := c.hasFile(ctx, object, f.Sum); err != nil || has {
			return f, err
		}
		sent, err := c.putFile(ctx, object, root, name)
		if err != nil || sent.Sum == f.Sum {
			return f, err
		}
		if err := c.remove(ctx, object); err != nil { // it has another content than its name says
			return fleet.File{}, err
		}
	}
	return fleet.File{}, errChanges
}

// resendFiles has the broker keep again what it has lost of the files of the job. Those that have changed since cannot be sent.
func (c *crew) resendFiles(ctx context.Context) {
	c.mu.Lock()
	list := c.files
	c.mu.Unlock()
	if len(list) == 0 {
		return
	}
	root, err := os.OpenRoot(c.o.Dir)
	if err != nil {
		c.tell("files cannot be sent to the broker again: %v", err)
		return
	}
	defer func() { _ = root.Close() }()
	for _, was := range list {
		if has, err := c.hasFile(ctx, c.key+"/file-"+was.Sum, was.Sum); err != nil || has {
			continue
		}
		if is, err := c.sendFile(ctx, root, was.Path); err != nil {
			c.tell("%s cannot be sent to the broker again: %v", was.Path, err)
		} else if is.Sum != was.Sum {
			c.tell("%s has changed since the job began: workers that do not have it cannot go on; resume the job to send it anew", was.Path)
		}
	}
}

// readFile copies a file, and returns what it is. It reports errChanges if it changes meanwhile.
func readFile(root *os.Root, name string, to io.Writer) (fleet.File, error) {
	file, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return fleet.File{}, err
	}
	defer func() { _ = file.Close() }() // only read from
	before, err := file.Stat()
	if err != nil {
		return fleet.File{}, err
	}
	if !before.Mode().IsRegular() {
		return fleet.File{}, fmt.Errorf("it is no regular file: %s", before.Mode().Type())
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(sum, to), file)
	if err != nil {
		return fleet.File{}, err
	}
	after, err := file.Stat()
	if err != nil {
		return fleet.File{}, err
	}
	if size != before.Size() || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return fleet.File{}, errChanges
	}
	return fleet.File{Path: name, Size: size, Run: before.Mode()&0o111 != 0, Sum: hex.EncodeToString(sum.Sum(nil))}, nil
}

// hasFile reports whether an object is kept and is a file whose SHA-256 in hexadecimal is sum.
func (h *hub) hasFile(ctx context.Context, object, sum string) (bool, error) {
	store, err := h.js.ObjectStore(ctx, filesStore)
	if err != nil {
		return false, err
	}
	info, err := store.GetInfo(ctx, object)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	is, err := jetstream.DecodeObjectDigest(info.Digest)
	return err == nil && hex.EncodeToString(is) == sum, err
}

// putFile has the broker keep a file as an object, and returns what was sent. Only a part of it is in memory at a time.
func (h *hub) putFile(ctx context.Context, object string, root *os.Root, name string) (fleet.File, error) {
	return h.putRead(ctx, object, func(to io.Writer) (fleet.File, error) { return readFile(root, name, to) })
}

// putRead has the broker keep what read writes as an object. When read fails, the broker keeps the part that was written: it is replaced, or removed with
// what else is of the job. To remove it here would need a right that a worker does not have.
func (h *hub) putRead(ctx context.Context, object string, read func(to io.Writer) (fleet.File, error)) (fleet.File, error) {
	store, err := h.js.ObjectStore(ctx, filesStore)
	if err != nil {
		return fleet.File{}, err
	}
	from, to := io.Pipe()
	var f fleet.File
	var unread error
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, unread = read(to)
		_ = to.Close()
	}()
	_, err = store.Put(ctx, jetstream.ObjectMeta{Name: object}, from)
	_ = from.CloseWithError(errors.New("it was not sent"))
	<-done
	if errors.Is(unread, errChanges) {
		return f, unread
	}
	return f, cmp.Or(err, unread)
}

// getFile writes an object to a file, and compares it with what it should be.
func (h *hub) getFile(ctx context.Context, object string, want fleet.File, to io.Writer) error {
	store, err := h.js.ObjectStore(ctx, filesStore)
	if err != nil {
		return err
	}
	result, err := store.Get(ctx, object)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return errObjectGone
	}
	if err != nil {
		return err
	}
	defer func() { _ = result.Close() }()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(sum, to), io.LimitReader(result, want.Size+1))
	if err != nil {
		return err
	}
	if size != want.Size || hex.EncodeToString(sum.Sum(nil)) != want.Sum {
		return fmt.Errorf("%s: %w", want.Path, errNotSent)
	}
	return nil
}

// remove removes an object, if there is one.
func (h *hub) remove(ctx context.Context, object string) error {
	store, err := h.js.ObjectStore(ctx, filesStore)
	if err != nil {
		return err
	}
	o, err := store.GetInfo(ctx, object)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.erase(ctx, o)
}

// install writes a file below a directory, whole or not at all. No link leads it out of there.
func install(root *os.Root, f fleet.File, temporary string, write func(io.Writer) error) error {
	name := filepath.FromSlash(f.Path)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%s leads out of the directory", f.Path)
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
	data, err := w.fetch(ctx, list)
	if err != nil {
		return "", err
	}
	var files []fleet.File
	if err := json.Unmarshal(data, &files); err != nil {
		return "", fmt.Errorf("the list of the files: %w", err)
	}
	dir := filepath.Join(w.o.Home, "jobs", j.key, digest([]byte(list)))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	for i, f := range files {
		cached, err := w.cached(ctx, j.key+"/file-"+f.Sum, f)
		if err == nil {
			err = install(root, f, fmt.Sprintf(".prodigy-%d", i), func(to io.Writer) error {
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
	return dir, w.prune()
}

// cached returns a file with the content of an object, which it fetches if no job has before.
func (w *worker) cached(ctx context.Context, object string, f fleet.File) (string, error) {
	if _, err := hex.DecodeString(f.Sum); err != nil || len(f.Sum) != 2*sha256.Size {
		return "", fmt.Errorf("%q is no digest", f.Sum)
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
	err = errors.Join(w.getFile(ctx, object, f, part), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), name)
	}
	if err != nil {
		_ = os.Remove(part.Name())
	}
	return name, err
}

// prune removes the files from the cache that were not used for longest, until there is not too much.
func (w *worker) prune() error {
	w.caching.Lock()
	defer w.caching.Unlock()
	dir := filepath.Join(w.o.Home, "cache")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	total := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if total <= mostCached {
			break
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
		total -= f.Size()
	}
	return nil
}

// collect has the broker keep the files that an attempt has left, as far as there are any, and returns them. What is wrong with them is a failure.
func (w *worker) collect(ctx context.Context, x *jobExecutor, h *holding, a agent.Attempt, o *agent.Outcome) ([]fleet.File, error) {
	if w.entry(h.job).Files == "" || x.produces == nil || o.Failure != nil {
		return nil, nil
	}
	fail := func(err error) {
		o.Failure = &agent.Failure{Failure: retry.Failure{Type: retry.TypeMissingOutput, Message: "produces: " + err.Error(), ExitCode: o.ExitCode, Exact: true}}
	}
	paths, err := produced(x.produces, a.ItemID, a.Item, a.Dir)
	if err != nil {
		return nil, nil //nolint:nilerr // the coordinator finds that too, and says so
	}
	root, err := os.OpenRoot(a.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	var names []string
	for _, p := range paths {
		err := fs.WalkDir(root.FS(), p, func(name string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the coordinator misses it
			}
			if err == nil && !e.IsDir() {
				names = append(names, name)
			}
			if len(names) > mostProduced {
				return fmt.Errorf("%s has more than %d files", p, mostProduced)
			}
			return err
		})
		if err != nil {
			fail(err)
			return nil, nil
		}
	}
	var list []fleet.File
	for i, name := range names {
		var object string
		var f fleet.File
		err := errChanges
		for n := 0; n < readings && errors.Is(err, errChanges); n++ { // each with a name of its own: a worker may remove nothing
			object = fmt.Sprintf("%s/made-%d-%s-%d-%d", h.job.key, h.token, w.node.Instance, i, n)
			f, err = w.putFile(ctx, object, root, name)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil && !w.nc.IsConnected() {
			return nil, err
		}
		if err != nil {
			fail(fmt.Errorf("%s: %w", name, err))
			return nil, nil
		}
		f.Object = object
		list = append(list, f)
	}
	return list, nil
}

// produced returns the paths of what an item leaves, with slashes, below the directory.
func produced(paths func(string, json.RawMessage) ([]string, error), id string, item json.RawMessage, dir string) ([]string, error) {
	all, err := paths(id, item)
	if err != nil {
		return nil, err
	}
	files := fingerprint.NewFiles(dir)
	for i, p := range all {
		if all[i], err = files.Local(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// fetchMade writes what an attempt on a worker has left into the directory of the run. It is accepted only while the attempt is out.
func (c *crew) fetchMade(f *flight, files []fleet.File) error {
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	allowed, err := produced(c.produces, f.attempt.ItemID, f.attempt.Item, c.o.Dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(c.o.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for i, file := range files {
		if !filepath.IsLocal(filepath.FromSlash(file.Path)) || !slices.ContainsFunc(allowed, func(p string) bool { return isBelow(file.Path, p) }) {
			return &agent.LostError{Reason: "its worker sent " + strconv.Quote(file.Path) + ", which it does not produce"}
		}
		part := fmt.Sprintf(".prodigy-%d-%d", f.attempt.Token, i)
		_ = root.Remove(path.Join(path.Dir(file.Path), part)) // of a run that was killed
		err := install(root, file, part, func(to io.Writer) error {
			if err := c.getFile(ctx, file.Object, file, to); err != nil {
				return &agent.LostError{Reason: "what it produced could not be fetched: " + err.Error(), Unbegun: true}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.flights[f.attempt.Token] != f {
				return &agent.LostError{Reason: "it was given up meanwhile"}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isBelow reports whether a path is another one, or in it.
func isBelow(name, of string) bool {
	name = path.Clean(name)
	return name == of || of == "." || strings.HasPrefix(name, of+"/")
}
