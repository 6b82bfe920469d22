package natsfleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// errObjectGone is the error about an object that the broker has lost.
var errObjectGone = errors.New("the broker lost it")

// missingFor is how long a member of the fleet waits for an object that the broker does not have: a broker of a cluster
// may not have yet what another one has taken.
const missingFor = 2 * time.Second

// mostFiles is how many bytes the files of a job may have, and those that an item leaves.
const mostFiles = 1 << 30

// fetchFile writes a file that was sent to an empty file, and compares it with what it should be. It waits for a broker
// that is away, or cannot say whether it has the object. One that has the object and not its data is asked three times.
func (h *brokerConn) fetchFile(ctx context.Context, want fleet.File, to *os.File) error {
	if want.Object == "" {
		_, err := to.Write(want.Data)
		return err
	}
	var gone time.Time // since when the broker says that it has no such object
	stalls := 0
	err := persist(ctx, func(ctx context.Context) error {
		if err := to.Truncate(0); err != nil { // of a part that came before
			return err
		}
		if _, err := to.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return h.getFile(ctx, want, to)
	}, func(err error) bool {
		if errors.Is(err, errObjectGone) {
			gone = cmp.Or(gone, time.Now())
			return time.Since(gone) <= missingFor
		}
		if gone = (time.Time{}); errors.Is(err, errStalled) {
			stalls++
		}
		return stalls < 3 && leaderless(err) || !h.nc.IsConnected()
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// infoOf returns what an object is, or nil if the broker does not have it.
func (h *brokerConn) infoOf(ctx context.Context, name string) (o *jetstream.ObjectInfo, err error) {
	store, err := h.js.ObjectStore(ctx, filesStore)
	if err == nil {
		o, err = store.GetInfo(ctx, name)
	}
	return o, check.Unless(err, jetstream.ErrObjectNotFound)
}

// sumOf returns the SHA-256 of an object in hexadecimal, or "" if the broker does not have it.
func (h *brokerConn) sumOf(ctx context.Context, name string) (string, error) {
	info, err := h.infoOf(ctx, name)
	if info == nil {
		return "", err
	}
	sum, err := jetstream.DecodeObjectDigest(info.Digest)
	return hex.EncodeToString(sum), err
}

// errNotSent is the error about an object that is not what its digest says.
var errNotSent = errors.New("the content differs from what was sent")

// errNotRegular is the error about a file that cannot be sent.
var errNotRegular = errors.New("it is not a regular file: links, directories, pipes and devices cannot be sent")

// readFile has use read a file, and returns what the file is. What is wrong with the file is a *fs.PathError.
func readFile(from *os.File, use func(io.Reader) error) (f fleet.File, err error) {
	info, err := from.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "send", Path: from.Name(), Err: errNotRegular}
	}
	if err == nil {
		_, err = from.Seek(0, io.SeekStart)
	}
	if err != nil {
		return f, err
	}
	sum := sha256.New()
	if err = use(io.TeeReader(from, sum)); err == nil {
		f.Size, err = from.Seek(0, io.SeekCurrent)
	}
	if now, e := from.Stat(); err == nil && (e != nil || now.Size() != f.Size || !now.ModTime().Equal(info.ModTime())) {
		err = &fs.PathError{Op: "send", Path: from.Name(), Err: errors.New("the file changed while it was read")}
	}
	f.Run, f.Sum = info.Mode()&0o111 != 0, hex.EncodeToString(sum.Sum(nil))
	return f, err
}

// putFile has the broker keep a file as an object, and returns what was sent. Only a part of it is in memory at a time.
// What was sent in part stays: it is replaced, or removed with what else is of the job. To remove it here would need a
// right that a worker does not have.
func (h *brokerConn) putFile(ctx context.Context, object string, from *os.File) (f fleet.File, err error) {
	err = h.transfer(ctx, func(ctx context.Context, moved io.Writer) (err error) {
		f, err = readFile(from, func(r io.Reader) error {
			store, err := h.js.ObjectStore(ctx, filesStore)
			if err == nil {
				_, err = store.Put(ctx, jetstream.ObjectMeta{Name: object}, io.TeeReader(r, moved))
			}
			return err
		})
		return err
	})
	f.Object = object
	return f, err
}

// getFile writes an object to a file, and compares it with what it should be.
func (h *brokerConn) getFile(ctx context.Context, want fleet.File, to io.Writer) error {
	return h.transfer(ctx, func(ctx context.Context, moved io.Writer) error {
		store, err := h.js.ObjectStore(ctx, filesStore)
		var result jetstream.ObjectResult
		if err == nil {
			result, err = store.Get(ctx, want.Object)
		}
		if isAny(err, jetstream.ErrBucketNotFound, jetstream.ErrObjectNotFound) {
			return errObjectGone
		}
		if err != nil {
			return err
		}
		defer check.Quietly(result.Close)
		sum := sha256.New()
		// The client gives nothing now and then while it waits: that is not written, and nothing has moved.
		size, err := io.Copy(to, io.TeeReader(io.LimitReader(result, want.Size+1), io.MultiWriter(sum, moved)))
		if err != nil {
			return err
		}
		if size != want.Size || hex.EncodeToString(sum.Sum(nil)) != want.Sum {
			return fmt.Errorf("%s: %w", want.Path, errNotSent)
		}
		return nil
	})
}

// impatient is a context whose deadline is always a moment away, without an end at it. The client of NATS has a read of
// an object wait for data until the deadline, and looks only then whether the context has ended. Without a deadline it
// would have all of an object come within 5 s.
type impatient struct{ context.Context }

// lookTime is how long a read may go on after the end of its context.
const lookTime = time.Second

// Deadline implements context.Context.
func (impatient) Deadline() (time.Time, bool) { return time.Now().Add(lookTime), true }

// onWrite is called whenever something is written to it.
type onWrite func()

func (w onWrite) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// remove removes an object, if there is one.
func (h *brokerConn) remove(ctx context.Context, object string) error {
	o, err := h.infoOf(ctx, object)
	if o == nil {
		return err
	}
	return h.erase(ctx, o)
}

// errTooLarge is the error about a pack that is not sent.
var errTooLarge = errors.New("more than 1 GiB")

// keepPack has write write a pack, and the broker keep what is larger than small.
func (h *brokerConn) keepPack(ctx context.Context, dir, object string, small int64, write func(*os.File) error) (*fleet.File, error) {
	f, err := os.CreateTemp(dir, "pack-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer check.Quietly(f.Close)
	if err := write(f); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch size := info.Size(); {
	case size > mostFiles:
		return nil, errTooLarge
	case size <= small:
		data := make([]byte, size)
		_, err := f.ReadAt(data, 0)
		return &fleet.File{Data: data}, err
	}
	file, err := h.putFile(ctx, object, f)
	return &file, err
}

// stallTime is how long nothing may move of an object before it is asked for, or sent, again.
const stallTime = 3 * requestTime

var errStalled = fmt.Errorf("its data does not arrive: %w", nats.ErrTimeout)

// transfer calls do with a context that ends when the connection is lost: what waits for an answer of the broker then
// may wait for ever. It also ends when do has written nothing to moved for stallTime.
func (h *brokerConn) transfer(ctx context.Context, do func(ctx context.Context, moved io.Writer) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stalled := time.AfterFunc(stallTime, func() { end(errStalled) })
	defer stalled.Stop()
	before := h.nc.Stats().Reconnects
	go func() {
		for pause(ctx, 250*time.Millisecond) {
			if !h.nc.IsConnected() || h.nc.Stats().Reconnects != before {
				end(errLostConnection)
			}
		}
	}()
	err := do(impatient{ctx}, onWrite(func() { stalled.Reset(stallTime) }))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// fetchPack writes a pack that was sent to a file, and has use read it.
func (h *brokerConn) fetchPack(ctx context.Context, dir string, p *fleet.File, use func(*os.File) error) error {
	if p.Size > mostFiles {
		return &packError{errTooLarge}
	}
	f, err := os.CreateTemp(dir, "pack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer check.Quietly(f.Close)
	if err = h.fetchFile(ctx, *p, f); err != nil {
		return &packError{err}
	}
	return use(f)
}

// packError is the error about a pack that could not be fetched.
type packError struct{ err error }

func (e *packError) Error() string { return "fetch repository objects: " + e.err.Error() }

func (e *packError) Unwrap() error { return e.err }

// objects returns all objects, also those that were deleted and that the broker still has the names of. A list from
// which objects are removed meanwhile may never be complete: the error is then that of the time that it has.
func (h *brokerConn) objects(ctx context.Context) ([]*jetstream.ObjectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTime)
	defer cancel()
	store, err := h.js.ObjectStore(ctx, filesStore)
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx, jetstream.ListObjectsShowDeleted())
	if ctx.Err() != nil { // it may have some of them only
		return nil, ctx.Err()
	}
	return list, check.Unless(err, jetstream.ErrNoObjectsFound)
}

// erase removes an object, and that there was one: a store that deletes it keeps its name for ever.
func (h *brokerConn) erase(ctx context.Context, o *jetstream.ObjectInfo) error {
	stream, err := h.js.Stream(ctx, filesStream)
	if err != nil {
		return err
	}
	if o.NUID != "" && !strings.ContainsAny(o.NUID, ".*> ") { // else it would be that of others
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(chunks+o.NUID)); err != nil {
			return err
		}
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(metas+base64.URLEncoding.EncodeToString([]byte(o.Name))))
}
