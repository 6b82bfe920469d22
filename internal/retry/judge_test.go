package retry_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"prodigy/internal/retry"
	"prodigy/internal/shell"
)

// recorded is a failure of a real program with what caused it, as testdata/failures.jsonl has it.
type recorded struct {
	ID       string
	Command  string
	ExitCode int `json:"exit_code"`
	Signal   int
	Stdout   string
	Stderr   string
	Label    string
	Retry    string
	Right    []string
}

func (r recorded) failure() retry.Failure {
	f := retry.Failure{ExitCode: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr, Message: "exit code"}
	if r.Signal != 0 {
		f.Signal = syscall.Signal(r.Signal).String()
	}
	return f
}

// kind is what a type means for another try.
func kind(t retry.Type) string {
	switch t {
	case retry.TypeNetwork, retry.TypeTimeout, retry.TypeServerError:
		return "transient"
	case retry.TypeRateLimit, retry.TypeQuota:
		return "rate_limit"
	}
	return "permanent"
}

// TestRecordedFailuresAreJudgedByTheirCause holds what Judge makes of failures against what caused them: of those
// that its tables were made from, and of those in unseen.jsonl that it once judged wrong.
func TestRecordedFailuresAreJudgedByTheirCause(t *testing.T) {
	var data []byte
	for _, name := range []string{"testdata/failures.jsonl", "testdata/unseen.jsonl"} {
		read, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, read...)
	}
	right, total, confusion := 0, 0, map[string]int{}
	for line := range strings.Lines(string(data)) {
		var r recorded
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		total++
		typ, rule := retry.Judge(r.failure(), shell.Deciders(r.Command))
		confusion[r.Label+" as "+string(typ)]++
		if slices.Contains(r.Right, kind(typ)) {
			right++
			continue
		}
		t.Errorf("%s: got %s by %s, want %s (%v): %.100s\n%s", r.ID, typ, rule, r.Label, r.Right, r.Command, end(r.Stdout+r.Stderr))
	}
	t.Logf("%d of %d", right, total)
	for _, c := range slices.Sorted(func(yield func(string) bool) {
		for c := range confusion {
			if !yield(c) {
				return
			}
		}
	}) {
		t.Logf("%3d %s", confusion[c], c)
	}
}

