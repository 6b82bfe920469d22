package agent

import (
	"testing"

	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// What AI coding CLIs print when they fail, shortened.
var cliFailures = []struct {
	name           string
	stdout, stderr string
	code           int
	message        string
	is             retry.Type
}{
	{"claude, spent plan", "Working on it.\nYou've hit your limit · resets 6:14am (UTC)\n\n", "", 1, "You've hit your limit · resets 6:14am (UTC)", retry.TypeRateLimit},
	{"claude, key", "Invalid API key · Fix external API key\n", "", 1, "Invalid API key · Fix external API key", retry.TypeAuth},
	{"claude, no credit", "Credit balance is too low", "", 1, "Credit balance is too low", retry.TypeCommandFailed},
	{"claude, 429", "API Error: Request rejected (429) · This request would exceed your account's rate limit.", "", 1, "API Error: Request rejected (429) · This request would exceed your account's rate limit.", retry.TypeRateLimit},
	{"claude, 500", "API Error: 500 Internal server error.", "", 1, "API Error: 500 Internal server error.", retry.TypeServerError},
	{"claude, 529", "API Error: Repeated 529 Overloaded errors. The API is at capacity.", "", 1, "API Error: Repeated 529 Overloaded errors. The API is at capacity.", retry.TypeServerError},
	{"claude, refused", "API Error: Connection refused (ECONNREFUSED)", "", 1, "API Error: Connection refused (ECONNREFUSED)", retry.TypeNetwork},
	{"claude, slow", "Request timed out. Set API_TIMEOUT_MS above 10000.", "", 1, "Request timed out. Set API_TIMEOUT_MS above 10000.", retry.TypeTimeout},
	{"claude, session", "", "No conversation found with session ID: 11111111-2222-4333-8444-555555555501\n", 1, "No conversation found with session ID: 11111111-2222-4333-8444-555555555501", retry.TypeCommandFailed},
	{"claude, warns and fails", "Not logged in · Please run /login", "warning: no stdin data received\n", 1, "Not logged in · Please run /login", retry.TypeAuth},
	{"claude as JSON, spent plan", `{"type":"system"}
{"type":"result","is_error":true,"duration_ms":503,"result":"You've hit your 5-hour limit · resets 8:34am (UTC)","network":0}
`, "", 1, "You've hit your 5-hour limit · resets 8:34am (UTC)", retry.TypeRateLimit},
	{"claude as JSON, key", `{"type":"result","is_error":true,"connection":"x","result":"Invalid API key · Fix external API key"}`, "", 1, "Invalid API key · Fix external API key", retry.TypeAuth},
	{"claude as JSON, budget", `{"type":"result","subtype":"error_max_budget_usd","network":1,"errors":["Reached maximum budget ($5)"]}`, "", 1, "Reached maximum budget ($5)", retry.TypeCommandFailed},
	{"claude as JSON, several lines", `{"result":"API Error: safeguards flagged this message.\n\nRequest ID: req_1"}`, "", 1, "API Error: safeguards flagged this message.", retry.TypeCommandFailed},
	{"codex, spent plan", `{"type":"turn.failed","error":{"message":"You’ve hit your usage limit. Try again at 8:43 AM."}}`, "Reading additional input from stdin...", 1, "You’ve hit your usage limit. Try again at 8:43 AM.", retry.TypeRateLimit},
	{"codex, JSON in JSON", `{"type":"turn.failed","error":{"message":"{\"error\": {\"message\": \"Your account is not active.\", \"code\": \"billing_not_active\"}}"}}`, "Reading...", 1, "Your account is not active.", retry.TypeCommandFailed},
	{"codex, 503", `{"type":"turn.failed","error":{"message":"unexpected status 503 Service Unavailable: The engine is currently overloaded"}}`, "", 1, "unexpected status 503 Service Unavailable: The engine is currently overloaded", retry.TypeServerError},
	{"codex, high demand", `{"type":"turn.failed","error":{"message":"We're currently experiencing high demand, which may cause temporary errors."}}`, "", 1, "We're currently experiencing high demand, which may cause temporary errors.", retry.TypeServerError},
	{"codex, ended midway", `{"type":"turn.started"}`, "Reading additional input from stdin...\n", 1, "Reading additional input from stdin...", retry.TypeCommandFailed},
	{"gemini, spent plan", `{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: You have exhausted your daily quota on this model.]\nPlease wait"}}`, "}", 173, "[API Error: You have exhausted your daily quota on this model.]", retry.TypeRateLimit},
	{"opencode, 401", `{"type":"error","error":{"name":"APIError","data":{"message":"Incorrect API key provided: sk-x.","statusCode":401,"responseHeaders":{"connection":"close"}}}}`, "", 1, "Incorrect API key provided: sk-x.", retry.TypeAuth},
	{"opencode, plan", `{"type":"error","error":{"name":"APIError","data":{"message":"You exceeded your current quota, please check your plan."}}}`, "", 1, "You exceeded your current quota, please check your plan.", retry.TypeRateLimit},
	{"nothing said", "", "", 1, "", retry.TypeCommandFailed},
	{"a list", "[1,2]", "", 1, "[1,2]", retry.TypeCommandFailed},
}

func TestWhatAnAISaidLastIsWhyItFailed(t *testing.T) {
	signatures := map[string]string{}
	for _, test := range cliFailures {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{answer: func(_ int, c process.Command) process.Exit {
				_, _ = c.Stdout.Write([]byte(test.stdout))
				_, _ = c.Stderr.Write([]byte(test.stderr))
				return process.Exit{Code: test.code}
			}}
			failure := execute(t, f.executor(), ofItem(workflow.Step{Claude: &workflow.Text{Value: "do it"}})).Failure
			if failure == nil {
				t.Fatal("got a success")
			}
			same(t, "message", failure.Message, exitMessage(test.code, test.message))
			same(t, "type", retry.Classify(failure.Failure), test.is)
			signatures[retry.Signature(failure.Message)] = test.name
		})
	}
	if len(signatures) < len(cliFailures)-3 { // the same spent plan at another hour, and the same key in both modes
		t.Errorf("%d failures share %d signatures: %v", len(cliFailures), len(signatures), signatures)
	}
}

// A command that is no AI says on stderr why it failed.
func TestWhatAnotherCommandPrintsIsNotWhyItFailed(t *testing.T) {
	f := &fake{answer: func(_ int, c process.Command) process.Exit {
		_, _ = c.Stdout.Write([]byte("You've come far\n"))
		return process.Exit{Code: 1}
	}}
	same(t, "message", execute(t, f.executor(), ofItem(shellStep("x"))).Failure.Message, "exit code 1")
}
