package gitspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// What a record names was synced before, so that the hub has it, also after a loss of power. A disk can break
// this promise. So the objects are looked at when the machine has gone down since: what is lost is said, and never merged as if nothing had been.

// bootFile has the boot of the machine in which the hub was last found whole.
func (s *Space) bootFile() string { return filepath.Join(s.GitDir, "boot") }

// inspectHub looks for all objects of the head and of the work that waits. An error says that the head is not
// whole: nothing can be merged then.
func (s *Space) inspectHub(ctx context.Context, head string, live []Work) error {
	s.lost = make(map[string]string)
	if reason, err := s.missing(ctx, head, s.record.Base); err != nil || reason != "" {
		return errors.Join(err, fmt.Errorf("the merged commits are damaged in %s: the commit %s of the job cannot be "+
			"read: %s; the result delivered so far is the branch %s (also %s): start a new job there, or restore that "+
			"directory from a copy, then run prodigy resume",
			s.hubDir(), short(head), reason, s.ResultBranch(), s.hiddenRef()))
	}
	for _, w := range live {
		reason, err := s.missing(ctx, w.Commit, head)
		if err != nil {
			return err
		}
		if reason != "" {
			s.lost[w.Commit] = reason
		}
	}
	return nil
}

// missing says which object of a commit is missing or damaged, besides those that another commit has; empty means none.
func (s *Space) missing(ctx context.Context, commit, known string) (reason string, err error) {
	names, err := s.hub().output(ctx, "rev-list", "--objects", "--no-object-names", commit, "^"+known)
	var absent []string
	if err == nil {
		absent, err = s.hub().absent(ctx, strings.Fields(names))
	}
	switch failed := refusal(err); {
	case failed != nil:
		return failed.reason(), nil
	case len(absent) > 0:
		return "the object " + absent[0] + " is missing or damaged", nil
	}
	return "", err
}
