package items

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/check"
	"prodigy/internal/process"
	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// source is a resolved input: exactly one of command, file, glob, stdin, job, list and parts is set.
// An empty list has none of them set.
type source struct {
	command string

	// file is the path of a file, and name what the workflow calls it.
	file string
	name string

	glob  string
	stdin bool
	job   bool
	list  []json.RawMessage

	// parts are several files or patterns, one after the other.
	parts []source

	// format is a key of readers. Empty means that the format is sniffed.
	format string

	dialect
}

// ErrLater is wrapped by an error of Fill for values that are only known to a run.
var ErrLater = errors.New("the value is not known yet")

// resolve returns the source that an input stands for. A missing file is an error, as is a placeholder without a value.
func resolve(in workflow.Input, e Env) (source, error) {
	s, err := locate(in, e)
	s.read(in)
	return s, err
}

// read sets how the data of a source is read.
func (s *source) read(in workflow.Input) {
	s.format, s.delimiter = cmp.Or(in.Format, workflow.FormatOfFile(s.name)), in.Delimiter
	if in.Split != "" {
		s.split = regexp.MustCompile(in.Split)
	}
	for i := range s.parts {
		s.parts[i].read(in)
	}
}

// locate returns the source of an input without its format.
func locate(in workflow.Input, e Env) (source, error) {
	switch {
	case in.Command != "":
		return source{command: in.Command}, nil
	case in.File != nil:
		return several(in.File, e.filledFile)
	case in.Glob != nil:
		return several(in.Glob, e.filledGlob)
	case in.Stdin:
		return source{stdin: true}, nil
	case in.Job != "":
		return source{job: true}, nil
	case in.Text != "":
		return e.named(in.Text)
	}
	return source{list: in.Items}, nil
}

// several returns the source of one name, or one whose parts are those of several.
func several(names []string, find func(string) (source, error)) (source, error) {
	if len(names) == 1 {
		return find(names[0])
	}
	var all source
	for _, name := range names {
		s, err := find(name)
		if err != nil {
			return source{}, err
		}
		all.parts = append(all.parts, s)
	}
	return all, nil
}

// named returns the source of an input without a key: a file if there is one, else what the text looks like. The
// value of a placeholder is never a command.
func (e Env) named(text string) (source, error) {
	s, err := fileSource(text, e.Dir)
	if !errors.Is(err, errNoFile) {
		return s, err
	}
	// The shape is that of the text as written: a value with a blank in it makes no command of a file name.
	written := withoutPlaceholders(text)
	switch {
	case strings.ContainsAny(written, "*?[]{}") && !strings.ContainsAny(written, " \t\r\n"): // one word with wildcards
		return e.filledGlob(text)
	case looksLikeCommand(written):
		return source{command: text}, nil
	case written != text:
		return e.filledFile(text)
	case e.isProgram(text):
		return source{command: text}, nil
	}
	return s, &NoFileError{Name: text, Bare: !strings.ContainsAny(text, "./")}
}

// isProgram reports whether a word is the name of a program in the PATH that input commands have.
func (e Env) isProgram(word string) bool {
	path, ok := process.Variable(e.Environ, "PATH")
	if !ok {
		path = os.Getenv("PATH")
	}
	return !strings.ContainsRune(word, '/') && slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool {
		_, err := exec.LookPath(filepath.Join(cmp.Or(dir, "."), word))
		return err == nil
	})
}

// placeholder matches a placeholder or a variable in a text.
var placeholder = check.Regexp(`\$\{[^{}\s]*\}|\$[A-Za-z_][A-Za-z0-9_]*`)

func withoutPlaceholders(text string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	return placeholder().ReplaceAllString(text, "")
}

func (e Env) filledGlob(text string) (source, error) {
	pattern, err := e.fill(text)
	if err == nil && !doublestar.ValidatePattern(filepath.ToSlash(pattern)) {
		err = fmt.Errorf("glob %s: invalid pattern: a bracket or brace is not closed, or it ends with a backslash",
			pattern)
	}
	return source{glob: pattern}, err
}

func (e Env) filledFile(text string) (source, error) {
	name, err := e.fill(text)
	if err != nil {
		return source{}, err
	}
	return fileSource(name, e.Dir)
}

func (e Env) fill(text string) (string, error) {
	if e.Fill == nil {
		return text, nil
	}
	filled, err := e.Fill(text)
	if err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	return filled, nil
}

// looksLikeCommand reports whether a text has a character that a shell would act on.
func looksLikeCommand(text string) bool {
	return strings.ContainsAny(text, " \t\r\n|&;<>()$`\"'*?[]{}")
}

