package retry

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"prodigy/internal/check"
)

// Matcher is one entry of retry_on. Exactly one of its exported fields is set.
type Matcher struct {
	Name      string // network, timeout, server_error, rate_limit; empty with the others
	Pattern   string // a regular expression (RE2), case-sensitive unless it says otherwise
	ExitCodes []int
}

// MatcherNames returns the error types that retry_on can name.
func MatcherNames() []string {
	return check.Each(retryTypes, func(t Type) string { return string(t) })
}

// ReadText reads the name of an error type, which may be written in any case style, as in ServerError or server-error.
func (m *Matcher) ReadText(name string) error {
	names := MatcherNames()
	for _, known := range names {
		if check.Fold(name) == check.Fold(known) {
			*m = Matcher{Name: known}
			return nil
		}
	}
	forms := strings.Join(names, ", ") + ", {pattern: …} or {exit_code: […]}"
	if name == "" {
		return check.Sentencef("an entry of retry_on must be one of: %s", forms)
	}
	return check.Sentencef("unknown matcher %q in retry_on%s", name, check.Hint(name, names, forms))
}

// CheckPattern returns what is wrong with a regular expression, with the part of it that is to blame.
func CheckPattern(expr string) error {
	_, err := regexp.Compile(expr)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Errorf("invalid regular expression in pattern %q: %s: %s", expr, bad.Code, bad.Expr)
	}
	return err
}

// String returns m as it is written in a workflow file.
func (m Matcher) String() string {
	switch {
	case m.Pattern != "":
		return fmt.Sprintf("{pattern: %q}", m.Pattern)
	case len(m.ExitCodes) > 0:
		return "{exit_code: " + strings.ReplaceAll(fmt.Sprint(m.ExitCodes), " ", ", ") + "}"
	}
	return m.Name
}

// matches reports whether m matches the failure. What a step printed before its own timeout may give it another type;
// timeout matches it all the same.
func (m Matcher) matches(f Failure) bool {
	switch {
	case m.Pattern != "":
		re, err := regexp.Compile(m.Pattern)
		if err != nil { // which Check has refused
			return false
		}
		for _, text := range [...]string{f.Message, f.Stderr, f.Stdout} {
			// Without the last newline, $ is the end of what was printed.
			if re.MatchString(strings.TrimRight(text, "\r\n")) {
				return true
			}
		}
		return false
	case len(m.ExitCodes) > 0:
		return slices.Contains(m.ExitCodes, f.ExitCode)
	}
	return m.Name == string(Classify(f)) || m.Name == string(TypeTimeout) && f.TimedOut
}
