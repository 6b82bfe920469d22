package cli

import (
	"context"
	"os"

	"prodigy/internal/job"
	"prodigy/internal/term"
)

// keysHelp says what the keys of the terminal do while a job runs on it.
const keysHelp = "p pauses and continues, + and - change the slots, q drains, Ctrl-C stops"

// keysHint stands below the live lines, if there is room.
const keysHint = "p pause  + - slots  q drain  ? keys"

// keyRequest returns what a key asks a job for. It reports false for a key that asks for nothing.
func keyRequest(key byte) (job.Request, bool) {
	switch key {
	case 'p', 'P':
		return job.Request{Do: job.Toggle}, true
	case '+', '=': // the same key
		return job.Request{Do: job.Scale, Change: 1}, true
	case '-', '_':
		return job.Request{Do: job.Scale, Change: -1}, true
	case 'q', 'Q':
		return job.Request{Do: job.Drain}, true
	}
	return job.Request{}, false
}

// keysFrom returns the terminal whose keys steer a job, or nil if none does. There must be live lines, and nobody else who
// reads the terminal.
func (p *printer) keysFrom() *os.File {
	reads := p.workflow != nil && p.workflow.Map != nil && p.workflow.Map.Input.Stdin
	if !p.screen.Live || reads || !term.Is(os.Stdin) {
		return nil
	}
	return os.Stdin
}

// readKeys does what the keys ask for, until ctx ends.
func (p *printer) readKeys(ctx context.Context, terminal *os.File) {
	say := func(text string) {
		select {
		case p.notices <- notice{text: text}:
		case <-ctx.Done():
		}
	}
	_ = term.ReadKeys(ctx, terminal, func(key byte) { // without keys the job runs as well
		if key == '?' || key == 'h' {
			say(keysHelp)
			return
		}
		r, ok := keyRequest(key)
		if !ok {
			return
		}
		if a, ok := p.steer.do(r); ok && !a.Recorded { // of what is recorded the records tell
			say(term.Visible(a.Text))
		}
	})
}
