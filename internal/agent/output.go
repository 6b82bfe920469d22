package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/mask"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
	"prodigy/internal/rawjson"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// stream keeps what a command prints: as it is for the steps of this run, and without secrets for everything
// that is written or shown. Secrets are removed before anything is cut off, since half of one would not be
// found any more.
type stream struct {
	process.Capture // as it is

	without process.Capture // the same without secrets
	masking *mask.Writer    // nil: there are no secrets

	recorder *outputs.Recorder // keeps it with the job; nil if it is not the output of a step
	name     outputs.Stream
	echo     io.Writer // shows it to people; nil means nobody sees it
}

func newStream(m *mask.Masker) *stream {
	s := new(stream)
	s.init(m, nil, outputs.Stdout)
	return s
}

func (s *stream) init(m *mask.Masker, r *outputs.Recorder, name outputs.Stream) {
	s.recorder, s.name = r, name
	if m != nil {
		s.masking = m.Writer((*maskedStream)(s))
	}
}

// maskedStream takes what a stream has without its secrets.
type maskedStream stream

func (s *maskedStream) Write(p []byte) (int, error) {
	(*stream)(s).show(p)
	return s.without.Write(p)
}

// show passes on what has no secrets.
func (s *stream) show(p []byte) {
	s.recorder.Write(s.name, p)
	if s.echo != nil {
		_, _ = s.echo.Write(p)
	}
}

// Write implements io.Writer. It never fails, since a Capture takes everything.
func (s *stream) Write(p []byte) (int, error) {
	if s.masking != nil {
		_, _ = s.masking.Write(p)
	} else {
		s.show(p)
	}
	return s.Capture.Write(p)
}

// masked returns what may be written and shown of the stream.
func (s *stream) masked() *process.Capture {
	if s.masking == nil {
		return &s.Capture
	}
	_ = s.masking.Close()
	return &s.without
}

// recording is what a command of a step prints: for the steps of this run, and to be kept with the job.
type recording struct {
	stdout, stderr stream
	recorder       outputs.Recorder

	// answer shows the answer of an AI coding CLI in place of its stdout. It is nil for other commands.
	answer io.Writer
}

// Receive passes on a piece of what a command has printed.
func (r *run) Receive(e outputs.Entry) { r.x.host.Output(r.a, e) }

// close passes on the rest of what the command has printed.
func (p *recording) close(end outputs.End) {
	p.stdout.masked()
	p.stderr.masked()
	p.recorder.Close(end)
}

// stoppedEnd is the end of a command of whose exit nothing is known.
func stoppedEnd() outputs.End { return outputs.End{Stopped: true, ExitCode: -1} }

// endOf returns the end of a command that was not stopped.
func endOf(exit process.Exit, failure *Failure) outputs.End {
	end := outputs.End{Failed: failure != nil, ExitCode: exit.Code}
	if exit.Start != nil || exit.Signal != "" || exit.TimedOut {
		end.ExitCode = -1
	}
	return end
}

// trimmed returns what was captured, without trailing newlines, as variables have it.
func trimmed(c *process.Capture) string { return strings.TrimRight(c.Text(), "\n") }

// formatted returns the output of a step as JSON in the format of a capture, or nil when it stays a text.
// Output of a failed step that does not fit is null.
func formatted(f workflow.CaptureFormat, output string, failed bool) (json.RawMessage, error) {
	trimmed, wanted := strings.TrimSpace(output), "JSON"
	switch f {
	case workflow.FormatJSON:
		if rawjson.Valid([]byte(trimmed)) {
			return json.RawMessage(trimmed), nil
		}
	case workflow.FormatLines:
		if output == "" {
			return json.RawMessage("[]"), nil
		}
		return rawjson.Of(strings.Split(output, "\n")), nil
	case workflow.FormatNumber:
		if rawjson.Valid([]byte(trimmed)) && !strings.ContainsAny(trimmed[:1], `"[{tfn`) {
			return json.RawMessage(trimmed), nil
		}
		wanted = "a number"
	case workflow.FormatBoolean:
		return strconv.AppendBool(nil, !failed), nil
	default:
		return nil, nil
	}
	if failed {
		return json.RawMessage("null"), nil
	}
	return nil, fmt.Errorf("output %.60q is not %s", trimmed, wanted)
}

