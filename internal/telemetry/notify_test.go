package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// inbox is a Sender that keeps what it gets, after so many failures.
type inbox struct {
	mu       sync.Mutex
	failures []error
	hangs    bool
	messages []Message
	times    []time.Time
	tries    int
}

func (b *inbox) String() string { return "inbox" }

func (b *inbox) Send(ctx context.Context, id string, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries++
	if b.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if len(b.failures) > 0 {
		err := b.failures[0]
		b.failures = b.failures[1:]
		return err
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil || m.ID != id {
		return fmt.Errorf("message %s: %w", body, err)
	}
	b.messages, b.times = append(b.messages, m), append(b.times, time.Now())
	return nil
}

// testJob is a job with a log that records can be appended to.
type testJob struct {
	t     *testing.T
	place jobs.Job
	log   *events.Log
	last  int64 // record
	mu    sync.Mutex
	told  []string
}

func newTestJob(t *testing.T) *testJob {
	t.Helper()
	j := &testJob{t: t}
	var err error
	if j.place, err = (jobs.Home{Root: t.TempDir()}).Create("repo", "mapreduce", time.Now()); err != nil {
		t.Fatal(err)
	}
	if j.log, err = events.Create(j.place.EventsDir(), j.place.ID, time.Now(), events.Options{Durability: events.None}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.log.Close() })
	return j
}

// notifier returns the notifier of a run that begins with the next record.
func (j *testJob) notifier(every time.Duration, on []workflow.Moment, to ...Sender) *notifier {
	var targets []Target
	for _, s := range to {
		targets = append(targets, Target{workflow.Receiver{On: on, Every: every}, s})
	}
	return newNotifier(j.place, "convert", j.last+1, targets, func(text string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.told = append(j.told, text)
	})
}

// records appends events and returns their records.
func (j *testJob) records(all ...events.Event) []events.Record {
	var records []events.Record
	for _, e := range all {
		records = append(records, j.log.Append(time.Now(), e))
		j.last++
	}
	if err := j.log.Flush(); err != nil {
		j.t.Fatal(err)
	}
	return records
}

func letter(item string) []events.Event {
	return []events.Event{
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: item, Attempt: 1},
			Error:     "the host of\n" + item + " is away", Action: errorpolicy.DLQ,
		},
		events.DLQItemAdded{ItemID: item, FailureCount: 1},
	}
}

func counts(messages []Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, fmt.Sprint(m.Counts))
	}
	return strings.Join(all, " ")
}

func TestWhatHappensBetweenTwoMessagesIsOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, box := newTestJob(t), &inbox{}
		n := j.notifier(time.Minute, workflow.Moments(), box)
		n.observe(j.records(events.JobStarted{Workflow: "convert"}))
		n.observe(j.records(letter("a")...))
		synctest.Wait()
		began := time.Now()
		for i := range 50 {
			time.Sleep(time.Second)
			n.observe(j.records(letter(fmt.Sprint("b", i))...))
		}
		time.Sleep(time.Minute)
		n.observe(j.records(events.JobCompleted{Metrics: errorpolicy.Metrics{TotalItems: 60, Outcomes: errorpolicy.Outcomes{Successful: 9, Failed: 51}}}))
		n.close(t.Context(), time.Minute)
		if got := counts(box.messages); got != "map[dead_letter:1] map[dead_letter:50] map[done:1]" {
			t.Fatal(got)
		}
		for i, want := range []time.Duration{0, time.Minute, 110 * time.Second} {
			if got := box.times[i].Sub(began); got != want {
				t.Errorf("message %d came after %s, want %s", i, got, want)
			}
		}
		first, many, last := box.messages[0], box.messages[1], box.messages[2]
		if want := "convert (" + j.place.ID + ") dead letter a: the host of a is away"; first.Text != want {
			t.Errorf("text %q, want %q", first.Text, want)
		}
		if len(many.Events) != maxEvents || many.More != 50-maxEvents || !strings.HasSuffix(many.Text, "\n- and 30 more") {
			t.Errorf("%d events, %d more: %s", len(many.Events), many.More, many.Text)
		}
		if !strings.HasSuffix(last.Text, "completed: 9 of 60 items succeeded, 51 failed") || last.Metrics == nil {
			t.Errorf("last: %+v", last)
		}
	})
}

func TestAReceiverGetsOnlyWhatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newTestJob(t)
		all := slices.Concat([]events.Event{events.JobStarted{}}, letter("a"), []events.Event{events.CircuitOpen{}, events.PauseRequested{By: "alice"}, events.BudgetReached{}, events.JobFailed{Reason: "x"}})
		for _, c := range []struct {
			on   []workflow.Moment
			want string
		}{
			{workflow.Moments(), "map[breaker_open:1 budget:1 dead_letter:1 failed:1 paused:1]"},
			{[]workflow.Moment{workflow.OnDone}, "map[done:1]"},
			{[]workflow.Moment{workflow.OnFailed}, "map[failed:1]"},
			{[]workflow.Moment{workflow.OnPaused}, "map[paused:1]"},
			{[]workflow.Moment{workflow.OnBudget}, "map[budget:1]"},
		} {
			box := &inbox{}
			n := j.notifier(time.Minute, c.on, box)
			n.observe(j.records(all...)) // of a new job each time: nothing of the others is to be told
			n.close(t.Context(), time.Minute)
			if got := counts(box.messages); got != c.want {
				t.Errorf("%v: %s, want %s", c.on, got, c.want)
			}
			j = newTestJob(t)
		}
	})
}

// A message that fails is tried again; the others wait, together. One that cannot be sent is given up, kept, and sent by Again.
func TestAFailedMessageIsTriedAgainAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newTestJob(t)
		down := errors.New("away")
		flaky, gone, silent := &inbox{failures: []error{down, down}}, &inbox{failures: []error{&refusedError{error: errors.New("404")}}}, &inbox{hangs: true}
		n := j.notifier(time.Minute, workflow.Moments(), flaky, gone, silent)
		began := time.Now()
		n.observe(j.records(slices.Concat([]events.Event{events.JobStarted{}}, letter("a"), []events.Event{events.JobCompleted{}})...))
		n.close(t.Context(), 15*time.Second)
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("the end took %s: a receiver that hangs must not hold it up", took)
		}
		if len(flaky.messages) != 1 || flaky.tries != 3 {
			t.Errorf("%d messages after %d tries", len(flaky.messages), flaky.tries)
		}
		if len(gone.messages) != 0 || gone.tries != 1 || len(j.told) != 2 {
			t.Errorf("%d messages after %d tries; told: %q", len(gone.messages), gone.tries, j.told)
		}
		gone.failures, silent.hangs = nil, false
		var sent []string
		var targets []Target
		for _, r := range n.receivers {
			targets = append(targets, r.Target)
		}
		for range 2 {
			err := Again(t.Context(), j.place, "convert", targets, func(o Outcome) { sent = append(sent, o.ID+o.Error) })
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(sent) != 2 || len(gone.messages) != 1 || len(silent.messages) != 1 || gone.messages[0].Counts[workflow.OnDeadLetter] != 1 {
			t.Errorf("sent again: %q, %+v", sent, gone.messages)
		}
	})
}

// A run that dies anywhere between the event and the end of its message is followed by one that tells it: again with the same ID if it may have arrived.
func TestARunThatDiesIsFollowedByOneThatTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, dies := range map[string]func(j *testJob, on []workflow.Moment, box *inbox) []events.Record{
			"before it saw the event": func(*testJob, []workflow.Moment, *inbox) []events.Record { return nil },
			"while it sent": func(j *testJob, on []workflow.Moment, box *inbox) []events.Record {
				records := j.records(letter("a")...)
				book, err := openJournal(j.place)
				if err != nil {
					j.t.Fatal(err)
				}
				l := line{ID: fmt.Sprintf("%s-0-%d", j.place.ID, records[1].Seq), State: sending, From: records[1].Seq, To: records[1].Seq}
				if err := errors.Join(book.write(l), book.file.Close()); err != nil {
					j.t.Fatal(err)
				}
				return records
			},
		} {
			j, box := newTestJob(t), &inbox{}
			on := workflow.Moments()
			j.records(events.JobStarted{})
			was := dies(j, on, box)
			if was == nil {
				was = j.records(letter("a")...)
			}
			j.records(letter("b")...)
			n := j.notifier(time.Hour, on, box)
			n.observe(j.records(events.JobResumed{}, events.JobCompleted{}))
			n.close(t.Context(), time.Minute)
			letters := 0
			for _, m := range box.messages {
				letters += m.Counts[workflow.OnDeadLetter]
			}
			if letters != 2 || box.messages[len(box.messages)-1].Counts[workflow.OnDone] != 1 {
				t.Errorf("%s: %s; %q", name, counts(box.messages), j.told)
			}
			if want := fmt.Sprintf("%s-0-%d", j.place.ID, was[1].Seq); name == "while it sent" && box.messages[0].ID != want {
				t.Errorf("%s: the message has the ID %s, want %s", name, box.messages[0].ID, want)
			}
			before := len(box.messages)
			n = j.notifier(time.Hour, on, box)
			n.observe(j.records(events.JobResumed{}))
			n.close(t.Context(), time.Minute)
			if len(box.messages) != before {
				t.Errorf("%s: told twice: %s", name, counts(box.messages[before:]))
			}
		}
	})
}

