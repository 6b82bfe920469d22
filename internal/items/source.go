package items

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"prodigy/internal/workflow"
)

// errNoFile covers whatever keeps a text from being the name of a file: also one that is too long for a name, as commands can be.
var errNoFile = errors.New("there is no such file")

// source is where the data comes from: a command, a file or a list.
type source struct {
	command string
	file    string // where it is
	name    string // the file as the workflow calls it
	list    []json.RawMessage
}

// resolve finds out what an input means. A file that is missing is an error.
func resolve(in workflow.Input, dir string) (source, error) {
	switch {
	case in.Command != "":
		return source{command: in.Command}, nil
	case in.File != "":
		return fileSource(in.File, dir)
	case in.Text != "":
		s, err := fileSource(in.Text, dir)
		if errors.Is(err, errNoFile) && looksLikeCommand(in.Text) {
			return source{command: in.Text}, nil
		}
		return s, err
	}
	return source{list: in.Items}, nil
}

// looksLikeCommand tells whether a text that is no file has something in it that a shell would act on.
func looksLikeCommand(text string) bool {
	return strings.ContainsAny(text, " \t\r\n|&;<>()$`\"'*?[]{}")
}

func fileSource(name, dir string) (source, error) {
	s := source{name: name, file: name}
	if !filepath.IsAbs(name) {
		s.file = filepath.Join(dir, name)
	}
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

// each calls take with every value that the path selects, until take gives an error.
func (s source) each(ctx context.Context, e Env, p path, take func([]byte) error) error {
	switch {
	case s.command != "":
		return eachOfCommand(ctx, s.command, e, p, take)
	case s.file != "":
		return s.eachOfFile(ctx, p, take)
	case p.empty():
		return eachOfList(s.list, take)
	}
	whole := append([]byte("["), bytes.Join(toBytes(s.list), []byte(","))...)
	f := &feed{r: bytes.NewReader(append(whole, ']'))}
	return inPlace(f.selected(p, take), func(offset int64) string {
		return fmt.Sprintf("input: byte %d", offset)
	})
}

func toBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, raw := range list {
		out[i] = raw
	}
	return out
}

func eachOfList(list []json.RawMessage, take func([]byte) error) error {
	for _, raw := range list {
		if err := take(raw); err != nil {
			return err
		}
	}
	return nil
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
	f.skipMark()
	switch {
	case !p.empty():
		err = f.selected(p, take)
	case s.oneValueALine():
		err = f.values(take, false)
	default:
		err = f.values(take, f.loneArray())
	}
	if ctx.Err() != nil && !errors.Is(err, errEnough) {
		return context.Cause(ctx)
	}
	if f.err != nil && f.err != io.EOF && !errors.Is(err, errEnough) {
		return s.trouble(f.err)
	}
	if err == nil && !f.found && !s.oneValueALine() {
		return fmt.Errorf("input file %s: is empty, not JSON", s.name)
	}
	return inPlace(err, s.place)
}

// readerFunc is a Read method.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// oneValueALine tells whether the name says that each value is an item, whatever it is.
func (s source) oneValueALine() bool {
	ext := strings.ToLower(filepath.Ext(s.name))
	return ext == ".jsonl" || ext == ".ndjson"
}

// place words where in the file a byte is. The file is read again up to there, which is rare enough.
func (s source) place(offset int64) string {
	file, err := os.Open(s.file)
	if err != nil {
		return fmt.Sprintf("%s: byte %d", s.name, offset)
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
			return fmt.Sprintf("%s: line %d, column %d (byte %d)", s.name, line, col, offset)
		}
	}
}