// bind returns the destination for a command that runs in dir. The parts of the path that the workflow itself
// writes may lead anywhere; data may only lead further down.
func (o *outputFile) bind(r template.Resolver, dir string) (*destination, error) {
	if o == nil {
		return nil, nil
	}
	path, err := o.path.Bind(r)
	if err != nil {
		return nil, fmt.Errorf("output_file: %w", err)
	}
	if strings.TrimSpace(path) == "" || strings.IndexByte(path, 0) >= 0 {
		return nil, fmt.Errorf("output_file: %q is not a path", path)
	}
	if o.head == nil {
		return &destination{path: process.Resolve(dir, path)}, nil
	}
	head, err := o.head.Bind(r)
	if err != nil {
		return nil, fmt.Errorf("output_file: %w", err)
	}
	head = head[:strings.LastIndexByte(head, '/')+1]
	d := &destination{within: process.Resolve(dir, head), path: path[len(head):]}
	if !filepath.IsLocal(d.path) {
		return nil, fmt.Errorf("output_file: %s: a value points outside the directory %s", path, d.within)
	}
	return d, nil
}

// create makes the file that is written, and the directories above it. A path that is not a regular file, such as
// a device, is written itself.
func (d *destination) create() (*os.File, error) {
	const flags = os.O_CREATE | os.O_TRUNC | os.O_WRONLY
	if err := os.MkdirAll(cmp.Or(d.within, filepath.Dir(d.path)), 0o777); err != nil {
		return nil, err
	}
	if d.within == "" {
		path, err := filepath.EvalSymlinks(d.path)
		if err != nil {
			path = d.path
		}
		if _, err := os.Readlink(path); err == nil || !replaceable(d.path) || !replaceable(path) {
			return os.OpenFile(d.path, flags, 0o666)
		}
		d.within, d.path = filepath.Split(path)
	}
	root, err := os.OpenRoot(d.within)
	if err != nil {
		return nil, err
	}
	defer check.Quietly(root.Close)
	if err := root.MkdirAll(filepath.Dir(d.path), 0o777); err != nil {
		return nil, err
	}
	earlier, err := root.Lstat(d.path)
	if err == nil && !earlier.Mode().IsRegular() {
		return root.OpenFile(d.path, flags, 0o666)
	}
	beside := filepath.Join(filepath.Dir(d.path), ".prodigy-"+d.tag)
	_ = root.Remove(beside)
	file, err := root.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	switch {
	case errors.Is(err, fs.ErrPermission) && earlier != nil:
		return root.OpenFile(d.path, flags, 0o666) // nothing can be made in its directory
	case err != nil:
		return nil, err
	}
	d.beside = beside
	if earlier != nil {
		err = file.Chmod(earlier.Mode().Perm())
	}
	if err != nil {
		d.discard()
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// replaceable reports whether path is a regular file, or none yet. The descriptors of a process are not,
// whatever they lead to. /dev/shm holds ordinary files.
func replaceable(path string) bool {
	if strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/proc/") {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// keep gives the file that was written its name.
func (d *destination) keep() error {
	root, err := os.OpenRoot(d.within)
	if err != nil {
		return err
	}
	defer check.Quietly(root.Close)
	if err := root.Rename(d.beside, d.path); err != nil {
		return err
	}
	d.beside = ""
	return nil
}

// discard removes the file that was written.
func (d *destination) discard() {
	if root, err := os.OpenRoot(d.within); err == nil {
		_ = root.Remove(d.beside)
		_ = root.Close()
	}
	d.beside = ""
}

// sink takes the stdout of a command. An error of the file does not stop the command; close returns it.
type sink struct {
	kept *stream
	file *os.File // nil: none
	err  error

	reading *ai.Reading // reads it as well, unless nil
	held    bool        // the file gets the answer, which is known at the end
	watch   *watch      // ends the command when it does not get on or costs too much, unless nil

	onSession func() // looks for the session that it says
}

// release writes the answer to the file that was held for it.
func (s *sink) release(answer string) {
	if !s.held || s.file == nil {
		return
	}
	if answer != "" {
		answer += "\n"
	}
	_, s.err = s.file.WriteString(answer)
}

func (s *sink) Write(p []byte) (int, error) {
	if s.reading != nil {
		_, _ = s.reading.Write(p)
		s.watch.observe(s.reading.Signs())
		s.watch.meter(s.reading)
		s.onSession()
	}
	if s.file != nil && s.err == nil && !s.held {
		_, s.err = s.file.Write(p)
	}
	return s.kept.Write(p)
}

// close closes the file, and returns what went wrong with it.
func (s *sink) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.err, s.file.Close())
}
