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
	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/process"
)

func checkGlob(pattern string) error {
	if !doublestar.ValidatePattern(filepath.ToSlash(pattern)) {
		return fmt.Errorf("glob %s: is not a pattern: a bracket or brace is not closed, or a backslash stands last",
			pattern)
	}
	return nil
}

// eachOfGlob emits the names of the matching files in the order of their bytes. With a format it emits the
// content of the files instead, one file after the other.
func (s source) eachOfGlob(ctx context.Context, e Env, p path, emit func([]byte) error) error {
	found := &sorter{dir: e.Temp}
	defer found.close()
	if err := s.walk(ctx, e.Dir, found); err != nil {
		return err
	}
	last := ""
	name := p.evaluator(emit)
	var quoted []byte
	return found.each(func(key, _ []byte) error {
		if string(key) == last { // it matches several alternatives of the pattern
			return nil
		}
		last = string(key)
		if s.format != "" {
			file := source{name: last, file: process.Resolve(e.Dir, last), format: s.format, delimiter: s.delimiter}
			return file.eachOfFile(ctx, p, emit)
		}
		quoted, _ = jsontext.AppendQuote(quoted[:0], last) // walk checked that it is UTF-8
		return name(quoted)
	})
}

// walk adds the names of the matching files to found. Links to directories are not followed below the fixed
// beginning of the pattern. As in a shell, a name that begins with a dot only matches a pattern that spells
// the dot.
func (s source) walk(ctx context.Context, dir string, found *sorter) error {
	base, pattern := doublestar.SplitPattern(slashed.Clean(filepath.ToSlash(s.glob)))
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
			return fmt.Errorf("the name of the file %q is not UTF-8", name)
		}
		return found.add([]byte(name), nil)
	}, doublestar.WithNoFollow(), doublestar.WithNoHidden(), doublestar.WithFailOnIOErrors())
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("glob %s: %w", s.glob, withoutRoot(err))
	}
	return err
}

func isLinkToDir(entry fs.DirEntry, path string) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || info.IsDir() // a broken link is not a file either
}

// withoutRoot returns a file system error without the name of the call.
func withoutRoot(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(pathError.Path, "./"), pathError.Err)
	}
	return err
}
