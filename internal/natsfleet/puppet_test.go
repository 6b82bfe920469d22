package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
)

// puppet is a worker with one slot that says only what a test says.
type puppet struct {
	f        *field
	c        *coordinator
	nc       *nats.Conn
	instance string
	given    chan int64 // tokens of attempts
}

// puppet connects a worker to the coordinator of a job.
func (f *field) puppet(c *coordinator) *puppet {
	f.t.Helper()
	h, err := connect(f.t.Context(), f.address(), "puppet", responsive, func() {})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(h.nc.Close)
	p := &puppet{f: f, c: c, nc: h.nc, instance: h.instance(), given: make(chan int64, 100)}
	if _, err := h.nc.Subscribe(downSubject(p.instance), func(m *nats.Msg) {
		var d fleet.CoordinatorMessage
		if err := json.Unmarshal(m.Data, &d); err != nil {
			f.t.Error(err)
		}
		for _, task := range d.Tasks {
			p.given <- task.Token
		}
	}); err != nil {
		f.t.Fatal(err)
	}
	return p
}

// deaf connects a worker that takes what it is sent and does nothing. Without one, what is sent to it would come back.
func (f *field) deaf(instance string) {
	f.t.Helper()
	h, err := connect(f.t.Context(), f.address(), "deaf", responsive, func() {})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(h.nc.Close)
	if _, err := h.nc.Subscribe(downSubject(instance), func(*nats.Msg) {}); err != nil {
		f.t.Fatal(err)
	}
	if err := h.nc.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

// say sends that the worker holds these attempts, and what it reports of them.
func (p *puppet) say(holds []int64, reports ...fleet.Report) {
	u := fleet.WorkerStatus{Instance: p.instance, Node: "puppet", Round: 1, Credit: 1, Slots: 1, Full: true, Holds: holds}
	if err := p.nc.Publish(upSubject(p.instance, p.c.key), encoded(fleet.WorkerMessage{V: fleet.Protocol, Owner: p.c.owner, WorkerStatus: u, Reports: reports})); err != nil {
		p.f.t.Error(err)
	}
}

// hears reports whether a coordinator hears workers.
func (c *coordinator) hears() (hears bool) {
	c.turn(func(s *jobState) { hears = s.mailbox.ups != nil })
	return hears
}

// hear has a coordinator hear a worker that is a member.
func (f *field) hear(c *coordinator, w fleet.WorkerStatus) {
	c.turn(func(s *jobState) {
		s.ledger.Expect([]string{w.Instance}, false, time.Now())
		s.ledger.Hear(w, time.Now())
	})
}

// take offers the slot, and returns the attempt that it is given; 0: there is none.
func (p *puppet) take() int64 {
	if !eventually(p.c.hears) {
		p.f.t.Error("the coordinator does not hear workers")
		return 0
	}
	for range 120 { // it says again that it is there, as workers do
		p.say(nil)
		select {
		case token := <-p.given:
			return token
		case <-time.After(time.Second):
		}
	}
	p.f.t.Error("the worker is given nothing")
	return 0
}

// report returns a report of an attempt.
func (p *puppet) report(token int64, index int, kind fleet.ReportKind) fleet.Report {
	r := fleet.Report{V: fleet.Protocol, Token: token, Index: index, Kind: kind, Holder: fleet.Holder{Instance: p.instance, Node: "puppet", Slot: 1}}
	if kind == fleet.Ended {
		r.Outcome = &agent.Outcome{ItemOutput: events.ItemOutput{Output: "fine"}}
	}
	return r
}

// A worker can have those events recorded that happen inside the attempt that it has, and no others: neither ends of attempts, nor what is about other items.
func TestAWorkerRecordsOnlyWhatHappensInItsAttempt(t *testing.T) {
	f := newField(t)
	c, of := f.config(nil)
	told := new(log)
	onNotice(of, told.add)
	p := f.puppet(of.(*coordinator))
	sent := []events.Event{
		events.StepSkipped{ItemID: "item_2", Phase: "reduce", Step: "s", When: "false"},
		events.StepRetrying{ItemID: "item_2", ItemIndex: 2, Step: "s", Attempt: 1},
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "item_0", AgentID: "x", Attempt: 1},
			Action:    errorpolicy.Retry,
		},
		events.WorktreeMerged{ItemIndexes: []int{1, 2, 3}},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "item_0", AgentID: "x", Attempt: 1}},
		events.AgentUsage{ItemID: "item_0", AgentID: "x", Attempt: 1},
		events.JobCompleted{},
		events.Unknown{Name: "Later", Raw: []byte("{}")},
	}
	f.doing.Go(func() {
		token := p.take()
		var reports []fleet.Report
		for _, e := range sent {
			line, err := events.Encode(events.Record{Seq: 1, Time: time.Now(), JobID: "x", Event: e})
			if err != nil {
				t.Error(err)
			}
			r := p.report(token, len(reports)+1, fleet.Event)
			r.Event = line
			reports = append(reports, r)
		}
		r := p.report(token, len(reports)+1, fleet.Printed)
		r.Entry = &outputs.Entry{Source: outputs.Source{ItemID: "item_2", Phase: "setup", Attempt: 9, Step: "s", Command: 1}, Limit: outputs.None, First: true, End: &outputs.End{}}
		p.say([]int64{token}, append(reports, r, p.report(token, len(reports)+2, fleet.Ended))...)
	})
	var printed []outputs.Entry
	c.Printed = func(e outputs.Entry) { printed = append(printed, e) }
	r, err := f.runWith(c, of, source(1, 1, "true", ""))
	if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 1 {
		t.Fatalf("got %s (%s) with %+v, %v", r.State, r.Reason, r.Metrics, err)
	}
	var got []events.Event
	for _, rec := range recordsOf(t, r.Job) {
		switch e := rec.Event.(type) {
		case events.StepSkipped, events.StepRetrying:
			got = append(got, e)
		case events.AgentFailed, events.WorktreeMerged, events.AgentUsage, events.Unknown:
			t.Errorf("%s is recorded", events.TypeOf(e))
		case events.AgentCompleted:
			if e.AgentID == "x" {
				t.Error("the end is recorded that the worker made up")
			}
		}
	}
	if len(got) != 2 || got[0].(events.StepSkipped).Phase != "map" || events.Subject(got[0]) != "item_0" || events.Subject(got[1]) != "item_0" || got[1].(events.StepRetrying).ItemIndex != 0 {
		t.Errorf("got %+v, want both of item_0", got)
	}
	if len(printed) != 1 || printed[0].Source != (outputs.Source{ItemID: "item_0", Attempt: 1, Step: "s", Command: 1}) || printed[0].Limit != "" {
		t.Errorf("printed %+v, want it of the first attempt at item_0", printed)
	}
	if want := "ignored an event from worker puppet: AgentFailed is not an event of an attempt"; strings.Count(told.String(), "ignored an event") != 1 || !strings.Contains(told.String(), want) {
		t.Errorf("it says %q, want once %q", told, want)
	}
}

