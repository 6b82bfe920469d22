package gitspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// itemTrailer is the trailer of commits that merge work by which a conflict finds the other items.
const itemTrailer = "Prodigy-Item"

// Merge merges work into head, one after another, and verifies the result. An error is git's, the disk's or a
// stop's; then nothing was merged and no item is to blame. Nothing is published: the caller records the result
// first.
func (s *Space) Merge(ctx context.Context, head string, work []Work) (Merged, error) {
	b := Batch{Chain: s.chain, Emit: s.Emit}
	if s.Policy.Verify != nil {
		// The steps see what the batch has changed: their base is the head before it.
		b.Verify = func(ctx context.Context, commit string, _ []MergedItem) (agent.Outcome, error) {
			w := s.workspace("verify", 0)
			if err := s.prepare(ctx, w, commit, ""); err != nil {
				return agent.Outcome{}, fmt.Errorf("verify merged changes: %w", err)
			}
			dir, err := s.start(w)
			if err != nil {
				return agent.Outcome{}, err
			}
			return s.Run(ctx, "verify", dir, head, 0)
		}
	}
	return b.Merge(ctx, head, work)
}

// chain merges work in order. What conflicts is left out.
func (s *Space) chain(ctx context.Context, head string, work []Work) (Merged, error) {
	out := Merged{Head: head}
	for _, w := range work {
		failed := Rejected{Work: w, Type: retry.TypeWorkspace}
		if reason, lost := s.lost[w.Commit]; lost {
			failed.Message = fmt.Sprintf("the changes of attempt %d are lost: cannot read its commit %s: %s", w.Attempt,
				short(w.Commit), reason)
		} else if commit, conflicts, err := s.mergeOne(ctx, out.Head, w); err != nil {
			if failed.Message = s.culprit(ctx, out.Head, w, err); failed.Message == "" {
				return Merged{}, fmt.Errorf("merge the changes of %s: %w", w.ItemID, err)
			}
		} else if len(conflicts) > 0 {
			failed.Type, failed.Message = retry.TypeMergeConflict, conflictMessage(conflicts)
			failed.Conflicts = check.First(conflicts, events.MaxConflicts)
		} else {
			out.Head = commit
			out.Items = append(out.Items, MergedItem{Work: w, Merge: commit})
			continue
		}
		out.Failed = append(out.Failed, failed)
	}
	return out, nil
}

// culprit says what is wrong with work that could not be merged into a head. It returns "" if
// nothing is known to be, or the head itself is damaged.
func (s *Space) culprit(ctx context.Context, head string, w Work, err error) string {
	if reason, err := s.missing(ctx, head, s.record.Base); err != nil || reason != "" {
		return ""
	}
	_, found := s.examine(ctx, w.Commit, w.Base)
	if state, is := errors.AsType[*StateError](found); is {
		return state.Reason
	}
	if failed, is := errors.AsType[*gitError](err); is && failed.exit.Expired {
		return "cannot merge its changes: " + failed.reason()
	}
	return ""
}

// mergeOne merges work into head and returns the commit, or the conflicts.
func (s *Space) mergeOne(
	ctx context.Context, head string, w Work,
) (commit string, conflicts []events.Conflict, err error) {
	tree := w.Commit + "^{tree}"
	if head != w.Base { // else there is nothing to merge with
		tree, conflicts, err = s.mergeTree(ctx, head, w)
		if err != nil || len(conflicts) > 0 {
			return "", conflicts, err
		}
	}
	parents := []string{head, w.Commit}
	if s.Policy.History == workflow.HistorySquash {
		parents = parents[:1]
	}
	p := s.hub()
	if !w.Date.IsZero() {
		date := fmt.Sprintf("@%d +0000", w.Date.Unix())
		p.env = append(p.env, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	}
	message := fmt.Sprintf("%s: %s\n\nProdigy-Job: %s\n%s: %s\nProdigy-Attempt: %d\n", term.OneLine(s.Workflow),
		term.OneLine(w.ItemID), s.JobID, itemTrailer, trailerValue(w.ItemID), w.Attempt)
	commit, err = s.commitTree(ctx, p, tree, message, parents...)
	return commit, nil, err
}

// trailerValue returns text as the value of a trailer: quoted, when a trailer could not hold it as it is.
func trailerValue(text string) string {
	// such a character could be taken for something else, or be shown as nothing
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }
	if text != "" && term.OneLine(text) == text && !strings.ContainsFunc(text, odd) && text[0] != '"' {
		return text
	}
	return strconv.Quote(text)
}

