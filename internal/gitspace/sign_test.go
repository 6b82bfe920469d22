package gitspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/workflow"
)

// fakeGPG signs whatever it gets, and says so as gpg does.
const fakeGPG = `#!/bin/sh
cat >/dev/null
printf '\n[GNUPG:] SIG_CREATED D\n' >&2
printf -- '-----BEGIN PGP SIGNATURE-----\n\nsigned by %s\n-----END PGP SIGNATURE-----\n' "$3"
`

// With sign, the commits that prodigy makes are signed as git is set up to: what an attempt did, and what
// merges it. The attempt's own are not its business.
func TestCommitsAreSigned(t *testing.T) {
	repo, environ := newRepo(t, files{"a": "1\n"})
	gpg := filepath.Join(t.TempDir(), "gpg")
	if err := os.WriteFile(gpg, []byte(fakeGPG), 0o755); err != nil {
		t.Fatal(err)
	}
	sh(t, repo, environ, "git config gpg.program "+gpg+"; git config user.signingKey KEY")
	for _, history := range []workflow.History{"", workflow.HistorySquash} {
		j := openJob(t, repo, repo, environ, workflow.Workspace{Sign: true, History: history})
		left, own := j.does("echo 1 > left"), j.does("echo 2 > own; git add own; git commit -qm own")
		if m := j.merges(left, own); len(m.Items) != 2 {
			t.Fatalf("merged: %+v", m)
		}
		signed := func(commit string) bool {
			return strings.Contains(j.inHub("git cat-file commit "+commit), "gpgsig -----BEGIN PGP SIGNATURE-----")
		}
		if !signed(left.Commit) || signed(own.Commit) || !signed(j.head) || !signed(j.head+"~1") {
			t.Errorf("history %q: signed are work %v, own %v, head %v and %v", history, signed(left.Commit), signed(own.Commit), signed(j.head), signed(j.head+"~1"))
		}
		if err := Remove(t.Context(), j.config); err != nil {
			t.Fatal(err)
		}
	}
}

// When a signature cannot be made, no item is to blame, and nothing is merged without.
func TestWithoutASignatureNothingIsMerged(t *testing.T) {
	repo, environ := newRepo(t, files{"a": "1\n"})
	j := openJob(t, repo, repo, environ, workflow.Workspace{})
	w := j.does("echo 1 > b")
	j.Policy.Sign = true
	for _, dir := range []string{j.hubDir(), j.templateDir()} {
		sh(t, dir, environ, "git --git-dir=. config gpg.program false")
	}
	if m, err := j.Merge(t.Context(), j.head, []Work{w}); err == nil || !strings.Contains(err.Error(), "sign") {
		t.Errorf("merged %+v, %v", m, err)
	}
	o, err := j.Execute(t.Context(), script{j.environ}, j.attempt("echo 1 > c"))
	if err == nil || o.Failure != nil {
		t.Errorf("outcome %+v, %v", o, err)
	}
}
