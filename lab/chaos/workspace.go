//go:build unix

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// withWorkspaces makes agents of the commands of a workflow, which do what the script says. Each works, commits or not, leaves something for the next one
// to stumble over, and says at its beginning if its workspace is not as new.
func withWorkspaces(flow, script string, seed uint64) (string, string) {
	order := [...]string{"completion", "items"}[seed%2]
	flow = strings.Replace(flow, "mode: mapreduce\n", "mode: mapreduce\nworkspace: {order: "+order+"}\n", 1)
	return flow, `test -z "$(git status --porcelain --ignored)" && test "$(git rev-parse HEAD)" = "$PRODIGY_BASE" && test -z "$(git stash list)" || exit 9
` + script + `echo "of $i" >item-$i
sed -i "$((i * 4 + 1))s/$/ $i/" lines
case $((i % 5)) in
0) git add -A; git commit -qm "item $i";;
1) git stash -qu; git stash pop -q; touch .git/index.lock;;
2) git checkout -qb mine; git commit -qam "a part"; head -c 200000 /dev/urandom >big-$i;;
3) mkdir -p ignored/x; echo x >ignored/x/y; chmod -R a-w ignored; mkfifo pipe; git config user.name Eve;;
esac
`
}

func (u *user) repository() string { return filepath.Join(u.dir, "repo") }

// git runs git in the repository of a user.
func (u *user) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = u.repository()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// makeRepository makes the repository that the jobs of a user are run in.
func (r *round) makeRepository(u *user) error {
	if err := os.MkdirAll(u.repository(), 0o700); err != nil {
		return err
	}
	var lines strings.Builder
	for i := range 4 * (r.items + 1) {
		fmt.Fprintf(&lines, "line %d\n", i+1)
	}
	for name, text := range map[string]string{"lines": lines.String(), ".gitignore": "ignored/\n"} {
		if err := os.WriteFile(filepath.Join(u.repository(), name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "Ada"}, {"config", "user.email", "ada@example.com"}, {"add", "-A"}, {"commit", "-qm", "first"}} {
		if _, err := u.git(args...); err != nil {
			return err
		}
	}
	return nil
}

// judgeWork looks, by git alone, whether the work of each item is in the result, once.
func (r *round) judgeWork(bad func(format string, args ...any), u *user, j *job, id string) {
	look := func(args ...string) string {
		out, err := u.git(args...)
		if err != nil {
			bad("%v", err)
		}
		return out
	}
	if out := look("status", "--porcelain"); out != "" {
		bad("the checkout is changed: %s", out)
	}
	branches := strings.Fields(look("for-each-ref", "--format=%(refname)", "refs/heads/prodigy/"))
	branches = slices.DeleteFunc(branches, func(name string) bool { return !strings.Contains(name, id) })
	if len(branches) != 1 {
		bad("results: %q", branches)
		return
	}
	branch := branches[0]
	merged := map[string]int{}
	for subject := range strings.Lines(look("log", "--first-parent", "--format=%s", branch)) {
		merged[strings.TrimSpace(subject)]++
	}
	files := strings.Split(look("ls-tree", "--name-only", branch), "\n")
	lines := strings.Split(look("show", branch+":lines"), "\n")
	for i := 1; i <= r.items; i++ {
		if n := merged[j.name+": item_"+strconv.Itoa(i-1)]; n != 1 {
			bad("item %d was merged %d times", i, n)
		}
		if !slices.Contains(files, "item-"+strconv.Itoa(i)) || i%5 == 2 && !slices.Contains(files, "big-"+strconv.Itoa(i)) {
			bad("item %d: what it made is not in the result", i)
		}
		if at := i * 4; at < len(lines) && strings.Count(lines[at]+" ", " "+strconv.Itoa(i)+" ") != 1+strings.Count("line "+strconv.Itoa(at+1)+" ", " "+strconv.Itoa(i)+" ") {
			bad("item %d: the line %q", i, lines[at])
		}
	}
	if len(merged) != r.items+1 {
		bad("the result has %d commits, want %d", len(merged), r.items+1)
	}
	look("fsck", "--strict", "--no-dangling")
	hubs, err := filepath.Glob(filepath.Join(u.home(), "state", "*", id, "git", "hub"))
	if err != nil || len(hubs) > 0 {
		bad("all was delivered, and hubs are left: %q, %v", hubs, err)
	}
}