// parseTrailer returns the value that a trailer was written for.
func parseTrailer(value string) string {
	if text, err := strconv.Unquote(value); err == nil && strings.HasPrefix(value, `"`) {
		return text
	}
	return value
}

// mergeTree merges the trees of head and work.
func (s *Space) mergeTree(
	ctx context.Context, head string, w Work,
) (tree string, conflicts []events.Conflict, err error) {
	if err := s.updateAttributes(ctx, head); err != nil {
		return "", nil, err
	}
	// In a bare repository merge-tree sees no .gitattributes, so it gets a working tree that has nothing else.
	p := s.hub()
	p.dir = s.attributesDir()
	p.env = append(p.env, "GIT_WORK_TREE="+p.dir)
	args := []string{"merge-tree", "--write-tree", "--messages", "--name-only", "-z"}
	if s.git.mergeBase {
		// Without it git looks for the base among all that was merged since, which costs more with every merge.
		args = append(args, "--merge-base="+w.Base)
	}
	out, code, err := p.answer(ctx, append(args, head, w.Commit)...)
	if err != nil {
		return "", nil, err
	}
	tree, conflicts, err = parseMergeTree(out)
	if err != nil || code == 0 {
		return tree, nil, err
	}
	if len(conflicts) == 0 {
		return "", nil, fmt.Errorf("git merge-tree reported conflicts without paths: %q", out)
	}
	return tree, conflicts, s.findOthers(ctx, w.Base, head, conflicts)
}

// parseMergeTree parses the output of merge-tree --name-only -z: the tree, the conflicted files, an empty field, and
// messages. Those are the number of paths, the paths, a type, and the text.
func parseMergeTree(out string) (tree string, conflicts []events.Conflict, err error) {
	tree, rest, ok := strings.Cut(out, "\x00")
	if !ok {
		return "", nil, fmt.Errorf("cannot parse the output of git merge-tree: %q", out)
	}
	all := fields(rest)
	end := slices.Index(all, "")
	if end < 0 {
		end = len(all)
	}
	for _, name := range all[:end] {
		conflicts = append(conflicts, events.Conflict{Path: name})
	}
	for i := end + 1; i < len(all); {
		n, err := strconv.Atoi(all[i])
		if err != nil || n < 0 || i+n+2 >= len(all) {
			return "", nil, fmt.Errorf("cannot parse the messages of git merge-tree: %q", out)
		}
		names, kind, text := all[i+1:i+1+n], all[i+1+n], all[i+2+n]
		i += n + 3
		if !strings.HasPrefix(kind, "CONFLICT") || n == 0 {
			continue
		}
		if text = strings.TrimSpace(text); !strings.HasPrefix(text, "CONFLICT") {
			text = kind + ": " + strings.TrimPrefix(text, "warning: ")
		}
		at := slices.IndexFunc(conflicts, func(c events.Conflict) bool { return c.Path == names[0] })
		if at < 0 {
			conflicts = append(conflicts, events.Conflict{Path: names[0], Message: text})
		} else if conflicts[at].Message == "" {
			conflicts[at].Message = text
		}
	}
	return tree, conflicts, nil
}

// conflictMessage puts conflicts into a sentence.
func conflictMessage(conflicts []events.Conflict) string {
	names := check.Each(conflicts, func(c events.Conflict) string { return c.Path })
	var others []string
	for _, c := range conflicts {
		others = append(others, c.With...)
	}
	slices.Sort(others)
	text := "conflict in " + check.Few(names, namesShown)
	if others = slices.Compact(others); len(others) > 0 {
		text += " with " + check.Few(others, namesShown)
	}
	return text
}

