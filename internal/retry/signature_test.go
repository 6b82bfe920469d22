package retry

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSignatureHidesWhatDiffersFromItemToItem(t *testing.T) {
	for message, want := range map[string]string{
		"":                                "",
		"exit status 7":                   "exit status 7",
		"exit code 22: port 8080":         "exit code 22: port <n>",
		"exited with code 137 after 12 s": "exited with code 137 after <n> s",
		"curl: (22) The requested URL returned error: 404": "curl: (<n>) The requested URL returned error: 404",
		"HTTP/1.1 503 Service Unavailable":                 "<path> 503 Service Unavailable",
		"HTTP 429 after 3 tries":                           "HTTP 429 after <n> tries",
		"GET /x: 500 Internal Server Error":                "GET <path>: 500 Internal Server Error",
		"Error 429: slow down":                             "Error 429: slow down",
		`{"status": 404, "id": 404}`:                       "{<text>: 404, <text>: <n>}",
		"status_code=503 request_id=503":                   "status_code=503 request_id=<n>",
		"item 404 failed, error 17 of 30":                  "item <n> failed, error <n> of <n>",
		"status 12345, code 4x":                            "status <n>, code <n>x",
		"took 1.5s, limit 1,000":                           "took <n>s, limit <n>",
		"item_12 failed at step3":                          "item_<n> failed at step<n>",
		"address 0xDEADbeef1":                              "address <hex>",
		"commit 4f3a2b1c is bad":                           "commit <hex> is bad",
		"agent-4f3a2b1c_9e8d7c6b5 died":                    "agent-<hex>_<hex> died",
		"defaced facade":                                   "defaced facade",
		"cannot open /var/lib/x/12.json: gone":             "cannot open <path>: gone",
		"src/main.go:12:5: undefined":                      "<path>:<n>:<n>: undefined",
		"see ./a/b.":                                       "see <path>.",
		`C:\Users\me\x.txt is missing`:                     "<path> is missing",
		"GET https://h.example/x?id=1&b=2: 503":            "GET <path>: <n>",
		"connect 10.0.0.1:8080 refused":                    "connect <n>:<n> refused",
		`no field "name 1" in 'it's here'`:                 "no field <text> in <text>",
		"cannot stat ‘a b’: no":                            "cannot stat <text>: no",
		"cannot stat `a b': no":                            "cannot stat <text>: no",
		"it's broken, isn't it":                            "it's broken, isn't it",
		`an "open quote`:                                   `an "open quote`,
		"at 2026-11-20T16:15:30.123456Z failed":            "at <time> failed",
		"at 2026-11-20 16:15:30,123 +0100":                 "at <time> +<n>",
		"2026-11-20T16:15:30+01:00: late":                  "<time>: late",
		"Nov 20 16:15:30 host":                             "Nov <n> <time> host",
		"on 2026-11-20: late":                              "on <time>: late",
		"on 2026/11/20, late":                              "on <time>, late",
		"id 123e4567-e89b-12d3-a456-426614174000 gone":     "id <uuid> gone",
		"job_123e4567-e89b-12d3-a456-426614174000: gone":   "job_<uuid>: gone",
		" two\n lines\tand\x1b ":                           "two lines and",
		"read/write":                                       "<path>",
		"a / b":                                            "a / b",
		"größe 12 ist falsch":                              "größe <n> ist falsch",
	} {
		if got := Signature(message); got != want {
			t.Errorf("Signature(%q):\ngot  %q\nwant %q", message, got, want)
		}
	}
}

func TestSignatureIsShortAndEndsWithAWholeCharacter(t *testing.T) {
	for _, start := range []string{"", "x", "xx", "xxx"} {
		got := Signature(start + strings.Repeat("€", 5000))
		if len(got) > 200 || len(got) < 197 || !utf8.ValidString(got) {
			t.Errorf("got %d bytes %q, want 197 to 200 bytes of whole characters", len(got), got)
		}
	}
}

func TestFailuresThatDifferInNumbersHaveOneSignature(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[g-z]{1,8}[,:]?`), 1, 8).Draw(t, "words")
		at := rapid.IntRange(0, len(words)-1).Draw(t, "at")
		with := func(name string) string {
			n := rapid.StringMatching(`[0-9]{1,20}`).Draw(t, name)
			return strings.Join(words[:at], " ") + " " + n + " " + strings.Join(words[at:], " ")
		}
		a, b := with("a"), with("b")
		if Signature(a) != Signature(b) {
			t.Fatalf("got %q and %q, want one signature", Signature(a), Signature(b))
		}
	})
}

func FuzzSignature(f *testing.F) {
	for _, s := range []string{"", "exit status 7", "/a/b:1", `"x" ‘y’`, "2026-11-20T16:15:30Z", "0x1f", "a\xffb", ":\\", "16:15:30."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		got := Signature(message)
		long := strings.FieldsFunc(got, func(r rune) bool { return r < '0' || r > '9' })
		tooLong := slices.ContainsFunc(long, func(digits string) bool { return len(digits) > 3 })
		if len(got) > 200 || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t") || tooLong {
			t.Errorf("Signature(%q): got %q, want one line of at most 200 bytes without a number of more than three digits", message, got)
		}
	})
}
