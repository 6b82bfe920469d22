package cli

import (
	"bytes"
	"io"
	"testing"

	"prodigy/internal/workflow"
)

// Notices are broken between words, as the lines of the log are.
func TestNoticesAreFoldedInATerminal(t *testing.T) {
	var b bytes.Buffer
	con := &console{err: &b, out: io.Discard, live: true, noColor: true, size: func() (int, int) { return 40, 20 }}
	p := newPrinter(con, jobOptions{}, &workflow.Workflow{})
	p.tell(notice{text: "worker beta is lost, and what it had goes elsewhere: 2"})
	if got, want := b.String(), "worker beta is lost, and what it had\n  goes elsewhere: 2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