// each calls emit with every value that the path selects, until emit returns an error.
func (s source) each(ctx context.Context, e Env, p path, emit func([]byte) error) error {
	for _, part := range s.parts {
		if err := part.each(ctx, e, p, emit); err != nil {
			return err
		}
	}
	switch {
	case s.parts != nil:
		return nil
	case s.command != "":
		// The values are selected in the output of the command while it runs.
		return withOutput(ctx, s.command, e, func(out io.Reader) error { return s.data(ctx, out, p, emit) })
	case s.file != "":
		return s.eachOfFile(ctx, p, emit)
	case s.glob != "":
		return s.eachOfGlob(ctx, e, p, emit)
	case s.stdin:
		return s.eachOfStdin(ctx, e, p, emit)
	case s.job:
		emit = p.evaluator(emit)
		return e.Results(func(itemID string, result []byte) error {
			*e.origin = itemID
			return emit(result)
		})
	case !p.empty():
		// A path is evaluated on the whole list, as if it stood in a file: $[*].name.
		f := &peekReader{r: bytes.NewReader(rawjson.Of(s.list))}
		return inPlace(f.each(p, p, emit), "input", nil)
	}
	for _, raw := range s.list {
		if err := emit(raw); err != nil {
			return err
		}
	}
	return nil
}

// Stdin is the name of the standard input in messages.
const Stdin = "standard input"

// Source describes the source of an input that was checked, and names its kind with the key of an input; "" is a
// list. free reports whether its items can be found without running a command.
func Source(in workflow.Input, e Env) (words, kind string, free bool) {
	s, err := resolve(in, e)
	if err != nil {
		return cmp.Or(strings.Join(slices.Concat(in.File, in.Glob), ", "), in.Text), "file", !errors.Is(err, ErrLater)
	}
	words, kind = s.described()
	if s.job {
		return in.Job, kind, e.Results != nil
	}
	return words, kind, s.command == ""
}

// described names the source for people, and its kind.
func (s source) described() (words, kind string) {
	switch {
	case s.command != "":
		return s.command, "command"
	case s.stdin:
		return Stdin, "stdin"
	case s.job:
		return "the results", "job"
	case s.glob != "":
		return s.glob, "glob"
	case s.file != "":
		return s.name, "file"
	case s.parts != nil:
		var all []string
		for _, part := range s.parts {
			words, kind = part.described()
			all = append(all, words)
		}
		return strings.Join(all, ", "), kind
	}
	return "the workflow", ""
}

// errNoFile means that a text is not the name of a file, for any reason: a command can also be too long for a name.
var errNoFile = errors.New("file not found")

// NoFileError means that an input has to be a file, and that there is none of that name.
type NoFileError struct {
	Name string

	// Bare reports whether the input is a single word, which might have been meant as a program.
	Bare bool
}

func (e *NoFileError) Error() string {
	text := "input file " + e.Name + ": " + errNoFile.Error()
	if e.Bare {
		text += ", and no program of that name (use {file: …}, {glob: …} or {command: …} to choose one)"
	}
	return text
}

func (e *NoFileError) Unwrap() error { return errNoFile }

// fileSource returns the source of a file in dir. No file, or a directory, is an error now, and not only when the items
// are selected.
func fileSource(name, dir string) (source, error) {
	s := source{name: name, file: process.Resolve(dir, name)}
	info, err := os.Stat(s.file)
	if errors.Is(err, fs.ErrPermission) {
		return source{}, s.wrap(err)
	}
	if err != nil {
		return source{}, &NoFileError{Name: name}
	}
	if info.IsDir() {
		return source{}, fmt.Errorf("input file %s: is a directory", name)
	}
	return s, nil
}

// wrap returns a file system error with the name that the user gave.
func (s source) wrap(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("input file %s: %w", s.name, err)
}

// eachOfFile calls emit with what the path selects in the data of the file. It looks at ctx before each read.
func (s source) eachOfFile(ctx context.Context, p path, emit func([]byte) error) error {
	file, err := os.Open(s.file)
	if err != nil {
		return s.wrap(err)
	}
	defer check.Quietly(file.Close)

	return s.data(ctx, during(ctx, file), p, emit)
}

