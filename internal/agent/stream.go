package agent

import (
	"prodigy/internal/mask"
	"prodigy/internal/process"
)

// stream keeps what a command prints: as it is for the steps of this run, and without secrets for everything that is written or
// shown. Secrets are taken out before anything is cut off, since half of one would not be found any more.
type stream struct {
	process.Capture // as it is

	without process.Capture // the same without secrets
	masking *mask.Writer    // nil: there are none
}

func (x *Executor) stream() *stream {
	s := new(stream)
	if x.Mask != nil {
		s.masking = x.Mask.Writer(&s.without)
	}
	return s
}

// Write implements io.Writer. A Capture takes everything.
func (s *stream) Write(p []byte) (int, error) {
	if s.masking != nil {
		_, _ = s.masking.Write(p)
	}
	return s.Capture.Write(p)
}

// shown returns what may be written and shown of it.
func (s *stream) shown() *process.Capture {
	if s.masking == nil {
		return &s.Capture
	}
	_ = s.masking.Close()
	return &s.without
}