// findOthers names the items whose merges have changed the paths of conflicts since base.
func (s *Space) findOthers(ctx context.Context, base, head string, conflicts []events.Conflict) error {
	args := []string{
		"log", "-z", "--first-parent", "--diff-merges=first-parent", "--name-only", "--no-renames",
		"--format=%x01%(trailers:key=" + itemTrailer + ",valueonly,unfold,separator=%x02)", base + ".." + head, "--",
	}
	for _, c := range check.First(conflicts, events.MaxConflicts) {
		args = append(args, literally(c.Path))
	}
	out, err := s.hub().output(ctx, args...)
	if err != nil {
		return fmt.Errorf("find items that changed the same files: %w", err)
	}
	for commit := range strings.SplitSeq(out, "\x01") {
		head, rest, _ := strings.Cut(commit, "\x00")
		id, _, _ := strings.Cut(strings.TrimSpace(head), "\x02")
		if id = parseTrailer(id); id == "" {
			continue
		}
		for _, name := range fields(rest) {
			name = strings.TrimPrefix(name, "\n")
			for i := range conflicts {
				c := &conflicts[i]
				if (c.Path == name || strings.HasPrefix(name, c.Path+"/")) && !slices.Contains(c.With, id) {
					c.With = append(c.With, id)
				}
			}
		}
	}
	return nil
}

// attributesDir is the directory with the .gitattributes files of a head, by which merges choose their drivers.
func (s *Space) attributesDir() string { return filepath.Join(s.GitDir, "attributes") }

// updateAttributes makes the .gitattributes files those of head.
func (s *Space) updateAttributes(ctx context.Context, head string) (err error) {
	from := s.attributesOf
	if from == "" {
		if err := errors.Join(removeAll(s.attributesDir()), os.MkdirAll(s.attributesDir(), 0o777)); err != nil {
			return err
		}
		if from, err = s.hub().line(ctx, "hash-object", "-t", "tree", "--stdin"); err != nil { // the empty one
			return err
		}
	}
	if from == head {
		return nil
	}
	out, err := s.hub().output(ctx, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", from, head,
		"--", ":(top,glob)**/.gitattributes")
	if err != nil {
		return err
	}
	err = within(s.attributesDir(), func(root *os.Root) error {
		for pair := range slices.Chunk(fields(out), 2) {
			name, columns := pair[1], strings.Fields(pair[0])
			if err := root.RemoveAll(name); err != nil {
				return err
			}
			if !strings.HasPrefix(columns[1], "100") { // it is no file any more
				continue
			}
			text, err := s.hub().output(ctx, "cat-file", "blob", columns[3])
			if err == nil {
				err = root.MkdirAll(path.Dir(name), 0o777)
			}
			if err == nil {
				err = root.WriteFile(name, []byte(text), 0o644)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the attributes of the merged files: %w", err)
	}
	s.attributesOf = head
	return nil
}

// Publish sets the ref of the head in the hub, and deletes those of work that is settled. The caller has recorded both.
func (s *Space) Publish(ctx context.Context, head string, settled []Work) error {
	var update strings.Builder
	fmt.Fprintf(&update, "update %s %s\n", headRef, head)
	for _, w := range settled {
		fmt.Fprintf(&update, "delete %s\n", w.ref())
	}
	if _, err := s.hub().feed(ctx, update.String(), "update-ref", "--stdin"); err != nil {
		return fmt.Errorf("update the job's head: %w", err)
	}
	if s.unpacked.Add(int64(len(settled))) >= packEvery {
		// The history before, which is the user's, is not looked at.
		since := []string{cmp.Or(s.packed, s.record.Base)}
		err := s.hub().pack(ctx, []string{head}, since, "--unpacked", "--local", s.packs())
		if err == nil {
			err = s.hub().do(ctx, "prune-packed", "-q")
		}
		if err != nil {
			return fmt.Errorf("pack merged commits: %w", err)
		}
		s.packed = head
		s.unpacked.Store(0)
	}
	return nil
}

// packEvery is how much work is merged before its objects are packed. A pack takes a tenth of the disk, and
// each object that is not in one is a file.
const packEvery = 1000

// packs is what the names of packs in the hub begin with.
func (s *Space) packs() string { return filepath.Join(s.hubDir(), "objects", "pack", "pack") }