// said are messages of programs that testdata has no recording of, and texts that only look like them.
var said = []struct {
	text string
	code int
	want retry.Type
}{
	{"Error response from daemon: toomanyrequests: You have reached your pull rate limit.", 1, retry.TypeRateLimit},
	{"ERROR: [generic] Unable to download webpage: HTTP Error 429: Too Many Requests", 1, retry.TypeRateLimit},
	{"gh: API rate limit exceeded for user ID 1. (HTTP 403)", 1, retry.TypeRateLimit},
	{"upload failed: An error occurred (SlowDown) when calling the PutObject operation: Please reduce your request rate.", 1, retry.TypeRateLimit},
	{"rpc error: code = ResourceExhausted desc = quota", 1, retry.TypeRateLimit},
	{"rpc error: code = Unavailable desc = connection error: desc = \"transport: error while dialing\"", 1, retry.TypeServerError},
	{"ERROR 2003 (HY000): Can't connect to MySQL server on '127.0.0.1:3306' (111)", 1, retry.TypeNetwork},
	{"ERROR 2013 (HY000): Lost connection to MySQL server during query", 1, retry.TypeNetwork},
	{"ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: YES)", 1, retry.TypeAuth},
	{"ERROR 1064 (42000): You have an error in your SQL syntax near 'timeout'", 1, retry.TypeCommandFailed},
	{"psql: error: connection to server at \"db\", port 5432 failed: FATAL:  sorry, too many clients already", 2, retry.TypeServerError},
	{"psql: error: connection to server at \"db\", port 5432 failed: FATAL:  password authentication failed for user \"x\"", 2, retry.TypeAuth},
	{"Could not connect to Redis at 127.0.0.1:6379: Connection refused", 1, retry.TypeNetwork},
	{"(error) LOADING Redis is loading the dataset in memory", 1, retry.TypeServerError},
	{"fatal: the remote end hung up unexpectedly", 128, retry.TypeNetwork},
	{"error: RPC failed; curl 56 GnuTLS recv error (-110): The TLS connection was non-properly terminated.\nfatal: early EOF", 128, retry.TypeNetwork},
	{"remote: Repository not found.\nfatal: repository 'https://github.com/a/b/' not found", 128, retry.TypeCommandFailed},
	{"fatal: Authentication failed for 'https://github.com/a/b/'", 128, retry.TypeAuth},
	{"urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", 1, retry.TypeNetwork},
	{"Error: getaddrinfo EAI_AGAIN api.example.com", 1, retry.TypeNetwork},
	{"ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", 1, retry.TypeClientError},
	{"ssl.SSLCertVerificationError: [SSL] certificate verify failed: self-signed certificate\n\n" +
		"The above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n" +
		"openai.APIConnectionError: Connection error.", 1, retry.TypeClientError},
	{"Errno::ECONNREFUSED: Failed to open TCP connection to x:80 (Connection refused - connect(2) for x:80)", 1, retry.TypeNetwork},
	{"get.rb:3:in `open': execution expired (Net::OpenTimeout)", 1, retry.TypeTimeout},
	{"PHP Warning:  file_get_contents(http://x/): Failed to open stream: Connection refused in /srv/x.php on line 3", 255, retry.TypeNetwork},
	{"Can't connect to 127.0.0.1:80 (Connection refused) at get.pl line 4.", 255, retry.TypeNetwork},
	{"Unhandled exception. System.Net.Http.HttpRequestException: Connection refused (127.0.0.1:80)\n   at X.Y()", 134, retry.TypeNetwork},
	{"Error: reqwest::Error { kind: Request, source: ConnectError(\"tcp connect error\", Os { code: 111, message: \"Connection refused\" }) }", 1, retry.TypeNetwork},
	{"panic: Get \"http://x/\": dial tcp 127.0.0.1:80: connect: connection refused\n\ngoroutine 1 [running]:\nmain.main()\n\t/srv/a.go:9 +0x1", 2, retry.TypeNetwork},
	{"Error: Could not acquire lock\nError message: Error acquiring the state lock", 1, retry.TypeResource},
	{"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno 111] Connection refused')': /simple/x/\nERROR: Could not find a version that satisfies the requirement x\nERROR: No matching distribution found for x", 1, retry.TypeNetwork},
	{"[ERROR] Failed to execute goal: Could not transfer artifact a:b from central: Connection refused -> [Help 1]\n[ERROR] \n[ERROR] Re-run Maven using the -X switch", 1, retry.TypeNetwork},
	{"connect failed connection refused\n    while executing\n\"http::geturl $url\"\n    (file \"get.tcl\" line 2)", 1, retry.TypeNetwork},
	{"server said HTTP/1.1 429 Too Many Requests\n    while executing\n\"error $said\"\n    (file \"get.tcl\" line 4)", 1, retry.TypeRateLimit},
	{"http://127.0.0.1/rows: 503 Service Unavailable upstream connect error or reset before headers", 255, retry.TypeServerError},
	{"40A7:error:8000006F:system library:BIO_connect:Connection refused:../crypto/bio/bio_sock2.c:117:calling connect()\n" +
		"40A7:error:10000067:BIO routines:BIO_connect:connect error:../crypto/bio/bio_sock2.c:119:\nconnect:errno=111", 1, retry.TypeNetwork},
	{"bash: line 1: rows.invalid: Name or service not known\nbash: line 1: /dev/tcp/rows.invalid/80: Invalid argument", 1, retry.TypeNetwork},
	{"pgbench: error: connection to server at \"127.0.0.1\", port 1 failed: Connection refused\n" +
		"\tIs the server running on that host?\npgbench: error: could not create connection for setup", 1, retry.TypeNetwork},
	{"try 1: <urlopen error [Errno 111] Connection refused>\ntry 2: <urlopen error [Errno 111] Connection refused>\n" +
		"all tries failed", 1, retry.TypeNetwork},
	{"attempt 1: HTTP 503\nattempt 2: HTTP 503\nFailed after 2 attempts.", 1, retry.TypeServerError},
	{"lua: get.lua:2: request failed: timeout\nstack traceback:\n\t[C]: in function 'error'\n\tget.lua:2: in main chunk\n\t[C]: in ?", 1, retry.TypeTimeout},
	{"lua: get.lua:1: closed\nstack traceback:\n\t[C]: in function 'assert'\n\tget.lua:1: in main chunk\n\t[C]: in ?", 1, retry.TypeNetwork},
	{"lua: get.lua:2: request failed: host or service not provided, or not known\nstack traceback:\n\t[C]: in ?", 1, retry.TypeNetwork},
	{"stripe._error.APIError: Invalid response body from API: oops (HTTP response code was 503)", 1, retry.TypeServerError},
	{"github.GithubException.GithubException: 503 {\"data\": \"oops\"}", 1, retry.TypeServerError},
	{"github.GithubException.UnknownObjectException: 404 {\"message\": \"Not Found\"}", 1, retry.TypeClientError},
	{"gitlab.exceptions.GitlabGetError: 503: upstream connect error or disconnect/reset before headers", 1, retry.TypeServerError},
	{"hvac.exceptions.VaultDown: , on get http://127.0.0.1:8200/v1/secret/data/a", 1, retry.TypeServerError},
	{"fetching rows: upstream request timeout", 1, retry.TypeTimeout},
	{"nats.errors.Error: nats: empty response from server when expecting INFO message", 1, retry.TypeNetwork},
	{"gpg: keyserver receive failed: No keyserver available", 2, retry.TypeNetwork},
	{"Exception in thread \"main\" java.lang.IllegalStateException: unexpected status 503\n\tat Get.main(Get.java:4)", 1, retry.TypeServerError},
	{"Exception in thread \"main\" java.net.UnknownHostException: rows.invalid\n\tat Get.main(Get.java:4)", 1, retry.TypeNetwork},

	{"System has not been booted with systemd as init system (PID 1). Can't operate.\n" +
		"Failed to connect to bus: Host is down", 1, retry.TypeCommandFailed},
	{"WARN connection refused, retrying\nrow 7 has no total\ngiving up", 1, retry.TypeCommandFailed},
	{"attempt 1: no total in row 7\nattempt 2: no total in row 7\nall attempts failed", 1, retry.TypeCommandFailed},
	{"lua: load.lua:7: timeout is no column\nstack traceback:\n\t[C]: in ?", 1, retry.TypeCommandFailed},
	{"load.RowException: 503 has no total", 1, retry.TypeCommandFailed},
	{"KeyError: Timeout", 1, retry.TypeCommandFailed},
	{"Exception in thread \"main\" java.lang.IllegalStateException: row 503 has no total\n\tat Get.main(Get.java:4)", 1, retry.TypeCommandFailed},
	{"row 12: connection reset is no known state\n    while executing\n\"error $said\"\n    (file \"a.tcl\" line 1)", 1, retry.TypeCommandFailed},
	{"parse error at line 500", 1, retry.TypeCommandFailed},
	{"invoice 429: amount is negative", 1, retry.TypeCommandFailed},
	{"NameError: name 'network' is not defined", 1, retry.TypeCommandFailed},
	{"KeyError: 'connection'", 1, retry.TypeCommandFailed},
	{"recursion limit reached", 1, retry.TypeCommandFailed},
	{"open file limit reached", 1, retry.TypeCommandFailed},
	{"WARN connection refused, retrying\nconnected\ntotal is missing in row 7", 1, retry.TypeCommandFailed},
	{"config.yml: unknown key: timeout", 1, retry.TypeCommandFailed},
	{"expected 'Connection refused', got 'ok'", 1, retry.TypeCommandFailed},
	{"column \"timeout\" does not exist", 1, retry.TypeCommandFailed},
	{"usage: fetch [--timeout SECONDS]", 2, retry.TypeCommandFailed},
	{"error: 503 files differ", 1, retry.TypeCommandFailed},
	{"ERROR:  column \"connection timed out\" does not exist\nLINE 1: select \"connection timed out\" from t", 1, retry.TypeCommandFailed},
	{"psql: error: connection to server at \"db\", port 5432 failed: FATAL:  role \"connection_reset\" does not exist", 2, retry.TypeClientError},
	{"fetch: error: argument --timeout: invalid int value: 'connection refused'", 2, retry.TypeCommandFailed},
	{"docs/errors.md: 'Connection refused' is not documented", 1, retry.TypeCommandFailed},
	{"status: 500 items checked, 3 wrong", 1, retry.TypeCommandFailed},
	{"bad record: error: connection reset by peer: no such code in the table", 1, retry.TypeCommandFailed},
	{"curl: (7) Failed to connect to x port 80\ncat: rows-429.csv: No such file or directory", 1, retry.TypeCommandFailed},
}

