package mapreduce

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// rationing is an HTTP server that takes 50 calls in a second, with a bucket of 10, answers 429 with Retry-After to further ones, and gets slower with more
// than ten at once.
type rationing struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time
	calls  int
	no     int
}

func (s *rationing) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	const rate, bucket = 50, 10
	s.mu.Lock()
	now := time.Now()
	if s.at.IsZero() {
		s.at, s.tokens = now, bucket
	}
	s.tokens, s.at = min(bucket, s.tokens+now.Sub(s.at).Seconds()*rate), now
	if s.tokens < 1 {
		s.no++
		s.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.tokens--
	s.calls++
	busy := s.calls
	s.mu.Unlock()
	time.Sleep(50 * time.Millisecond * time.Duration(max(10, busy)) / 10)
	s.mu.Lock()
	s.calls--
	s.mu.Unlock()
}

// BenchmarkRationedService runs 1,000 calls of curl against such a server, with as many tries as a user would give them: with plain slots, with a rate, and
// with a concurrency that adapts. The best time is 19.8 s. It reports seconds, calls that were refused, and items that were lost.
func BenchmarkRationedService(b *testing.B) {
	if _, err := exec.LookPath("curl"); err != nil {
		b.Skip("it needs curl")
	}
	const n = 1000
	for name, how := range map[string]string{
		"slots=32": "max_parallel: 32", "rate=49/s": "max_parallel: 32\n  rate: 49/s", "adapt": "concurrency: {min: 2, max: 64, adapt: true}",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := &rationing{}
				server := httptest.NewServer(s)
				var source strings.Builder
				source.WriteString("map:\n  " + how + "\n  input:\n")
				for i := range n {
					source.WriteString("    - " + strconv.Itoa(i) + "\n")
				}
				source.WriteString("  agent_template:\n    - shell: curl -sS -i --fail-with-body " + server.URL + "/${item}\n" +
					"      retry_config: {attempts: 5, initial_delay: 500ms, retry_after: " + strconv.FormatBool(!strings.HasPrefix(name, "slots")) + "}\n")
				c := Config{
					Home: jobs.Home{Root: b.TempDir()}, Dir: b.TempDir(), Environ: os.Environ(), Seed: 7, Version: "bench", Durability: events.Batch, Grace: time.Second,
				}
				began := time.Now()
				w, err := workflow.Parse("w.yml", []byte(source.String()), workflow.ParseOptions{})
				if err != nil {
					b.Fatal(err)
				}
				r, err := Run(b.Context(), c, w, []byte(source.String()))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/run")
				b.ReportMetric(float64(s.no), "refused")
				b.ReportMetric(float64(n-r.Metrics.Successful), "lost")
				server.Close()
			}
		})
	}
}
