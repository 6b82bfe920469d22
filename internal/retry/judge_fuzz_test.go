package retry_test

import (
	"testing"

	"prodigy/internal/retry"
)

// FuzzJudge looks for a text that Judge panics on, or that has no type of failures.
func FuzzJudge(f *testing.F) {
	for _, c := range said {
		f.Add(c.text, c.code)
	}
	f.Fuzz(func(t *testing.T, text string, code int) {
		for _, failure := range []retry.Failure{{ExitCode: code, Stderr: text}, {ExitCode: code, Stdout: text}, {Message: text, Exact: true}} {
			if got, _ := retry.Judge(failure, []string{"curl", "jq"}); got == "" {
				t.Errorf("no type for %q", text)
			}
		}
	})
}
