package retry_test

import (
	"testing"

	"prodigy/internal/retry"
)

func BenchmarkJudge(b *testing.B) {
	f := retry.Failure{ExitCode: 1, Message: "exit code 1: no answer", Stderr: "loading rows\nwarming up\nrow 7 of the table has no name and no price\n"}
	for b.Loop() {
		retry.Judge(f, nil)
	}
}
