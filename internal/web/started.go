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

	"prodigy/internal/jobs"
)

const (
	startedShown = 3 // commands, the newest
	startedTime  = "20060102-150405.000000000"
	startedExt   = ".log"
)

// The first line of such a file is the command. Its last line says how the command ended, and begins with a character
// that prodigy does not print.
const endMark = "\x1e"

// CreateStarted makes the file for the output of a command that is started for a job now.
func CreateStarted(place jobs.Job, command string, now time.Time) (*os.File, error) {
	if err := os.MkdirAll(place.StartedDir(), 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(place.StartedDir(), now.UTC().Format(startedTime)+startedExt)
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

// startedIn returns the newest commands that were started for a job, the newest first. What cannot be read is left out.
func startedIn(place jobs.Job) []started {
	var list []started
	entries, _ := os.ReadDir(place.StartedDir())
	for _, e := range slices.Backward(entries) {
		name, is := strings.CutSuffix(e.Name(), startedExt)
		if !is {
			continue
		}
		at, wrong := time.Parse(startedTime, name)
		text, err := os.ReadFile(filepath.Join(place.StartedDir(), e.Name()))
		if err != nil || wrong != nil {
			continue
		}
		command, text, _ := bytes.Cut(text, []byte("\n"))
		text = text[max(len(text)-commandShown, 0):]
		s := started{Name: "started-" + name, Time: at, Command: string(command), Text: text}
		if i := bytes.LastIndex(text, []byte(endMark)); i >= 0 {
			s.Text, s.Outcome = text[:i], strings.TrimSpace(string(text[i+len(endMark):]))
		}
		if list = append(list, s); len(list) == startedShown {
			break
		}
	}
	return list
}
