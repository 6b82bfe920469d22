package cli

import (
	"sync"

	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// steering is the way in of requests to the job that this process runs: from other processes over its socket, and from
// the keys of the terminal.
type steering struct {
	mu  sync.Mutex
	ask func(job.Request) job.Answer // nil: the job takes none
}

// control implements Config.Control.
func (s *steering) control(place jobs.Job, ask func(job.Request) job.Answer) (stop func() error, err error) {
	server, err := job.Serve(place.ControlSocket(), ask)
	s.set(ask)
	return func() error {
		s.set(nil)
		if server == nil {
			return nil
		}
		return server.Close()
	}, err
}

func (s *steering) set(ask func(job.Request) job.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask = ask
}

// do has the job do a request of the user at the terminal. It reports false if there is no job to do it.
func (s *steering) do(r job.Request) (job.Answer, bool) {
	s.mu.Lock()
	ask := s.ask
	s.mu.Unlock()
	if ask == nil {
		return job.Answer{}, false
	}
	r.By = userName()
	return ask(r), true
}