// usageHost keeps what agents have used.
type usageHost struct {
	deafHost
	used []events.AgentUsage
}

func (h *usageHost) RecordUsage(_ *agent.Attempt, _ agent.AgentTicket, e events.AgentUsage) {
	h.used = append(h.used, e)
}

// A coordinator that another one has taken the job over from leaves all answers to that one: its own would be that an attempt is not out any more.
func TestACoordinatorThatHasLostItsJobAnswersNoCalls(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	p, token, _ := submitted(f, c)
	ask := func(id string, patience time.Duration) error {
		q := fleet.Call{ID: p.instance + id, Method: callRelease, Token: token, From: p.instance, Args: encoded(callArgs{})}
		_, err := p.nc.Request(callSubject(p.instance, c.key), encoded(q), patience)
		return err
	}
	if err := ask("-1", time.Minute); err != nil {
		t.Fatal(err)
	}
	c.turn(func(s *jobState) { s.gone = true })
	if err := ask("-2", time.Second); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("got %v, want no answer", err)
	}
	c.turn(func(s *jobState) { s.gone = false })
}

// What an agent has used that this run leaves to the next one is for the next run: an answer would have the worker forget it.
func TestUsageOfADetachedAttemptIsForTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quietCoordinator(fleet.JobOptions{})
		c.host = new(usageHost)
		life, end := context.WithCancel(t.Context())
		c.life = life
		c.turn(func(s *jobState) { s.ledger.Leave(1) })
		line, err := events.Encode(events.Record{Seq: 1, Time: time.Now(), JobID: "x", Event: events.AgentUsage{ItemID: "item_1", Step: "s"}})
		if err != nil {
			t.Fatal(err)
		}
		ended, k := false, &call{done: make(chan struct{})}
		go func() {
			c.answer(k, fleet.Call{Method: callRecordUsage, Token: 1, From: "W-1", Args: encoded(callArgs{Usage: line})})
			ended = true
		}()
		if synctest.Wait(); ended {
			t.Error("the call has ended while the run is there")
		}
		end()
		synctest.Wait()
		select {
		case <-k.done:
			t.Errorf("got the answer %+v, want that the worker asks again", k.answer)
		default:
			if !ended {
				t.Error("the call goes on after the run")
			}
		}
		if err := c.recordUsage(fleet.Call{Token: 2, From: "W-1"}, nil, callArgs{Usage: line}); !errors.Is(err, errNotOut) {
			t.Errorf("of one that is not out: %v, want %v", err, errNotOut)
		}
	})
}

