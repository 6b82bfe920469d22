package gitspace

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// entry is a file in an index of git, with what git compares to see whether the file has changed since.
type entry struct {
	name               string
	ctime, mtime       stamp
	ino, mode          uint32
	uid, gid, size     uint32
	skipped, plainFlag bool // it is not to be in the checkout; it is merged, and no flag hides its changes
}

// stamp is a time of the file system as an index has it.
type stamp struct{ sec, nsec uint32 }

func (s stamp) before(o stamp) bool { return s.sec < o.sec || s.sec == o.sec && s.nsec < o.nsec }

// parseIndex parses an index file. It reports false for one that is damaged, or has something that is not
// understood here: the caller asks git then. https://git-scm.com/docs/index-format
func parseIndex(data []byte, hash int) (entries []entry, ok bool) {
	const head, fixed = 12, 40
	if len(data) < head+hash || !bytes.HasPrefix(data, []byte("DIRC")) {
		return nil, false
	}
	be := binary.BigEndian
	version, n := be.Uint32(data[4:]), int(be.Uint32(data[8:]))
	if version != 2 && version != 3 || n > len(data)/fixed {
		return nil, false
	}
	end := len(data) - hash
	entries = make([]entry, 0, n)
	at := head
	for range n {
		begin := at
		if at+fixed+hash+2 > end {
			return nil, false
		}
		f := func(i int) uint32 { return be.Uint32(data[begin+4*i:]) }
		e := entry{
			ctime: stamp{f(0), f(1)}, mtime: stamp{f(2), f(3)}, ino: f(5), mode: f(6), uid: f(7), gid: f(8),
			size: f(9),
		}
		at += fixed + hash
		flags := be.Uint16(data[at:])
		at += 2
		e.plainFlag = flags&0xb000 == 0 // assume-valid and the stage
		if flags&0x4000 != 0 {
			if at+2 > end {
				return nil, false
			}
			more := be.Uint16(data[at:])
			at += 2
			e.skipped = more&0x4000 != 0
			e.plainFlag = e.plainFlag && more == 0
		}
		length := bytes.IndexByte(data[at:end], 0)
		if length <= 0 {
			return nil, false
		}
		e.name = string(data[at : at+length])
		at = begin + (at+length-begin+8)/8*8
		entries = append(entries, e)
	}
	for at < end { // what is written in small letters changes the meaning of the entries
		if at+8 > end || data[at] < 'A' || data[at] > 'Z' {
			return nil, false
		}
		at += 8 + int(be.Uint32(data[at+4:]))
	}
	return entries, at == end
}

// readIndex reads the entries of an index.
func (s *Space) readIndex(file string) ([]entry, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	hash := 20
	if s.record.Format == "sha256" {
		hash = 32
	}
	return parseIndex(data, hash)
}

// differences are what an attempt has left in a workspace, compared with its seal.
type differences struct {
	extra   []string // paths that the seal does not have, from the top of the workspace
	changed []string // files that are missing or may have changed
}

// isSimple reports whether the differences can be undone without git's looking at all files: not those that
// decide how others are checked out.
func (d differences) isSimple(of int) bool {
	for _, name := range d.changed {
		if strings.HasSuffix(name, ".gitattributes") {
			return false
		}
	}
	return len(d.changed) <= max(100, of/10)
}

// compare compares the files of a workspace with its seal, and sees to it that the directories have the
// permissions of new ones. It reports false when only git can tell.
func (s *Space) compare(w workspace, seal string) (d differences, ok bool) {
	entries, ok := s.readIndex(seal)
	info, err := os.Lstat(seal)
	if !ok || err != nil {
		return d, false
	}
	sealed := changeTime(info)
	if sealed == (stamp{}) {
		return d, false
	}
	files, dirs := make(map[string]*entry, len(entries)), map[string]bool{"": true}
	for i := range entries {
		e := &entries[i]
		if !e.plainFlag && !e.skipped || e.mode>>12 == 0o16 { // a submodule
			return d, false
		}
		if e.skipped {
			continue
		}
		files[e.name] = e
		for dir := filepath.Dir(e.name); dir != "." && !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	c := comparison{s: s, root: w.dir, sealed: sealed, files: files, dirs: dirs, diff: &d}
	if err := c.walk(""); err != nil {
		return d, false
	}
	for name, e := range files { // what is left was not found
		if e != nil {
			d.changed = append(d.changed, name)
		}
	}
	return d, d.isSimple(len(entries))
}

// comparison is a walk through a workspace.
type comparison struct {
	s      *Space
	root   string
	sealed stamp // when the seal was made: what has changed since is newer
	files  map[string]*entry
	dirs   map[string]bool
	diff   *differences
}

func (c *comparison) walk(dir string) error {
	path := filepath.Join(c.root, dir)
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if want := 0o777 &^ c.s.umask; info.Mode().Perm() != want {
		if err := os.Chmod(path, want); err != nil {
			return err
		}
	}
	return readDir(path, func(name string, kind fs.FileMode, look func() (fileStat, error)) error {
		full := name
		if dir != "" {
			full = dir + "/" + name
		}
		e := c.files[full]
		switch {
		case full == ".git":
			return nil
		case kind.IsDir() && c.dirs[full]:
			return c.walk(full)
		case e == nil || kind.IsDir():
			if !c.s.keeps(full) {
				c.diff.extra = append(c.diff.extra, full)
			}
			return nil
		}
		st, err := look()
		if err != nil {
			return err
		}
		// What changed in the instant of the seal may have changed after it.
		if !st.is(e) || !e.ctime.before(c.sealed) || !e.mtime.before(c.sealed) {
			c.diff.changed = append(c.diff.changed, full)
		}
		c.files[full] = nil
		return nil
	})
}

// fileStat is what an index has of a file.
type fileStat struct {
	ctime, mtime              stamp
	ino, mode, uid, gid, size uint32
}

// is reports whether the file is as it was when the entry was written.
func (f fileStat) is(e *entry) bool {
	const kind, regular, executable = 0o170000, 0o100000, 0o100
	if f.mode&kind == regular && f.mode&executable != e.mode&executable {
		return false
	}
	return f.mode&kind == e.mode&kind && f.ctime == e.ctime && f.mtime == e.mtime && f.ino == e.ino &&
		f.uid == e.uid && f.gid == e.gid && f.size == e.size
}
