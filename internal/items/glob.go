package items

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	slashed "path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"prodigy/internal/process"
)

// addMatches adds the names of the files that match a pattern to found. Links to directories are not followed
// below the fixed beginning of the pattern. As in a shell, a name that begins with a dot only matches a pattern
// that spells the dot.
func addMatches(ctx context.Context, glob, dir string, found *sorter) error {
	base, pattern := doublestar.SplitPattern(slashed.Clean(filepath.ToSlash(glob)))
	root := process.Resolve(dir, filepath.FromSlash(base))
	err := doublestar.GlobWalk(os.DirFS(root), pattern, func(name string, entry fs.DirEntry) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if entry.IsDir() || isLinkToDir(entry, filepath.Join(root, name)) {
			return nil
		}
		name = slashed.Join(base, name)
		if !utf8.ValidString(name) {
			return fmt.Errorf("file name %q is not valid UTF-8", name)
		}
		return found.add([]byte(name), nil)
	}, doublestar.WithNoFollow(), doublestar.WithNoHidden(), doublestar.WithFailOnIOErrors())
	if err == nil || ctx.Err() != nil {
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok { // without the name of the call
		err = fmt.Errorf("%s: %w", strings.TrimPrefix(at.Path, "./"), at.Err)
	}
	return fmt.Errorf("glob %s: %w", glob, err)
}

// isLinkToDir reports whether an entry is a link to a directory, or a broken one, which is not a file either.
func isLinkToDir(entry fs.DirEntry, path string) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || info.IsDir()
}
