package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func serve(t *testing.T, path string, do func(Request) Answer) *Server {
	t.Helper()
	s, err := Serve(path, do)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func echo(r Request) Answer { return Done("%s by %s", r.Do, r.By) }

// A path may be longer than the 108 bytes that the kernel takes.
func TestARequestIsAnsweredAtAnyPath(t *testing.T) {
	for _, dir := range []string{"d", strings.Repeat("long/", 60)} {
		path := filepath.Join(t.TempDir(), dir, "control")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		s := serve(t, path, echo)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
			t.Errorf("got %v, %v, want a socket with mode 0600", info, err)
		}
		a, err := Ask(path, Request{Do: Pause, By: "alice\n\x1b[31m"})
		if err != nil || !a.Done || a.Text != "pause by alice[31m" {
			t.Errorf("got %+v, %v, want the answer with a clean name", a, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want that the socket is gone", err)
		}
		if _, err := Ask(path, Request{Do: Pause}); !errors.Is(err, ErrNobody) {
			t.Errorf("got %v, want that nobody is there", err)
		}
	}
}

// A run that is killed leaves its socket.
func TestASocketThatIsLeftIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(path, Request{Do: Pause}); !errors.Is(err, ErrNobody) {
		t.Errorf("got %v, want that nobody is there", err)
	}
	serve(t, path, echo)
	if a, err := Ask(path, Request{Do: Drain, By: "bob"}); err != nil || a.Text != "drain by bob" {
		t.Errorf("got %+v, %v, want an answer", a, err)
	}
}

func TestABadRequestIsRefusedAndDoesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	serve(t, path, func(Request) Answer {
		t.Error("a bad request was done")
		return Done("")
	})
	for name, line := range map[string]string{
		"no JSON": "pause\n", "another version": `{"v":2,"do":"pause"}` + "\n", "no end": `{"v":1`, "nothing": "",
		"too long": `{"v":1,"by":"` + strings.Repeat("x", maxLine) + "\"}\n",
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(line)) // the rest of one that is too long is not taken
		_ = c.(*net.UnixConn).CloseWrite()
		var answer bytes.Buffer
		_, _ = answer.ReadFrom(c)
		var a Answer
		if err := json.Unmarshal(answer.Bytes(), &a); name != "too long" && (err != nil || a.Done || a.Text == "") {
			t.Errorf("%s: got %q, want a refusal", name, answer.String())
		}
		_ = c.Close()
	}
}

func TestARequestThatIsTooLongIsNotSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	serve(t, path, echo)
	r := Request{Do: Skip}
	for range maxLine / 20 {
		r.Items = append(r.Items, Item{ID: "item_1000000", Index: 1000000})
	}
	if _, err := Ask(path, r); err == nil || !strings.Contains(err.Error(), "fewer items") {
		t.Errorf("got %v, want that there are too many items", err)
	}
}
