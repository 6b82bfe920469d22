// Package rationed holds prodigy against GNU parallel and a client that is written by hand, all of which call a service that rations its calls.
//
//	go run ./lab rationed -calls 1000
//
// The service takes 50 calls in a second, with a bucket of 10, answers 429 with Retry-After: 1 to further ones, and gets slower with more than ten at
// once. Each contestant may try a call five times. What a contestant lost is counted by the service: the calls that it never answered with 200.
package rationed

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"prodigy/lab/try"
)

const (
	perSecond = 50
	bucket    = 10
	tries     = 5
)

// service is the HTTP server.
type service struct {
	mu      sync.Mutex
	tokens  float64
	at      time.Time
	busy    int
	refused int
	served  map[string]bool
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	now := time.Now()
	s.tokens, s.at = min(bucket, s.tokens+now.Sub(s.at).Seconds()*perSecond), now
	if s.tokens < 1 {
		s.refused++
		s.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.tokens--
	s.busy++
	busy := s.busy
	s.mu.Unlock()
	time.Sleep(50 * time.Millisecond * time.Duration(max(10, busy)) / 10)
	s.mu.Lock()
	s.busy--
	s.served[r.URL.Path] = true
	s.mu.Unlock()
}

// asyncioClient is what many would write: a semaphore, and a retry that heeds Retry-After. Its arguments are the port, the number of calls, and how many
// it makes at once.
//
//go:embed client.py
var asyncioClient string

// contestant is a way to make the calls.
type contestant struct {
	name    string
	command func(dir, url, port string, calls int) *exec.Cmd
}

func contestants(prodigy string) []contestant {
	workflow := func(name, how, retry string) contestant {
		return contestant{"prodigy, " + name, func(dir, url, _ string, calls int) *exec.Cmd {
			text := fmt.Sprintf("map:\n  %s\n  input: {command: seq 0 %d}\n  agent_template:\n    - shell: curl -sS -i --fail-with-body %s/${item}\n      retry_config: {attempts: %d, %s}\n",
				how, calls-1, url, tries, retry)
			path := filepath.Join(dir, "workflow.yml")
			try.Write(path, text)
			return exec.Command(prodigy, "run", path)
		}}
	}
	parallel := func(name string, flags ...string) contestant {
		return contestant{"GNU parallel " + name, func(_, url, _ string, calls int) *exec.Cmd {
			args := append(flags, "--retries", strconv.Itoa(tries), "curl", "-sS", "-f", url+"/{}")
			cmd := exec.Command("parallel", args...)
			var items strings.Builder
			for i := range calls {
				fmt.Fprintln(&items, i)
			}
			cmd.Stdin = strings.NewReader(items.String())
			return cmd
		}}
	}
	asyncio := func(atOnce int) contestant {
		return contestant{fmt.Sprintf("asyncio, a semaphore of %d", atOnce), func(_, _, port string, calls int) *exec.Cmd {
			return exec.Command("python3", "-c", asyncioClient, port, strconv.Itoa(calls), strconv.Itoa(atOnce))
		}}
	}
	return []contestant{
		workflow("32 slots", "max_parallel: 32", "initial_delay: 500ms"),
		workflow("rate: 49/s", "max_parallel: 32\n  rate: {limit: 49/s, burst: 1}", "initial_delay: 500ms, retry_after: true"),
		workflow("adapt", "concurrency: {min: 2, max: 64, adapt: true}", "initial_delay: 500ms, retry_after: true"),
		parallel("-j32", "-j32"),
		parallel("-j32 --delay 0.0205", "-j32", "--delay", "0.0205"),
		asyncio(32),
		asyncio(4),
	}
}

// Main is the tool.
func Main() {
	calls := flag.Int("calls", 1000, "how many calls each makes")
	prodigy := flag.String("prodigy", "bin/prodigy", "the program")
	only := flag.String("only", "", "only contestants with this in their names")
	flag.Parse()
	run(*calls, *prodigy, *only)
}

func run(calls int, prodigy, only string) {
	prodigy = try.To(filepath.Abs(prodigy))
	_, err := os.Stat(prodigy)
	try.Checkf(err, "look for the program, which make build builds")
	best := float64(calls-bucket) / perSecond
	fmt.Printf("%d calls, at best %.1f s\n\n| | seconds | of the best | refused | lost |\n| --- | ---: | ---: | ---: | ---: |\n", calls, best)
	for _, c := range contestants(prodigy) {
		if !strings.Contains(c.name, only) {
			continue
		}
		took, s, err := compete(c, calls)
		if errors.Is(err, exec.ErrNotFound) {
			fmt.Printf("| %s | not installed | | | |\n", c.name)
			continue
		}
		try.Checkf(err, "%s", c.name)
		fmt.Printf("| %s | %.1f | %.2f | %d (%.1f %%) | %d |\n", c.name, took.Seconds(), took.Seconds()/best, s.refused, 100*float64(s.refused)/float64(calls), calls-len(s.served))
	}
}

// compete has a contestant make its calls to a service of its own. That it fails is a result.
func compete(c contestant, calls int) (time.Duration, *service, error) {
	listener := try.To(net.Listen("tcp", "127.0.0.1:0"))
	s := &service{tokens: bucket, at: time.Now(), served: map[string]bool{}}
	server := http.Server{Handler: s}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // until it is shut down
	defer serving.Wait()
	defer func() { _ = server.Shutdown(context.Background()) }()
	dir := try.To(os.MkdirTemp("", "rationed-"))
	defer func() { _ = os.RemoveAll(dir) }()
	_, port := try.To2(net.SplitHostPort(listener.Addr().String()))
	cmd := c.command(dir, "http://"+listener.Addr().String(), port, calls)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PRODIGY_HOME="+filepath.Join(dir, "home"))
	began := time.Now()
	err := cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil
	}
	return time.Since(began), s, err
}
