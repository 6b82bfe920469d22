package job

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"prodigy/internal/check"
)

// requestVersion is the version of the protocol. A request of another version is refused.
const requestVersion = 1

// Verb is what is asked for.
type Verb string

const (
	Pause    Verb = "pause"     // nothing starts any more
	Continue Verb = "continue"  // end of a pause
	Toggle   Verb = "toggle"    // pause, or continue if it is paused
	Drain    Verb = "drain"     // let what runs end, then end the run; a resume continues the job
	Stop     Verb = "stop"      // end the run within its grace; a second one kills what runs
	Cancel   Verb = "cancel"    // end the job for good
	Scale    Verb = "scale"     // change the number of slots
	Skip     Verb = "skip"      // do not run some items (any more)
	RetryNow Verb = "retry-now" // do not wait any longer for the next attempt
)

// Request is one request to a running job.
type Request struct {
	V  int  `json:"v"`
	Do Verb `json:"do"`

	// By is the name of the user.
	By string `json:"by"`

	// Slots is how many slots Scale sets. Change, which may take its place, is how many it adds, or takes if negative.
	Slots  int `json:"slots,omitempty"`
	Change int `json:"change,omitempty"`

	// Items are those of Skip and RetryNow. Without any, RetryNow is about all.
	Items []Item `json:"items,omitempty"`
}

// Item names an item of the job.
type Item struct {
	ID    string `json:"id"`
	Index int    `json:"index"`
}

// Answer says what became of a request. It is sent when the record of the request is durable.
type Answer struct {
	V    int    `json:"v"`
	Done bool   `json:"done"` // false: refused, and Text says why
	Text string `json:"text"` // for people, in one line

	Recorded bool `json:"recorded,omitempty"` // something has changed, and is recorded
}

// Refused returns the answer that a request is not done.
func Refused(format string, args ...any) Answer {
	return Answer{V: requestVersion, Text: fmt.Sprintf(format, args...)}
}

// Done returns the answer that a request is done.
func Done(format string, args ...any) Answer {
	return Answer{V: requestVersion, Done: true, Text: fmt.Sprintf(format, args...)}
}

const (
	maxLine     = 4 << 20          // bytes of a request or an answer
	lineTime    = 5 * time.Second  // to send a request, and to take an answer
	maxBy       = 64               // bytes of the name of a user
	answerTime  = 10 * time.Second // the job has to answer
	closingTime = 2 * time.Second  // for answers that are being sent when the job ends
)

// Server listens for requests to a job.
type Server struct {
	path     string
	listener *net.UnixListener
	answers  sync.WaitGroup
}

// Serve listens on a socket at path, and answers each request with what do returns. It may call do on several
// goroutines at once. The caller holds the lock of the job, so that a socket that is there is that of a dead
// run: it is replaced.
func Serve(path string, do func(Request) Answer) (*Server, error) {
	if err := check.Unless(os.Remove(path), os.ErrNotExist); err != nil {
		return nil, err
	}
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Server{path: path, listener: l}
	s.answers.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(lineTime / 50) // there are too few files: they come back
				continue
			}
			s.answers.Go(func() { answer(c, do) })
		}
	})
	return s, nil
}

// answer reads a request, has it done and answers it.
func answer(c *net.UnixConn, do func(Request) Answer) {
	defer check.Quietly(c.Close) // who asks sees an answer that is cut off
	_ = c.SetDeadline(time.Now().Add(lineTime))
	a := func() Answer {
		if err := checkPeer(c); err != nil {
			return Refused("%v", err)
		}
		var r Request
		if err := readLine(c, &r); err != nil {
			return Refused("cannot read the request: %v", err)
		}
		if r.V != requestVersion {
			return Refused("the job's prodigy uses request version %d, not %d", requestVersion, r.V)
		}
		r.By = cleanName(r.By)
		return do(r)
	}()
	_ = c.SetDeadline(time.Now().Add(lineTime))
	_ = json.NewEncoder(c).Encode(a)
}

// cleanName bounds the name of a user, and leaves printable characters only.
func cleanName(name string) string {
	clean := make([]rune, 0, maxBy)
	for _, r := range name {
		if len(clean) < maxBy && r > ' ' && r < 0x7f {
			clean = append(clean, r)
		}
	}
	if len(clean) == 0 {
		return "somebody"
	}
	return string(clean)
}

// readLine decodes one line of bounded length.
func readLine(r io.Reader, v any) error {
	line, err := bufio.NewReader(io.LimitReader(r, maxLine)).ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) >= maxLine {
		return errors.New("the request is too long")
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// Close stops to listen, lets answers that are on their way out, and removes the socket. Call it before the
// lock of the job is released.
func (s *Server) Close() error {
	err := errors.Join(s.listener.Close(), check.Unless(os.Remove(s.path), os.ErrNotExist))
	sent := make(chan struct{})
	go func() {
		s.answers.Wait()
		close(sent)
	}()
	select {
	case <-sent:
	case <-time.After(closingTime):
	}
	return err
}

// ErrNobody is wrapped by the error of Ask when nobody listens.
var ErrNobody = errors.New("no process is listening")

// Ask sends a request to who listens at path and returns the answer.
func Ask(path string, r Request) (a Answer, err error) {
	c, err := dial(path)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	defer check.Quietly(c.Close)
	r.V = requestVersion
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return a, err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if len(line) >= maxLine {
		return a, fmt.Errorf("the request is too large (%d of at most %d bytes): list fewer items per call", len(line), maxLine)
	}
	if _, err := c.Write(append(line, '\n')); err != nil {
		return a, unanswered(err)
	}
	if err := readLine(c, &a); err != nil {
		return a, unanswered(err)
	}
	return a, nil
}

// unanswered says that it is not known what became of a request.
func unanswered(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no response from the job within %s; the request may or may not be applied: its machine is busy, or its process is frozen", answerTime)
	}
	return fmt.Errorf("no response from the job; the request may or may not have been applied: %w", err)
}
