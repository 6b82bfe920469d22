package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

const (
	startedKept  = 20 // files of commands that were started from a page
	startedShown = 3
	startedTime  = "20060102-150405.000000000"
)

// The first line of such a file is the command. Its last line says how the command ended, and begins with a character
// that prodigy does not print.
const endMark = "\x1e"

// CreateStarted makes the file for the output of a command that is started for a job now, and drops those of the
// oldest.
func CreateStarted(place jobs.Job, command string, now time.Time) (*os.File, error) {
	if err := os.MkdirAll(place.StartedDir(), 0o700); err != nil {
		return nil, err
	}
	names, err := startedNames(place)
	if err != nil {
		return nil, err
	}
	for _, name := range names[:max(len(names)-startedKept+1, 0)] {
		if err := os.Remove(filepath.Join(place.StartedDir(), name)); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(place.StartedDir(), now.UTC().Format(startedTime)+".log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(f, command); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// EndStarted notes how the command ended.
func EndStarted(f io.Writer, outcome string) error {
	_, err := fmt.Fprintf(f, "%s%s\n", endMark, outcome)
	return err
}

// startedNames returns the names of these files, the oldest first.
func startedNames(place jobs.Job) ([]string, error) {
	entries, err := os.ReadDir(place.StartedDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if _, err := timeOfStarted(e.Name()); err == nil {
			names = append(names, e.Name())
		}
	}
	return names, err // ReadDir has sorted them
}

// timeOfStarted reads the time from the name of a file. It returns an error for other files.
func timeOfStarted(name string) (time.Time, error) {
	return time.Parse(startedTime+".log", name)
}

// started is a command that was started from a page.
type started struct {
	// The name of the file without its extension, which is an id on the page.
	Name string

	Time    time.Time
	Command string

	// How the command ended. It is empty if the command runs, or the server ended before it did.
	Outcome string

	// The end of what the command printed.
	Text []byte
}

// Open reports whether the page shows at once what the command printed: the answer of one that has ended, if it is
// short.
func (s started) Open() bool {
	return s.Outcome != "" && len(s.Text) < 400 && bytes.Count(s.Text, []byte("\n")) <= 3
}

// startedIn returns the newest commands that were started for a job, the newest first. What cannot be read is left out.
func startedIn(place jobs.Job) []started {
	names, err := startedNames(place)
	if err != nil {
		return nil
	}
	var list []started
	for _, name := range slices.Backward(names) {
		if s, err := readStarted(filepath.Join(place.StartedDir(), name)); err == nil {
			list = append(list, s)
		}
		if len(list) == startedShown {
			break
		}
	}
	return list
}

// readStarted reads the command, its outcome, and the end of what it printed from a file.
func readStarted(path string) (started, error) {
	name := filepath.Base(path)
	at, err := timeOfStarted(name)
	if err != nil {
		return started{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return started{}, err
	}
	defer check.Quietly(f.Close)
	info, err := f.Stat()
	if err != nil {
		return started{}, err
	}
	head := make([]byte, commandShown)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return started{}, err
	}
	command, _, _ := bytes.Cut(head[:n], []byte("\n"))
	from := max(info.Size()-commandShown, int64(len(command))+1)
	text, err := io.ReadAll(io.NewSectionReader(f, from, commandShown))
	if err != nil {
		return started{}, err
	}
	s := started{Name: "started-" + strings.TrimSuffix(name, ".log"), Time: at, Command: string(command), Text: text}
	if i := bytes.LastIndex(text, []byte(endMark)); i >= 0 {
		s.Text, s.Outcome = text[:i], strings.TrimSpace(string(text[i+len(endMark):]))
	}
	return s, nil
}
