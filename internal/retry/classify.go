package retry

import (
	"slices"
	"time"
)

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

	// disk, memory, descriptors or a lock that somebody else holds
	TypeResource Type = "resource"

	// the command itself failed, or no rule recognises the failure
	TypeCommandFailed Type = "command_failed"

	// the shell found no program of that name: exit code 127
	TypeCommandNotFound Type = "command_not_found"

	// a signal from outside, or the exit code that a shell gives for SIGKILL or SIGTERM
	TypeKilled Type = "killed"

	// killed by the kernel for lack of memory, which only Linux tells from killed
	TypeOOM Type = "oom"

	// a circuit breaker refused to run the step
	TypeCircuitOpen Type = "circuit_open"

	// a placeholder of the step has no value, or one that its place cannot take
	TypeTemplate Type = "template"

	// a step with commit_required made no commit
	TypeCommitMissing Type = "commit_missing"

	// prodigy itself failed
	TypeInternal Type = "internal"

	// a login, a key or a right is missing: a status of 401, 403 or 407
	TypeAuth Type = "auth"

	// What an AI coding CLI says of its own end, see package ai.
	TypeQuota          Type = "quota"
	TypeRefused        Type = "refused"
	TypeIncomplete     Type = "incomplete"
	TypeInvalidRequest Type = "invalid_request"
	TypeStalled        Type = "stalled"
	TypeBudget         Type = "budget"

	// a person has skipped the item
	TypeSkipped Type = "skipped"

	// in flight whenever prodigy itself died: it may be the item that kills it
	TypeKilledRunner Type = "killed_runner"

	// the commits of an agent conflict with those of others
	TypeMergeConflict Type = "merge_conflict"

	// the commits can be merged, but then the steps of workspace.verify fail
	TypeVerifyFailed Type = "verify_failed"

	// the agent did not leave a file that the map phase says it produces
	TypeMissingOutput Type = "missing_output"

	// the workspace of an agent cannot be set up, or the changes in it not be read
	TypeWorkspace Type = "workspace"
)

// AfterAttempt reports whether a failure of the type comes after an attempt that succeeded, or says nothing of it.
func (t Type) AfterAttempt() bool {
	return t == TypeKilledRunner || t == TypeSkipped || t == TypeMergeConflict || t == TypeVerifyFailed
}

// retryTypes are the types of failures whose names can stand in retry_on, and otherTypes all others, in the order in
// which messages list them.
var (
	retryTypes = []Type{
		TypeRateLimit, TypeServerError, TypeNetwork, TypeTimeout, TypeResource, TypeOOM, TypeMergeConflict,
		TypeVerifyFailed, TypeMissingOutput, TypeQuota, TypeAuth, TypeRefused, TypeIncomplete, TypeInvalidRequest,
		TypeStalled, TypeBudget,
	}
	otherTypes = []Type{
		TypeClientError, TypeCommandFailed, TypeCommandNotFound, TypePermission, TypeKilled, TypeCircuitOpen,
		TypeTemplate, TypeCommitMissing, TypeWorkspace, TypeKilledRunner, TypeSkipped, TypeInternal,
	}
)

// Types returns all types of failures.
func Types() []Type { return slices.Concat(retryTypes, otherTypes) }

// Failure is what is known of one failed attempt.
type Failure struct {
	// Type is set by a caller that knows better than Classify, as with template and circuit_open. Otherwise it is
	// empty.
	Type Type `json:"type,omitempty"`

	// Message is one line for people.
	Message string `json:"message"`

	// Stdout and Stderr are the ends of what was printed.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`

	// ExitCode is -1 if there is none: after a signal, a timeout or a start that did not happen.
	ExitCode int `json:"exit_code"`

	// Signal is the name of the signal that ended it, such as SIGKILL. It is empty if it exited.
	Signal string `json:"signal,omitempty"`

	// TimedOut reports whether the step's own timeout ended it.
	TimedOut bool `json:"timed_out,omitempty"`

	// Exact reports whether Message alone says what it was: the rest of what was printed is about other things too.
	Exact bool `json:"exact,omitempty"`

	// Rule is what told the type: as Judge names it, or of the preset of an AI coding CLI, as in claude/usage_limit.
	Rule string `json:"rule,omitempty"`

	// ResetAt is when the limit of a TypeQuota ends, and Scope is which limit it is, as the CLI calls it. Both may be
	// unknown.
	ResetAt time.Time `json:"reset_at,omitzero"`
	Scope   string    `json:"scope,omitempty"`

	// RetryAfter is how long the service asks to wait, or 0 if it does not.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

// permanent reports whether another attempt would fail in the same way: the workflow file is wrong, a program
// is missing, or an AI has refused.
func permanent(f Failure, t Type) bool {
	switch t {
	case TypeRefused, TypeInvalidRequest, TypeBudget, TypeTemplate, TypeCommandNotFound:
		return true
	}
	return f.ExitCode == 126 || f.ExitCode == 127
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
