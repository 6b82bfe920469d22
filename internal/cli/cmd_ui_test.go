package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"prodigy/internal/web"
)

// Whoever opens the address that is printed sees the jobs, and the end of the command ends the server.
func TestTheAddressThatIsPrintedShowsTheJobs(t *testing.T) {
	t.Setenv("PRODIGY_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, printed := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		o := uiOptions{listen: "127.0.0.1:0"}
		return o.run(ctx, &console{out: printed, err: io.Discard}, nil)
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Jar: jar}).Get(strings.TrimSpace(address))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil || !strings.Contains(string(body), "No jobs yet") {
		t.Errorf("the page is %q (%v)", body, err)
	}
	if resp.Request.URL.RawQuery != "" {
		t.Errorf("the token stays in the address: %s", resp.Request.URL)
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestOthersAreOnlyLetInWithATokenThatWasChosen(t *testing.T) {
	for _, c := range []struct {
		o  uiOptions
		ok bool
	}{
		{uiOptions{listen: "127.0.0.1:0"}, true},
		{uiOptions{listen: "localhost:8080"}, true},
		{uiOptions{listen: "[::1]:8080"}, true},
		{uiOptions{listen: "0.0.0.0:8080"}, false},
		{uiOptions{listen: ":8080"}, false},
		{uiOptions{listen: "192.168.1.2:8080"}, false},
		{uiOptions{listen: "0.0.0.0:8080", Server: web.Server{Token: "short"}}, false},
		{uiOptions{listen: "0.0.0.0:8080", Server: web.Server{Token: "long enough to keep"}}, true},
		{uiOptions{listen: "8080"}, false},
	} {
		if err := c.o.check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// A token that was chosen comes from a file: arguments are for everybody on the machine to see.
func TestTheTokenIsReadFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{
		"": "is empty", " \n": "is empty", "short\n": "at least 16 characters",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := uiOptions{listen: "127.0.0.1:0", tokenFile: file}
		err := o.run(t.Context(), &console{out: io.Discard, err: io.Discard}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	root := newRootCommand(&console{out: io.Discard, err: io.Discard})
	root.SetArgs([]string{"ui", "--token", "long enough to keep"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("got %v, want that there is --token-file", err)
	}
}