// data calls emit with what the path selects in the data that in has of the source. Of several errors the first in this
// order counts: emit wants no more, the selection was ended, the data could not be read, the data is not in the format.
func (s source) data(ctx context.Context, in io.Reader, p path, emit func([]byte) error) error {
	f := &peekReader{r: in, dialect: s.dialect}
	err := f.read(s.format, p, emit)
	switch failed := f.failure(); {
	case errors.Is(err, errStop):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.command != "":
		return cmp.Or(failed, inPlace(err, "output of the input command", nil))
	case s.stdin && failed != nil:
		return fmt.Errorf("%s: %w", Stdin, failed)
	case s.stdin:
		return inPlace(err, Stdin, nil)
	case failed != nil:
		return s.wrap(failed)
	case err == nil && !f.found && s.format == "json":
		return fmt.Errorf("input file %s: is empty, not JSON", s.name)
	}
	return inPlace(err, s.name, s.position)
}

// eachOfGlob emits the names of the matching files in the order of their bytes. With a format it emits the
// content of the files instead, one file after the other.
func (s source) eachOfGlob(ctx context.Context, e Env, p path, emit func([]byte) error) error {
	found := &sorter{dir: e.Temp}
	defer found.close()
	if err := addMatches(ctx, s.glob, e.Dir, found); err != nil {
		return err
	}
	last := ""
	name := p.evaluator(emit)
	var quoted []byte
	return found.each(func(key, _ []byte) error {
		// A name is found twice if it matches several alternatives of the pattern.
		if string(key) == last {
			return nil
		}
		last = string(key)
		if s.format != "" {
			file := source{name: last, file: process.Resolve(e.Dir, last), format: s.format, dialect: s.dialect}
			return file.eachOfFile(ctx, p, emit)
		}
		quoted, _ = jsontext.AppendQuote(quoted[:0], last) // addMatches checked that it is UTF-8
		return name(quoted)
	})
}

// position describes the position of a byte in the file. It reads the file again up to there, so that nobody has to
// count lines while all is well. Columns are bytes, from 1.
func (s source) position(offset int64) string {
	file, err := os.Open(s.file)
	if err != nil {
		return fmt.Sprintf("byte %d", offset)
	}
	defer check.Quietly(file.Close)
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

// stopGrace is how long a command may take to end when no more of its output is wanted.
const stopGrace = 2 * time.Second

// withOutput runs a command while use reads its output, and ends it when use returns. If the command fails,
// reading its output ends with an error.
func withOutput(ctx context.Context, command string, e Env, use func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	out, in := io.Pipe()
	var running errgroup.Group
	defer func() {
		cancel(errStop)
		_ = out.Close()
		_ = running.Wait()
	}()
	running.Go(func() error {
		stderr := &process.Capture{Limit: 8 << 10}
		exit, err := process.Run(ctx, process.Command{
			Argv: []string{"sh", "-c", command}, Dir: e.Dir, Env: e.Environ,
			Stdout: in, Stderr: stderr, Grace: stopGrace, Register: e.Register,
		})
		if err == nil {
			err = failure(exit, stderr)
		}
		return in.CloseWithError(err)
	})
	return use(out)
}

// failure returns nil when the command succeeded, else an error with the end of what it printed to stderr.
func failure(exit process.Exit, stderr *process.Capture) error {
	if exit.Start != nil {
		return fmt.Errorf("run the input command: %w", exit.Start)
	}
	if exit.Code == 0 {
		return nil
	}
	text := fmt.Sprintf("the input command failed with exit code %d", exit.Code)
	if exit.Signal != "" {
		text = "the input command was killed by " + exit.Signal
	}
	// On one line, because the message becomes the reason of a job.
	if said := strings.TrimSpace(stderr.Tail(2 << 10)); said != "" {
		text += ": " + strings.Join(strings.FieldsFunc(said, func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
	}
	return errors.New(text)
}

var errNoStdin = errors.New("standard input is not available")

// eachOfStdin calls emit with what the path selects in the standard input of prodigy.
func (s source) eachOfStdin(ctx context.Context, e Env, p path, emit func([]byte) error) error {
	if e.Stdin == nil {
		return errNoStdin
	}
	in, done, err := interruptible(ctx, e.Stdin)
	if err != nil {
		return fmt.Errorf("%s: %w", Stdin, err)
	}
	defer done()
	return s.data(ctx, in, p, emit)
}

// inPlace prefixes an error of the data with the name of what was read and the position. place describes an
// offset; nil counts bytes.
func inPlace(err error, what string, place func(offset int64) string) error {
	var bad *notJSONError
	var row *rowError
	var yaml *workflow.DataError
	switch {
	case errors.As(err, &bad) && place != nil:
		return fmt.Errorf("%s: %s: %w", what, place(bad.offset), bad)
	case errors.As(err, &bad):
		return fmt.Errorf("%s: byte %d: %w", what, bad.offset, bad)
	case errors.As(err, &row), errors.As(err, &yaml):
		return fmt.Errorf("%s: %w", what, err)
	}
	return err
}
