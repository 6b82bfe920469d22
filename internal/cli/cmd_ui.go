package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/view"
	"prodigy/internal/web"
)

// uiOptions are the flags of ui.
type uiOptions struct {
	// Server is filled in by run. Its Token is the content of tokenFile, or a random text without one.
	web.Server
	listen    string
	tokenFile string
}

// shortestToken is the minimum length of a token from a file.
const shortestToken = 16

// newUICommand returns the command that serves the pages of jobs.
func newUICommand(con *console) *cobra.Command {
	o := uiOptions{listen: "127.0.0.1:0"}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the web UI",
		Long: `Open the web UI: jobs, progress, items, output and dead letters.

Jobs can be stopped, resumed, retried, paused, continued, drained, cancelled and scaled from the
browser; the server runs the matching prodigy command in the job's directory, and that command keeps
running after the server exits. Only browsers on this machine may do so, for jobs of the same user;
--read-only disables it.

The printed address contains a token that is required for access. By default only this machine can
connect; to --listen on other addresses, also use --token-file.`,
		Example: "  prodigy ui\n  prodigy ui --listen 127.0.0.1:8080 --read-only",
		Args:    exactly(),
	}
	onArgs(con, cmd, o.run)
	addFlag(cmd, &o.listen, "listen", "address to listen on (port 0 picks a free port)")
	addFlag(cmd, &o.tokenFile, "token-file",
		fmt.Sprintf("read the access token from this file, at least %d characters (default: random)",
			shortestToken))
	addFlag(cmd, &o.Dirs, "all", "show jobs of all directories, not only of this project")
	addFlag(cmd, &o.ReadOnly, "read-only",
		"disable all actions")
	addFlag(cmd, &o.Hosts, "host", "allow this additional host:port in the address bar (repeatable)")
	return cmd
}

// run serves until a signal ends it, and prints the address with its token on stdout.
func (o *uiOptions) run(ctx context.Context, con *console, _ []string) error {
	if o.tokenFile != "" {
		token, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return refusef("--token-file: %w", err)
		}
		if o.Token = strings.TrimSpace(string(token)); o.Token == "" {
			return refusef("--token-file %s is empty", o.tokenFile)
		}
	}
	if err := o.check(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return refusef("%w", err)
	}
	o.Token = cmp.Or(o.Token, rand.Text())
	o.Hosts = append(o.Hosts, hostsOf(listener.Addr())...)
	home, err := homeOf(o.Dirs)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	_, _ = fmt.Fprintf(con.out, "http://%s/?token=%s\n", o.Hosts[0], o.Token)
	con.sayf("Open this address in a browser. Ctrl-C stops the server.")
	o.Limits, o.Version = web.DefaultLimits(), versionText()
	o.Data = web.Data{
		Jobs: home.List, Find: home.Find, Summary: job.Summarize, Explain: explainItem, Items: itemsShown,
		Report: makeReport, Advice: adviceOf,
		Outputs: conversationsOf, EachItem: eachItem, Labels: func(j jobs.Job) web.Labels { return labelsInStore(j) },
		Start: func(j jobs.Job, a web.Action) error { return startCommand(home, j, a) },
	}
	return untilSignal(ctx, func(ctx context.Context) error { return o.Serve(ctx, listener) })
}

// check rejects an address that other machines can reach unless a token was given.
func (o *uiOptions) check() error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return usagef("--listen must be an address and port, such as 127.0.0.1:8080, got %q", o.listen)
	}
	if o.Token != "" && len(o.Token) < shortestToken {
		return usagef("token must be at least %d characters", shortestToken)
	}
	if o.Token == "" && !fleet.Loopback(host) {
		return usagef("--listen %s is reachable from other machines: --token-file is required, with at least "+
			"%d characters", o.listen, shortestToken)
	}
	return nil
}

// hostsOf returns the host:port values that a browser may use, the one to print first.
func hostsOf(addr net.Addr) []string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return []string{addr.String()}
	}
	port := fmt.Sprint(tcp.Port)
	if tcp.IP.IsLoopback() {
		return []string{net.JoinHostPort(tcp.IP.String(), port), net.JoinHostPort("localhost", port)}
	}
	if tcp.IP.IsUnspecified() {
		return []string{net.JoinHostPort("localhost", port), net.JoinHostPort("127.0.0.1", port)}
	}
	return []string{tcp.String()}
}

// explainItem returns the explanation of an item, with its data as it was recorded: the server masks it.
func explainItem(job jobs.Job, item string) (view.Explanation, json.RawMessage, error) {
	e, err := explanationOf(job, item, 0)
	return e.Explanation, e.Item, err
}

// eachItem yields the items of a job as they may be shown, those that are wanted by index.
func eachItem(job jobs.Job, wanted func(int) bool) iter.Seq2[web.Item, error] {
	return func(yield func(web.Item, error) bool) {
		store, err := items.OpenStore(job.ItemsFile())
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if err != nil {
			yield(web.Item{}, err)
			return
		}
		defer check.Quietly(store.Close)
		shown := itemsShown(job)
		for c := store.Cursor(); c.More(); {
			var one web.Item
			if wanted(c.Index()) {
				var it items.Item
				it, err = c.Next()
				one = web.Item{ID: it.ID, Index: it.Index}
				one.Label, one.Data = shown(it.ID, it.Shown())
			} else if err = c.Skip(); err == nil {
				continue
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// settled is how long startCommand waits for a command to be refused.
const settled = time.Second

// startCommand starts the command of an action as a process that outlives the server, in the directory of the job. What
// it prints is kept with the job. It returns an error if the command is refused or fails right away.
func startCommand(home jobs.Home, job jobs.Job, a web.Action) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	meta, err := job.ReadMeta()
	if err != nil {
		return err
	}
	args := a.Command(job.ID)
	command := shellWords(append([]string{"prodigy"}, args...))
	if a.Kind.Continues() {
		flags := lastFleet(job, meta)
		args, command = append(args, flags...), command+shownFlags(flags)
	}
	out, err := web.CreateStarted(job, command, time.Now())
	if err != nil {
		return err
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = meta.Dir
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+home.Root)
	cmd.Stdout, cmd.Stderr = out, out // a file, which is there also when the server is not
	process.Detach(cmd)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, out.Close())
	}
	ended := make(chan error, 1)
	go func() { // the command outlives the server, so nobody waits for it
		failed := cmd.Wait()
		_ = os.Remove(a.File)
		end := "killed by a signal"
		if code := cmd.ProcessState.ExitCode(); code >= 0 {
			end = fmt.Sprintf("exit code %d", code)
		}
		_ = errors.Join(web.EndStarted(out, end), out.Close())
		ended <- failed
	}()
	select {
	case failed := <-ended:
		if code := cmd.ProcessState.ExitCode(); failed != nil && (code == exitUsage || code == exitFailed) {
			said, err := os.ReadFile(out.Name())
			if err != nil {
				return err
			}
			_, text, _ := strings.Cut(string(said), "\n") // without the command
			text, _, _ = strings.Cut(text, "\x1e")
			return fmt.Errorf("%s: %s", command, strings.TrimSpace(text))
		}
		return nil
	case <-time.After(settled):
		return nil
	}
}