func TestMessagesOfPrograms(t *testing.T) {
	for _, c := range said {
		got, rule := retry.Judge(retry.Failure{ExitCode: c.code, Stderr: c.text}, nil)
		if got != c.want {
			t.Errorf("got %s by %s, want %s: %s", got, rule, c.want, c.text)
		}
	}
}

// TestAScriptThatEndsEarly holds that what a script says decides where it may have ended before its last command.
func TestAScriptThatEndsEarly(t *testing.T) {
	refused := "curl: (7) Failed to connect to 127.0.0.1 port 8099 after 0 ms: Couldn't connect to server"
	for _, c := range []struct {
		script, stderr string
		code           int
		want           retry.Type
	}{
		{"curl -sSf $url -o f || exit 1\ngzip f", refused, 1, retry.TypeNetwork},
		{"if ! curl -sSf $url -o f; then exit 2; fi; jq . f", refused, 2, retry.TypeNetwork},
		{"die() { echo \"$1\" >&2; exit 1; }\npython3 get.py || die 'no rows'\nsort rows", "TimeoutError: timed out\nno rows", 1, retry.TypeCommandFailed},
		{"curl -sSf $url -o f || exit 1\njq .rows f", "jq: error (at f:1): Cannot index number with \"rows\"", 5, retry.TypeCommandFailed},
		{"[ -e f ] || exit 1\ncat f", "", 1, retry.TypeCommandFailed},
		{"[ -e f ] || { echo 'f: connection refused is missing' >&2; exit 1; }\ncat f", "f: connection refused is missing", 1, retry.TypeCommandFailed},
	} {
		got, rule := retry.Judge(retry.Failure{ExitCode: c.code, Stderr: c.stderr}, shell.Deciders(c.script))
		if got != c.want {
			t.Errorf("got %s by %s, want %s: %s", got, rule, c.want, c.script)
		}
	}
}

func end(s string) string { return s[max(0, len(s)-300):] }

// A message that only repeats the exit code says nothing, whatever the code is.
func TestAMessageThatRepeatsTheExitCodeSaysNothing(t *testing.T) {
	for code := range 256 {
		f := retry.Failure{ExitCode: code}
		want, wantRule := retry.Judge(f, []string{"curl"})
		f.Message = "exit code " + strconv.Itoa(code)
		if got, rule := retry.Judge(f, []string{"curl"}); got != want || rule != wantRule {
			t.Errorf("%s: got %s by %q, want %s by %q", f.Message, got, rule, want, wantRule)
		}
	}
}
