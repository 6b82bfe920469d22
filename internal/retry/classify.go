package retry

import "time"

// Type classifies a failure, for matchers, metrics and the dead letter queue.
type Type string

const (
	TypeTimeout     Type = "timeout"
	TypeNetwork     Type = "network"
	TypePermission  Type = "permission"
	TypeRateLimit   Type = "rate_limit"
	TypeServerError Type = "server_error"

	// a service has refused the request: a status of 4xx, a certificate, too many redirects
	TypeClientError Type = "client_error"

	TypeResource        Type = "resource" // disk, memory, descriptors or a lock that somebody else holds
	TypeCommandFailed   Type = "command_failed"
	TypeCommandNotFound Type = "command_not_found"
	TypeKilled          Type = "killed"
	TypeOOM             Type = "oom" // killed by the kernel for lack of memory; only on Linux this is told from killed
	TypeCircuitOpen     Type = "circuit_open"
	TypeTemplate        Type = "template"
	TypeCommitMissing   Type = "commit_missing"
	TypeInternal        Type = "internal"

	TypeAuth Type = "auth" // a login, a key or a right is missing: a status of 401, 403 or 407

	// What an AI coding CLI says of its own end, see package ai.
	TypeQuota          Type = "quota"
	TypeRefused        Type = "refused"
	TypeIncomplete     Type = "incomplete"
	TypeInvalidRequest Type = "invalid_request"
	TypeStalled        Type = "stalled"
	TypeBudget         Type = "budget"

	TypeSkipped Type = "skipped" // nobody wanted it any more: a person has skipped the item

	TypeKilledRunner Type = "killed_runner" // in flight whenever prodigy itself died: it may be the item that kills it

	TypeMergeConflict Type = "merge_conflict" // what an agent did cannot be merged with what others did
	TypeVerifyFailed  Type = "verify_failed"  // it can, but then the steps of workspace.verify fail
	TypeMissingOutput Type = "missing_output" // its agent did not leave a file that the map phase says it produces

	// what an agent left in its workspace cannot be told, or its workspace not be set up
	TypeWorkspace Type = "workspace"
)

// AfterAttempt reports whether a failure of the type comes after an attempt that succeeded, or says nothing of it.
func (t Type) AfterAttempt() bool {
	return t == TypeKilledRunner || t == TypeSkipped || t == TypeMergeConflict || t == TypeVerifyFailed
}

// errorType says of a type whether its name can stand in retry_on.
type errorType struct {
	name    Type
	matcher bool
}

// errorTypes is the table of all types of failures.
var errorTypes = []errorType{
	{TypeRateLimit, true},
	{TypeServerError, true},
	{TypeNetwork, true},
	{TypeTimeout, true},
	{TypeResource, true},
	{TypeOOM, true},
	{TypeMergeConflict, true},
	{TypeVerifyFailed, true},
	{TypeMissingOutput, true},
	{TypeQuota, true},
	{TypeAuth, true},
	{TypeRefused, true},
	{TypeIncomplete, true},
	{TypeInvalidRequest, true},
	{TypeStalled, true},
	{TypeBudget, true},
	{TypeClientError, false},
	{TypeCommandFailed, false},
	{TypeCommandNotFound, false},
	{TypePermission, false},
	{TypeKilled, false},
	{TypeCircuitOpen, false},
	{TypeTemplate, false},
	{TypeCommitMissing, false},
	{TypeWorkspace, false},
	{TypeKilledRunner, false},
	{TypeSkipped, false},
	{TypeInternal, false},
}

// Types returns all types of failures.
func Types() []Type {
	var types []Type
	for _, t := range errorTypes {
		types = append(types, t.name)
	}
	return types
}

// Failure is what is known of one failed attempt.
type Failure struct {
	// set by who knows better than Classify (template, circuit_open, ...); else empty
	Type Type `json:"type,omitempty"`

	Message string `json:"message"`          // one line for people
	Stdout  string `json:"stdout,omitempty"` // its end
	Stderr  string `json:"stderr,omitempty"` // its end

	// -1 when there is none: a signal, a timeout, a start that did not happen
	ExitCode int `json:"exit_code"`

	Signal   string `json:"signal,omitempty"`    // "SIGKILL", ...; empty when it exited
	TimedOut bool   `json:"timed_out,omitempty"` // the step's own timeout ended it

	// Message alone says what it was: the rest of what was printed is about other things too
	Exact bool `json:"exact,omitempty"`

	// what told the type: as Judge names it, or of the preset of an AI coding CLI, as in claude/usage_limit
	Rule string `json:"rule,omitempty"`

	// with TypeQuota: when the limit ends, if that is known
	ResetAt time.Time `json:"reset_at,omitzero"`

	Scope      string        `json:"scope,omitempty"`       // with TypeQuota: which limit, as the CLI calls it
	RetryAfter time.Duration `json:"retry_after,omitempty"` // how long the service asks to wait, if it does
}

// permanent reports whether another attempt would fail in the same way: the workflow file is wrong, a program
// is missing, or an AI has refused.
func permanent(f Failure, t Type) bool {
	switch t {
	case TypeRefused, TypeInvalidRequest, TypeBudget:
		return true
	}
	return t == TypeTemplate || t == TypeCommandNotFound || f.ExitCode == 126 || f.ExitCode == 127
}

// endsInWord reports whether a number after s would continue the last word of s.
func endsInWord(s string) bool {
	n := len(s)
	if n == 0 {
		return false
	}
	return isWord(s[n-1]) || n > 1 && isSeparator(s[n-1]) && isDigit(s[n-2])
}

// startsWithWord reports whether a number before s would be part of the first word of s.
func startsWithWord(s string) bool {
	if s == "" {
		return false
	}
	return isWord(s[0]) || len(s) > 1 && isSeparator(s[0]) && isDigit(s[1])
}

func isSeparator(c byte) bool { return c == '.' || c == ',' }
func isDigit(c byte) bool     { return '0' <= c && c <= '9' }
func isLetter(c byte) bool    { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isWord reports whether c is part of a word. Every byte beyond ASCII is.
func isWord(c byte) bool { return isDigit(c) || isLetter(c) || c == '_' || c >= 0x80 }
