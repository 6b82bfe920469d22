package cli

import (
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"prodigy/internal/natsfleet"
	"prodigy/internal/testenv/scripts"
)

var update = flag.Bool("update", false, "rewrite the files that scripts compare output with")

// The test binary is prodigy too, a claude that only says what it was asked, and a collector of spans.
func TestMain(m *testing.M) {
	if strings.HasSuffix(os.Args[0], ".test") {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))) // scripts wait most of their time
	}
	scripts.Main(m, map[string]func(){
		"prodigy": func() { os.Exit(Main(os.Args[1:], natsfleet.Backend{})) },

		"claude":    fakeClaude,
		"gh":        fakeGH,
		"collector": fakeCollector,
	})
}

// fakeClaude repeats its prompt, which it takes as the real one does: from its arguments and its standard input. It fails when the
// prompt says so. An option among its arguments does what it asks for.
func fakeClaude() {
	var words []string
	for _, arg := range os.Args[1:] {
		switch {
		case arg == "--print", arg == "--output-format", arg == "stream-json", arg == "--verbose":
		case arg == "--version":
			fmt.Println("2.1.330 (Claude Code)")
			return
		case strings.HasPrefix(arg, "-"):
			if err := os.WriteFile("pwned", []byte(arg), 0o600); err != nil {
				panic(err)
			}
		default:
			words = append(words, arg)
		}
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	if len(input) > 0 {
		words = append(words, string(input))
	}
	prompt := strings.Join(words, "\n")
	if len(prompt) > 1000 {
		fmt.Printf("claude was asked for %d bytes\n", len(prompt))
		return
	}
	fmt.Println("claude was asked: " + prompt)
	if strings.Contains(prompt, "fail") {
		os.Exit(1)
	}
}

// fakeGH knows of no pull request, and opens one for a branch that is at the remote.
func fakeGH() {
	head := ""
	for i, arg := range os.Args {
		if arg == "--head" && i+1 < len(os.Args) {
			head = os.Args[i+1]
		}
	}
	there := exec.Command("git", "ls-remote", "--exit-code", "origin", "refs/heads/"+head).Run() == nil
	if len(os.Args) < 3 || os.Args[1] != "pr" || os.Args[2] != "create" || head == "" || !there {
		fmt.Fprintln(os.Stderr, "no pull requests found")
		os.Exit(1)
	}
	fmt.Println("https://github.com/me/project/pull/1")
}

// fakeCollector is the program collector of scripts: it takes OTLP over HTTP until it is interrupted. The file of its first argument gets its address, the
// one of its second a line for each span, with its traceparent, its parent and its name.
func fakeCollector() {
	spans, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m tracepb.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &m) != nil {
			return
		}
		for _, s := range m.ResourceSpans[0].ScopeSpans[0].Spans {
			_, _ = fmt.Fprintf(spans, "00-%s-%s-01 <%s> %s\n", hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), s.Name)
		}
	}))
	if err := os.WriteFile(os.Args[1], []byte(server.URL), 0o600); err != nil {
		panic(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	server.Close()
}

// Every script is something that a user could have typed.
func TestScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts need a POSIX sh")
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	const dir = "../../testdata/script/"
	params := testscript.Params{
		Dir: dir, UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"terminal": terminal},
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			return nil
		},
	}
	if testing.Short() {
		// Under the race detector each start of a process is slow, and these use all the goroutines that there are.
		params.Dir, params.Files = "", []string{dir + "quickstart.txtar", dir + "interrupt.txtar", dir + "interrupt_twice.txtar"}
	}
	scripts.Run(t, params)
}
