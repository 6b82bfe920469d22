package gitspace

import (
	"context"
	"fmt"
	"strings"
)

// History is what lies between two commits.
type History struct {
	Commits []string // their names, the newest first
	Subject []string // of each
	Files   []string // that differ
}

// History returns the commits that to has and from has not, and the files that differ.
func (s *Space) History(ctx context.Context, from, to string) (History, error) {
	var h History
	log, err := s.hub().output(ctx, "log", "-z", "--format=%H %s", from+".."+to)
	var files string
	if err == nil {
		files, err = s.hub().output(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to)
	}
	if err != nil {
		return h, fmt.Errorf("read the history of the job: %w", err)
	}
	for _, line := range fields(log) {
		name, subject, _ := strings.Cut(line, " ")
		h.Commits, h.Subject = append(h.Commits, name), append(h.Subject, subject)
	}
	h.Files = fields(files)
	return h, nil
}
