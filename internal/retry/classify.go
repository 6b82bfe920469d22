package retry

import (
	"slices"
	"strings"
	"time"
)

// Type classifies a failure, for matchers, metrics and the dead letter queue.
type Type string

const (
	TypeTimeout         Type = "timeout"
	TypeNetwork         Type = "network"
	TypePermission      Type = "permission"
	TypeRateLimit       Type = "rate_limit"
	TypeServerError     Type = "server_error"
	TypeCommandFailed   Type = "command_failed"
	TypeCommandNotFound Type = "command_not_found"
	TypeKilled          Type = "killed"
	TypeOOM             Type = "oom" // killed by the kernel for lack of memory; only on Linux this is told from killed
	TypeCircuitOpen     Type = "circuit_open"
	TypeTemplate        Type = "template"
	TypeCommitMissing   Type = "commit_missing"
	TypeInternal        Type = "internal"

	// What an AI coding CLI says of its own end, see package aicli.
	TypeQuota          Type = "quota"
	TypeAuth           Type = "auth"
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
	TypeWorkspace     Type = "workspace"      // what an agent left in its workspace cannot be told, or its workspace not be set up
)

// AfterAttempt reports whether a failure of the type comes after an attempt that succeeded, or says nothing of it.
func (t Type) AfterAttempt() bool {
	return t == TypeKilledRunner || t == TypeSkipped || t == TypeMergeConflict || t == TypeVerifyFailed
}

// errorType is how one type of failure is recognised: by any of its exit codes, phrases, words or numbers.
type errorType struct {
	name      Type
	matcher   bool // its name can stand in retry_on
	exitCodes []int
	phrases   []string // in lower case, anywhere in the text
	except    []string // phrases that hold one of phrases and mean something else
	words     []string // in lower case, as whole words
	numbers   []string // as whole numbers
}

// errorTypes is the table of the types that Classify recognises; the first row that matches wins. A shell exits with 128 plus the signal
// if its program was killed; only signals that other programs send on purpose are listed.
var errorTypes = []errorType{
	{name: TypeCommandNotFound, exitCodes: []int{127}},
	{name: TypeKilled, exitCodes: []int{128 + 9, 128 + 15}},
	{name: TypePermission, exitCodes: []int{126}, phrases: []string{"permission denied", "eacces"}},
	{
		name: TypeRateLimit, matcher: true,
		phrases: []string{
			"rate limit", "too many requests",
			"usage limit", "limit reached", "you've hit your", "you’ve hit your", "out of extra usage", "quota", // of AI plans
		},
		except:  []string{"disk quota", "memory limit reached", "time limit reached"},
		numbers: []string{"429"},
	},
	{
		name: TypeServerError, matcher: true,
		phrases: []string{"server error", "server_error", "overloaded_error", "server had an error", "currently overloaded", "high demand", "at capacity"},
		numbers: []string{"500", "502", "503", "504", "529"},
	},
	{
		name: TypeNetwork, matcher: true,
		phrases: []string{"network", "connection", "refused", "unreachable", "econnreset", "dns"},
		words:   []string{"reset"}, // a limit resets at some time
	},
	{name: TypeTimeout, matcher: true, phrases: []string{"timeout", "timed out"}},
	{name: TypeOOM, matcher: true},           // told by the kernel alone
	{name: TypeMergeConflict, matcher: true}, // never told by a text
	{name: TypeVerifyFailed, matcher: true},
	{name: TypeMissingOutput, matcher: true},
	{name: TypeQuota, matcher: true}, // these are told by nothing but the output of an AI coding CLI
	{name: TypeAuth, matcher: true},
	{name: TypeRefused, matcher: true},
	{name: TypeIncomplete, matcher: true},
	{name: TypeInvalidRequest, matcher: true},
	{name: TypeStalled, matcher: true},
	{name: TypeBudget, matcher: true},
}

// Failure is what is known of one failed attempt.
type Failure struct {
	Type     Type   `json:"type,omitempty"`      // set by who knows better than Classify (template, circuit_open, ...); else empty
	Message  string `json:"message"`             // one line for people
	Stdout   string `json:"stdout,omitempty"`    // its end
	Stderr   string `json:"stderr,omitempty"`    // its end
	ExitCode int    `json:"exit_code"`           // -1 when there is none: a signal, a timeout, a start that did not happen
	Signal   string `json:"signal,omitempty"`    // "SIGKILL", ...; empty when it exited
	TimedOut bool   `json:"timed_out,omitempty"` // the step's own timeout ended it
	Exact    bool   `json:"exact,omitempty"`     // Message alone says what it was: the rest of what was printed is about other things too

	Rule       string        `json:"rule,omitempty"`        // of an AI coding CLI: which rule has decided, as in claude/usage_limit
	ResetAt    time.Time     `json:"reset_at,omitzero"`     // with TypeQuota: when the limit ends; zero: it is not known
	Scope      string        `json:"scope,omitempty"`       // with TypeQuota: which limit, as the CLI calls it
	RetryAfter time.Duration `json:"retry_after,omitempty"` // how long the service asks to wait; 0: it does not say
}

// Classify returns f.Type if it is set, else the type by the message, stderr, the end of stdout and the exit code.
func Classify(f Failure) Type {
	switch {
	case f.Type != "":
		return f.Type
	case f.TimedOut:
		return TypeTimeout
	case f.Signal != "":
		return TypeKilled
	}
	texts := lowerTexts(f)
	for _, t := range errorTypes {
		if slices.Contains(t.exitCodes, f.ExitCode) || t.inTexts(texts) {
			return t.name
		}
	}
	return TypeCommandFailed
}

// permanent reports whether another attempt would fail in the same way: the workflow file is wrong, a program is missing, or an AI
// has refused.
func permanent(f Failure, t Type) bool {
	switch t {
	case TypeRefused, TypeInvalidRequest, TypeBudget:
		return true
	}
	return t == TypeTemplate || t == TypeCommandNotFound || f.ExitCode == 126 || f.ExitCode == 127
}

func lowerTexts(f Failure) [3]string {
	if f.Exact {
		return [3]string{strings.ToLower(f.Message)}
	}
	return [3]string{strings.ToLower(f.Message), strings.ToLower(f.Stderr), strings.ToLower(f.Stdout)}
}

func (t errorType) inTexts(texts [3]string) bool {
	for _, text := range texts {
		for _, phrase := range t.except {
			text = strings.ReplaceAll(text, phrase, "")
		}
		in := func(phrase string) bool { return strings.Contains(text, phrase) }
		number := func(number string) bool { return hasNumber(text, number) }
		word := func(word string) bool { return hasWord(text, word) }
		if slices.ContainsFunc(t.phrases, in) || slices.ContainsFunc(t.words, word) || slices.ContainsFunc(t.numbers, number) {
			return true
		}
	}
	return false
}

// hasWord reports whether word stands in text with no letter, digit or underscore beside it.
func hasWord(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		before, after := text[:at+i], text[at+i+len(word):]
		if (before == "" || !isWord(before[len(before)-1])) && (after == "" || !isWord(after[0])) {
			return true
		}
		at += i + len(word)
	}
}

// hasNumber reports whether number is in text as a separate word: "HTTP/2 503" and "status=503." do,
// "5030", "503ms", "x503", "1.503" and "1,503" do not.
func hasNumber(text, number string) bool {
	for i := 0; ; i++ {
		at := strings.Index(text[i:], number)
		if at < 0 {
			return false
		}
		i += at
		if !endsInWord(text[:i]) && !startsWithWord(text[i+len(number):]) {
			return true
		}
	}
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