// What an agent has used is charged to the attempt that the worker has, whatever the worker says.
func TestUsageIsOfTheAttemptThatTheWorkerHas(t *testing.T) {
	h := new(usageHost)
	c := quietCoordinator(fleet.JobOptions{})
	c.host = h
	one := &flight{Attempt: &agent.Attempt{ID: "job/item_1/2", Assignment: agent.Assignment{
		Token:  1,
		ItemID: "item_1", ItemIndex: 1, Number: 2,
	}}}
	line, err := events.Encode(events.Record{Seq: 1, Time: time.Now(), JobID: "x", Event: events.AgentUsage{ItemID: "item_9", ItemIndex: 9, Phase: "reduce", AgentID: "x", Attempt: 7, Step: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.recordUsage(fleet.Call{From: "W-1"}, one, callArgs{Usage: line}); err != nil {
		t.Fatal(err)
	}
	want := events.AgentUsage{ItemID: "item_1", ItemIndex: 1, AgentID: "job/item_1/2", Attempt: 2, Step: "s"}
	if len(h.used) != 1 || h.used[0] != want {
		t.Errorf("got %+v, want %+v", h.used, want)
	}
}

// The file of members has a line for each instance: a worker must not write lines about others by its name.
func TestTheNameOfAnInstanceIsNothingElse(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if err := c.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := f.puppet(c)
	id := fleet.IDOf(p.instance)
	for _, instance := range []string{id + "-1\n-VICTIM-1\n:7 EVIL", id + "-1 ", id + "-", id + "-a", id + "-1-2", id, id + "-" + strings.Repeat("A", 128)} {
		data := encoded(fleet.WorkerMessage{V: fleet.Protocol, Owner: c.owner, WorkerStatus: fleet.WorkerStatus{Instance: instance, Node: "evil", Round: 1, Full: true}})
		if err := p.nc.Publish(upSubject(p.instance, c.key), data); err != nil {
			t.Fatal(err)
		}
	}
	p.say(nil)
	text := ""
	f.waitFor("\n+"+p.instance+"\n", func() string {
		data, err := os.ReadFile(c.members.path)
		if err != nil {
			t.Error(err)
		}
		text = string(data)
		return text
	})
	lines := slices.Compact(strings.Split(text, "\n")) // an instance may be noted twice
	if want := []string{c.key, "=" + strconv.FormatInt(c.epoch, 10), "+" + p.instance, ""}; !slices.Equal(lines, want) {
		t.Errorf("the file of members has %q, want %q", lines, want)
	}
}

// Lines that no coordinator writes, such as those that one of before has let a worker write, are not believed.
func TestMembersThatNobodyWroteAreIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "members")
	if err := os.WriteFile(path, []byte("job\n=1\n+GOOD-1\n+EVIL-x\n+EVIL\n:7 GOOD\n:8 evil \n:9\n+LEFT-1\n-LEFT-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := quietCoordinator(fleet.JobOptions{})
	c.members.path = path
	if err := c.openMembers("job", true); err != nil {
		t.Fatal(err)
	}
	_ = c.members.file.Close()
	if !maps.Equal(c.members.present, map[string]bool{"GOOD-1": true}) {
		t.Errorf("got instances %v, want GOOD-1", c.members.present)
	}
}

// Without a note of a worker a resume would not know that it may have something, so it is given nothing until it is noted. Who runs the job is told why.
func TestAWorkerThatCannotBeNotedIsTold(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	said := new(log)
	onNotice(c, said.add)
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	readOnly, err := os.Open(c.members.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &c.members
	writable := m.file
	if _, err := writable.WriteString("+PART"); err != nil { // of what could not be written
		t.Fatal(err)
	}
	m.mu.Lock()
	m.file = readOnly
	m.mu.Unlock()
	p := f.puppet(c)
	p.say(nil)
	f.waitFor("cannot be written", said.String)
	m.mu.Lock()
	m.file = writable
	m.mu.Unlock()
	_ = readOnly.Close()
	p.say(nil)
	f.waitFor("+"+p.instance+"\n", func() string {
		data, err := os.ReadFile(c.members.path)
		if err != nil {
			t.Error(err)
		}
		return "\n" + string(data)
	})
	if data, err := os.ReadFile(c.members.path); err != nil || !strings.Contains(string(data), "+PART\n+"+p.instance+"\n") {
		t.Errorf("got %q, %v, want the name on a line of its own", data, err)
	}
	if got := strings.Count(said.String(), "cannot be written"); got != 1 {
		t.Errorf("it is said %d times, want once:\n%s", got, said)
	}
}
