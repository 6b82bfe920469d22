package retry

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMatchersRecogniseFailures(t *testing.T) {
	named := func(name string) Matcher { return Matcher{Name: name} }
	failed := func(stderr string) Failure { return Failure{ExitCode: 1, Stderr: stderr} }
	for _, c := range []struct {
		matcher Matcher
		failure Failure
		want    bool
	}{
		{named("network"), failed("Network is down"), true},
		{named("network"), failed("CONNECTION lost"), true},
		{named("network"), failed("refused"), false},
		{named("network"), failed("host unreachable"), true},
		{named("network"), failed("reset by peer"), true},
		{named("network"), Failure{Type: TypeServerError, Stderr: "connection refused"}, false},
		{named("network"), failed("your limit resets 6:14am"), false},
		{named("network"), Failure{Message: "Invalid API key", Exact: true, Stdout: `{"network":1}`}, false},
		{named("network"), failed("DNS lookup failed"), true},
		{named("network"), failed("disk full"), false},
		{named("network"), Failure{Message: "connection refused"}, true},
		{named("network"), Failure{Stdout: "connection refused"}, true},
		{named("timeout"), failed("Error: timeout"), true},
		{named("timeout"), failed("it timed out"), true},
		{named("timeout"), Failure{TimedOut: true}, true},
		{named("timeout"), Failure{Type: TypeTimeout}, true},
		{named("network"), Failure{TimedOut: true}, false},
		{named("timeout"), failed("out of time"), false},
		{named("server_error"), failed("HTTP 500"), true},
		{named("server_error"), failed("HTTP 502"), true},
		{named("server_error"), failed("HTTP 503"), true},
		{named("server_error"), failed("HTTP 504"), true},
		{named("server_error"), failed("HTTP 501"), false},
		{named("server_error"), failed("5000 bytes"), false},
		{named("server_error"), failed("Server Error"), true},
		{named("rate_limit"), failed("Rate limit reached"), true},
		{named("rate_limit"), failed("HTTP 429"), true},
		{named("rate_limit"), failed("4290"), false},
		{named("rate_limit"), failed("too many requests"), true},
		{named("server_error"), failed("429 connection"), false},
		{Matcher{Pattern: "^E[0-9]+$"}, failed("E17"), true},
		{Matcher{Pattern: "^E[0-9]+$"}, failed("e17"), false},
		{Matcher{Pattern: "(?i)^E[0-9]+$"}, failed("e17"), true},
		{Matcher{Pattern: "^E[0-9]+$"}, Failure{Stdout: "E17", Stderr: "x"}, true},
		{Matcher{Pattern: "^E[0-9]+$"}, Failure{Message: "E17"}, true},
		{Matcher{Pattern: "E[0-9]+$"}, Failure{Message: "exit code 1", Stdout: "one\nE17\n"}, true},
		{Matcher{Pattern: "E[0-9]+$"}, Failure{Message: "exit code 1", Stderr: "E17\r\n"}, true},
		{Matcher{Pattern: "E[0-9]+$"}, Failure{Message: "exit code 1", Stdout: "E17\nmore\n"}, false},
		{Matcher{Pattern: "("}, failed("("), false},
		{Matcher{ExitCodes: []int{75, 111}}, Failure{ExitCode: 111}, true},
		{Matcher{ExitCodes: []int{75, 111}}, Failure{ExitCode: 1}, false},
	} {
		if got := c.matcher.matches(c.failure); got != c.want {
			t.Errorf("%v on %+v: got %v, want %v", c.matcher, c.failure, got, c.want)
		}
	}
}

func TestATextThatIsNoMatcherIsExplained(t *testing.T) {
	for text, want := range map[string][]string{
		"netwrok":        {`"netwrok"`, `did you mean "network"?`},
		"somethingelse":  {`unknown matcher "somethingelse" in`, "rate_limit", "{exit_code: […]}"},
		"command_failed": {"unknown matcher"},
		"":               {"one of", "{exit_code: […]}"},
	} {
		err := new(Matcher).ReadText(text)
		if err == nil {
			t.Errorf("%q: got no error, want one with %q", text, want)
			continue
		}
		for _, want := range want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %q, want it to contain %q", text, err, want)
			}
		}
	}
	for _, name := range append(MatcherNames(), "RateLimit", "Rate_Limit") {
		if err := new(Matcher).ReadText(name); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
	err := CheckPattern("a(b")
	if err == nil || !strings.Contains(err.Error(), `pattern "a(b"`) || !strings.Contains(err.Error(), "missing closing )") {
		t.Errorf("a pattern with a mistake: got %v", err)
	}
}

func TestTheTypesThatHaveNamedMatchers(t *testing.T) {
	want := []string{"rate_limit", "server_error", "network", "timeout", "resource", "oom", "merge_conflict", "verify_failed", "missing_output", "quota", "auth", "refused", "incomplete", "invalid_request", "stalled", "budget"}
	if diff := cmp.Diff(MatcherNames(), want); diff != "" {
		t.Errorf("names (-got +want):\n%s", diff)
	}
}

func TestMatchersSurviveJSON(t *testing.T) {
	p := Default()
	p.RetryOn = []Matcher{{Pattern: "E1+"}, {Name: "network"}, {ExitCodes: []int{7}}}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var got Policy
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, p); diff != "" {
		t.Errorf("policy after JSON (-got +want):\n%s", diff)
	}
}

func TestMatcherReadsAsItIsWritten(t *testing.T) {
	for want, m := range map[string]Matcher{
		"network":                {Name: "network"},
		`{pattern: "a b"}`:       {Pattern: "a b"},
		"{exit_code: [75, 111]}": {ExitCodes: []int{75, 111}},
	} {
		if got := m.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzMatcherCheck(f *testing.F) {
	for _, s := range []string{"network", "a(b", "", "[", "(?i)x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := Matcher{Pattern: text}
		_ = CheckPattern(text)
		m.matches(Failure{Message: text})
		Matcher{Name: text}.matches(Failure{Stderr: text})
	})
}
