package telemetry

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/process"
	"prodigy/internal/settings"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// Resolve returns the receivers of a workflow, with what it takes to send them something. Commands run in dir
// with this environment, beside the variables of the workflow.
func Resolve(w *workflow.Workflow, found settings.Settings, dir string, environ []string) ([]Target, error) {
	env := found.Environ(environ)
	for name, value := range found.Secrets {
		env = append(env, name+"="+value)
	}
	var targets []Target
	var problems []workflow.Problem
	for _, r := range w.Notify {
		var s Sender
		var err error
		if r.Command.Value != "" {
			s = command{text: r.Command.Value, dir: dir, env: env}
		} else {
			s, err = newWebhook(r, found)
		}
		if err != nil {
			problems = append(problems, w.ProblemAt(r.Pos, "notify: "+err.Error()))
			continue
		}
		targets = append(targets, Target{r, s})
	}
	if len(problems) > 0 {
		return nil, &workflow.InvalidError{Problems: problems}
	}
	return targets, nil
}

// webhook is a Sender that posts to a URL.
type webhook struct {
	url string

	// The scheme and host, for people.
	host string

	// What messages are signed with. It is nil if they are not.
	key []byte

	client *http.Client
}

// newWebhook returns the sender of a receiver with a URL. The URL and the key may be secrets, so no error has
// them.
func newWebhook(r workflow.Receiver, found settings.Settings) (*webhook, error) {
	text, err := found.With(found.Secrets).Fill(r.Webhook.Value)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	u, err := url.Parse(text)
	// The text is not repeated: it may be a secret.
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("webhook must be an http:// or https:// URL")
	}
	w := &webhook{url: text, host: u.Scheme + "://" + u.Host}
	if r.Sign != "" {
		secret, is := found.Secrets[r.Sign]
		if !is || secret == "" {
			return nil, fmt.Errorf("sign: secret %s is not declared; add it under secrets", r.Sign)
		}
		if w.key, err = signingKey(secret); err != nil {
			return nil, fmt.Errorf("sign: %s: %w", r.Sign, err)
		}
	}
	w.client = &http.Client{
		// The message is for this URL only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, nil
}

// String returns the host, since the path of the URL may be a secret.
func (w *webhook) String() string { return w.host }

// maxAnswer is how much of an answer is read: only then can the connection be used again.
const maxAnswer = 4 << 10

// Send implements Sender. Every answer but a server's error and a request to slow down is final, also a
// redirection.
func (w *webhook) Send(ctx context.Context, id string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return &refusedError{error: errors.New("invalid URL")}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "prodigy")
	sign(req.Header, w.key, id, time.Now(), body)
	res, err := w.client.Do(req)
	if err != nil {
		var wrapped *url.Error // has the URL in its text
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return err
	}
	defer check.Quietly(res.Body.Close)
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	err = errors.New("the receiver responded with " + res.Status)
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout,
		code == http.StatusTooEarly:
		if seconds, e := strconv.Atoi(res.Header.Get("Retry-After")); e == nil && seconds > 0 {
			err = &refusedError{err, time.Duration(min(seconds, 3600)) * time.Second}
		}
		return err
	}
	return &refusedError{error: err}
}

// sign sets the headers of a message, as
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md has them.
func sign(h http.Header, key []byte, id string, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", stamp)
	if key == nil {
		return
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// signingKey returns the key of a secret: its bytes, or of one that begins with whsec_ what is behind it in base64.
func signingKey(secret string) ([]byte, error) {
	text, is := strings.CutPrefix(secret, "whsec_")
	if !is {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the part after whsec_ is not valid base64")
	}
	return key, nil
}

// command is a Sender that runs a shell command, which reads the message.
type command struct {
	text, dir string
	env       []string
}

// String returns the command, shortened.
func (c command) String() string {
	return "the command " + strconv.Quote(term.Shorten(c.text, maxText))
}

// Send implements Sender. The command reads the message from its standard input, as one line.
func (c command) Send(ctx context.Context, id string, body []byte) error {
	stderr := process.Capture{Limit: 4 << 10}
	exit, err := process.Run(ctx, process.Command{
		Argv: []string{"sh", "-c", c.text}, Dir: c.dir, Env: append(c.env[:len(c.env):len(c.env)],
			"PRODIGY_NOTIFICATION_ID="+id),
		Input: string(body) + "\n", Stderr: &stderr, Grace: time.Second,
	})
	switch {
	case err != nil:
		return err
	case exit.Start != nil:
		return &refusedError{error: exit.Start}
	case exit.Signal != "":
		return fmt.Errorf("killed by %s", exit.Signal)
	case exit.Code == 126, exit.Code == 127: // the shell cannot run it
		return &refusedError{error: errors.New(term.Shorten(stderr.Text(), maxText))}
	case exit.Code != 0:
		text := fmt.Sprintf("exit code %d", exit.Code)
		if said := term.Shorten(stderr.Text(), maxText); said != "" {
			text += ": " + said
		}
		return errors.New(text)
	}
	return nil
}