// A job that had come to its end when it was killed is not resumed any more: what it had not told, and what may have arrived, is sent by Again.
func TestWhatADeadRunHasNotToldIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, box, other := newTestJob(t), &inbox{}, &inbox{}
		j.records(events.JobStarted{})
		was := j.records(letter("a")...)
		j.records(slices.Concat(letter("b"), []events.Event{events.CancelRequested{By: "alice"}, events.JobCancelled{Reason: "cancelled by alice", Metrics: errorpolicy.Metrics{TotalItems: 3, Outcomes: errorpolicy.Outcomes{Failed: 2}}}})...)
		book, err := openJournal(j.place)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%s-0-%d", j.place.ID, was[1].Seq)
		if err := errors.Join(book.write(line{ID: id, State: sending, From: was[1].Seq, To: was[1].Seq}), book.file.Close()); err != nil {
			t.Fatal(err)
		}
		targets := []Target{{workflow.Receiver{On: workflow.Moments()}, box}, {workflow.Receiver{On: []workflow.Moment{workflow.OnDone}}, other}}
		for range 2 {
			if err := Again(t.Context(), j.place, "convert", targets, func(o Outcome) {
				if o.Error != "" {
					t.Error(o)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if got := counts(box.messages); got != "map[dead_letter:1] map[dead_letter:1 done:1]" || box.messages[0].ID != id {
			t.Errorf("got %s, the first with the ID %s, want %s", got, box.messages[0].ID, id)
		}
		if want := "convert (" + j.place.ID + ") cancelled by alice: 0 of 3 items succeeded, 2 failed"; len(other.messages) != 1 || other.messages[0].Text != want {
			t.Errorf("got %+v, want one with %s", other.messages, want)
		}
	})
}

// Each receiver of a test is told which one it is, also the tenth.
func TestATestMessageNamesItsReceiver(t *testing.T) {
	t.Parallel()
	var boxes []*inbox
	var targets []Target
	for range 12 {
		boxes = append(boxes, &inbox{})
		targets = append(targets, Target{Sender: boxes[len(boxes)-1]})
	}
	ids := map[string]bool{}
	if err := Try(t.Context(), "convert", targets, func(o Outcome) { ids[o.ID] = true }); err != nil {
		t.Fatal(err)
	}
	if got := boxes[11].messages; len(got) != 1 || !strings.HasSuffix(got[0].Text, "test notification for receiver 12") || len(ids) != 12 {
		t.Errorf("%d IDs, the last message: %+v", len(ids), got)
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	type got struct {
		header http.Header
		body   string
	}
	requests := make(chan got, 10)
	mux := http.NewServeMux()
	answer := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			requests <- got{r.Header, string(body)}
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/ok")
			w.WriteHeader(code)
			_, _ = w.Write(make([]byte, 1<<20)) // an answer that nobody wants
		}
	}
	mux.HandleFunc("/ok", answer(204))
	mux.HandleFunc("/busy", answer(503))
	mux.HandleFunc("/gone", answer(410))
	mux.HandleFunc("/moved", answer(307))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	found := settings.Settings{Secrets: map[string]string{"KEY": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "PLAIN": "plain"}}
	post := func(path, sign string) error {
		t.Helper()
		hook, err := newWebhook(workflow.Receiver{Webhook: workflow.Text{Value: server.URL + path}, Sign: sign}, found)
		if err != nil {
			t.Fatal(err)
		}
		return hook.Send(t.Context(), "msg_1", []byte(`{"test": 2432232314}`))
	}
	if err := post("/ok", "KEY"); err != nil {
		t.Fatal(err)
	}
	request := <-requests
	if request.body != `{"test": 2432232314}` || request.header.Get("webhook-id") != "msg_1" || !strings.HasPrefix(request.header.Get("webhook-signature"), "v1,") {
		t.Errorf("%+v", request)
	}
	var later *refusedError
	if err := post("/busy", ""); !errors.As(err, &later) || later.after != 7*time.Second {
		t.Errorf("busy: %v", err)
	}
	if h := (<-requests).header; h.Get("webhook-signature") != "" {
		t.Errorf("signed without a key: %v", h)
	}
	for _, path := range []string{"/gone", "/moved"} {
		var permanent *refusedError
		if err := post(path, "PLAIN"); !errors.As(err, &permanent) || permanent.after != 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := newWebhook(workflow.Receiver{Webhook: workflow.Text{Value: server.URL}, Sign: "OTHER"}, found); err == nil {
		t.Error("signed with a secret that is not there")
	}
	server.Close()
	if err := post("/ok?token=hidden", ""); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("a server that is away: %v", err)
	}
}

// The example of the specification of Standard Webhooks.
func TestTheSignatureIsThatOfTheSpecification(t *testing.T) {
	key, err := signingKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got, want := h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}
