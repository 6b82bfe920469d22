package retry

import "testing"

func TestClassifyTellsTheType(t *testing.T) {
	for name, c := range map[string]struct {
		failure Failure
		want    Type
	}{
		"what is set stays":            {Failure{Type: TypeTemplate, TimedOut: true, ExitCode: 127}, TypeTemplate},
		"own timeout":                  {Failure{TimedOut: true, Signal: "SIGTERM", ExitCode: -1, Stderr: "connection refused"}, TypeTimeout},
		"signal":                       {Failure{Signal: "SIGKILL", ExitCode: -1, Stderr: "timeout"}, TypeKilled},
		"killed below a shell":         {Failure{ExitCode: 137}, TypeKilled},
		"exit 127":                     {Failure{ExitCode: 127, Stderr: "sh: 1: foo: not found"}, TypeCommandNotFound},
		"exit 126":                     {Failure{ExitCode: 126}, TypePermission},
		"permission denied":            {Failure{ExitCode: 1, Stderr: "cat: x: Permission denied"}, TypePermission},
		"EACCES":                       {Failure{ExitCode: 1, Stderr: "Error: EACCES: open"}, TypePermission},
		"429":                          {Failure{ExitCode: 1, Stderr: "HTTP/1.1 429"}, TypeRateLimit},
		"rate limit before the rest":   {Failure{ExitCode: 1, Stderr: "connection: Rate Limit, 500, timeout"}, TypeRateLimit},
		"too many requests":            {Failure{ExitCode: 1, Stdout: "Too Many Requests"}, TypeRateLimit},
		"503":                          {Failure{ExitCode: 22, Message: "error: 503"}, TypeServerError},
		"an AI that is too busy":       {Failure{ExitCode: 1, Stderr: `API Error: 529 {"type":"error"}`}, TypeServerError},
		"the same without a number":    {Failure{ExitCode: 1, Stderr: `{"type":"overloaded_error"}`}, TypeServerError},
		"overloaded otherwise":         {Failure{ExitCode: 1, Stderr: "call of overloaded 'f()' is ambiguous"}, TypeCommandFailed},
		"server error":                 {Failure{ExitCode: 1, Stderr: "Internal Server Error on connection"}, TypeServerError},
		"refused":                      {Failure{ExitCode: 7, Stderr: "connect ECONNREFUSED 10.0.0.1:80"}, TypeNetwork},
		"a connection that timed out":  {Failure{ExitCode: 28, Stderr: "connection timed out"}, TypeTimeout},
		"timed out":                    {Failure{ExitCode: 1, Stderr: "Timed out"}, TypeTimeout},
		"a reset connection":           {Failure{ExitCode: 1, Stderr: "read: connection reset by peer"}, TypeNetwork},
		"a reset stream":               {Failure{ExitCode: 1, Stderr: "the stream was reset."}, TypeNetwork},
		"ECONNRESET":                   {Failure{ExitCode: 1, Stderr: "Error: read ECONNRESET"}, TypeNetwork},
		"a time when a limit resets":   {Failure{ExitCode: 1, Stdout: "the counter resets 6:14am"}, TypeCommandFailed},
		"presets":                      {Failure{ExitCode: 1, Stderr: "no such presets; reset_all is missing"}, TypeCommandFailed},
		"a plan's window":              {Failure{ExitCode: 1, Stdout: "You've hit your limit · resets 6:14am (UTC)"}, TypeRateLimit},
		"a plan's named window":        {Failure{ExitCode: 1, Stdout: "You've hit your session limit · resets 9:23am (UTC)"}, TypeRateLimit},
		"an older plan's window":       {Failure{ExitCode: 1, Stdout: "5-hour limit reached ∙ resets 2am"}, TypeRateLimit},
		"an older plan's limit":        {Failure{ExitCode: 1, Stdout: "Claude AI usage limit reached|1767000000"}, TypeRateLimit},
		"extra usage":                  {Failure{ExitCode: 1, Stdout: "You're out of extra usage · resets 11:30am (Asia/Colombo)"}, TypeRateLimit},
		"a usage limit":                {Failure{ExitCode: 1, Stderr: "You’ve hit your usage limit. Try again at 8:43 AM."}, TypeRateLimit},
		"a plan's quota":               {Failure{ExitCode: 1, Stderr: "Quota exceeded. Check your plan and billing details."}, TypeRateLimit},
		"a daily quota":                {Failure{ExitCode: 173, Stderr: "[API Error: You have exhausted your daily quota on this model.]"}, TypeRateLimit},
		"a quota of a disk":            {Failure{ExitCode: 1, Stderr: "write x: Disk quota exceeded"}, TypeResource},
		"a limit of time":              {Failure{ExitCode: 1, Stderr: "time limit reached"}, TypeCommandFailed},
		"high demand":                  {Failure{ExitCode: 1, Stderr: "We're currently experiencing high demand, which may cause temporary errors."}, TypeServerError},
		"at capacity":                  {Failure{ExitCode: 1, Stderr: "Selected model is at capacity. Please try a different model."}, TypeServerError},
		"an exact message":             {Failure{ExitCode: 1, Message: "Invalid API key", Exact: true, Stdout: `{"network":"x"}`, Stderr: "timeout"}, TypeAuth},
		"an exact message that tells":  {Failure{ExitCode: 1, Message: "HTTP 503", Exact: true, Stdout: `"rate limit"`}, TypeServerError},
		"a conversation":               {Failure{ExitCode: 1, Message: "It failed", Exact: true, Stdout: "The server gives:\nHTTP/1.1 503 Service Unavailable\n"}, TypeCommandFailed},
		"exit 1":                       {Failure{ExitCode: 1, Stderr: "5000 items, 1.503 s, error x500"}, TypeCommandFailed},
		"a command named in the text":  {Failure{ExitCode: 1, Stderr: "foo: command not found"}, TypeCommandFailed},
		"interrupted by its own means": {Failure{ExitCode: 130}, TypeCommandFailed},
	} {
		if got := Classify(c.failure); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
