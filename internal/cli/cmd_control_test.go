package cli

import "testing"

func TestAUserIsNamedByThePasswd(t *testing.T) {
	const passwd = "# a comment\nroot:x:0:0:root:/root:/bin/sh\n\nshort:x:7\nalice:x:1000:1000::/home/alice:/bin/sh"
	for uid, want := range map[string]string{"0": "root", "1000": "alice", "7": "", "100": "", "x": ""} {
		if got := nameOf(uid, passwd); got != want {
			t.Errorf("user %s is %q, want %q", uid, got, want)
		}
	}
}
