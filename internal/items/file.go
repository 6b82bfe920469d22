package items

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"prodigy/internal/process"
)

// errNoFile covers whatever keeps a text from being the name of a file: also one that is too long for a name, as commands can be.
var errNoFile = errors.New("there is no such file")

func fileSource(name, dir string) (source, error) {
	s := source{name: name, file: process.Resolve(dir, name)}
	info, err := os.Stat(s.file)
	if errors.Is(err, fs.ErrPermission) {
		return source{}, s.trouble(err)
	}
	if err != nil {
		return source{}, fmt.Errorf("input file %s: %w", name, errNoFile)
	}
	if info.IsDir() {
		return source{}, fmt.Errorf("input file %s: is a directory", name)
	}
	return s, nil
}

// trouble words an error of the file system, with the name that the user gave.
func (s source) trouble(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return fmt.Errorf("input file %s: %w", s.name, err)
}

func (s source) eachOfFile(ctx context.Context, p path, take func([]byte) error) error {
	file, err := os.Open(s.file)
	if err != nil {
		return s.trouble(err)
	}
	defer func() { _ = file.Close() }()

	f := &feed{r: readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return file.Read(b)
	})}
	err = f.read(s.format, p, take)
	if ctx.Err() != nil && !errors.Is(err, errEnough) {
		return context.Cause(ctx)
	}
	if f.err != nil && f.err != io.EOF && !errors.Is(err, errEnough) {
		return s.trouble(f.err)
	}
	if err == nil && !f.found && s.format == "json" {
		return fmt.Errorf("input file %s: is empty, not JSON", s.name)
	}
	return inPlace(err, s.name, s.place)
}

// readerFunc is a Read method.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// place words where in the file a byte is. The file is read again up to there, which is rare enough.
func (s source) place(offset int64) string {
	file, err := os.Open(s.file)
	if err != nil {
		return fmt.Sprintf("byte %d", offset)
	}
	defer func() { _ = file.Close() }()
	line, col := 1, 1
	buf := make([]byte, 64<<10)
	in := io.LimitReader(file, offset)
	for {
		n, err := in.Read(buf)
		line += bytes.Count(buf[:n], []byte("\n"))
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			col = n - i
		} else {
			col += n
		}
		if err != nil {
			return fmt.Sprintf("line %d, column %d (byte %d)", line, col, offset)
		}
	}
}
