package natsfleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// outbox is what is to be sent to a worker.
type outbox struct {
	dirty   bool
	tasks   map[int64][]*flight // by the round that they answer
	acks    []fleet.Ack
	over    []int64
	end     []int64
	due     []int64
	again   bool
	numbers int
	sent    map[int]sent // tasks that may be on the way, by the number of their message
}

// sent are tasks that one message had.
type sent struct {
	round  int64
	tokens []int64
}

func (c *coordinator) submit(ctx context.Context, a *agent.Attempt, done func(*agent.Attempt, agent.Outcome, error)) error {
	if err := c.open(ctx, a.JobID); err != nil {
		return err
	}
	spec, err := c.spec(ctx, *a)
	if err != nil {
		return err
	}
	c.mu.Lock()
	adopted := c.awaited[a.ID]
	delete(c.awaited, a.ID)
	last := adopted && len(c.awaited) == 0
	if c.held && !adopted || ctx.Err() != nil && !adopted {
		c.pending[a.ID] = append(c.pending[a.ID], &pendingAck{})
		c.mu.Unlock()
		return fmt.Errorf("the job is stopping: %w", agent.ErrReturned)
	}
	f := newFlight(ctx, a, spec, done)
	if adopted {
		f.last = -1
	}
	c.flights[a.Token] = f
	switch {
	case adopted:
		c.dispatcher.Adopt(a.Token, a.RanOn)
	case a.Beside != 0:
		c.dispatcher.AddApart(a.Token, a.Beside, time.Now())
	default:
		c.dispatcher.Add(a.Token)
	}
	c.endAlone(a.Token)
	if !c.stops[ctx] {
		c.stops[ctx] = true
		context.AfterFunc(ctx, func() { c.stop(ctx) })
	}
	if last {
		close(c.adopted)
		maps.DeleteFunc(c.given, func(token int64, _ string) bool { return c.flights[token] == nil })
	}
	c.dispatch(time.Now())
	c.mu.Unlock()
	if !last {
		return nil
	}
	return c.unlessEnded(a.Token, c.begin(ctx))
}

// unlessEnded drops an error about an attempt whose end is known already.
func (c *coordinator) unlessEnded(token int64, err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[token] == nil {
		return nil
	}
	delete(c.flights, token)
	c.dispatcher.Remove(token)
	return err
}

// dispatch gives attempts that wait to workers that take some. It is called with the lock held.
func (c *coordinator) dispatch(now time.Time) {
	if c.held {
		c.giveBack("the job is stopping")
		return
	}
	for token, cause := range c.ends {
		if c.dispatcher.Waits(token) {
			c.endFlight(token, flightEnd{err: fmt.Errorf("%w: %w", cause, agent.ErrReturned)}, pendingAck{})
		}
	}
	for _, g := range c.dispatcher.Assign(now) {
		if g.Times > mostTimes {
			stop, id := c.stopRun, c.flights[g.Token].id
			c.work.Go(func() {
				stop(fmt.Errorf("%s was sent to workers %d times, and none has ever said that it has it", id, mostTimes))
			})
		}
		s := c.outboxOf(g.Instance)
		if s.tasks == nil {
			s.tasks = map[int64][]*flight{}
		}
		s.tasks[g.Round] = append(s.tasks[g.Round], c.flights[g.Token])
		c.sendSoon(g.Instance, s)
	}
}

// mostTimes is how often an attempt is given out that never arrives. A worker of several jobs refuses what answers an
// offer too late; over a slow connection that happens some times in a row.
const mostTimes = 20

// End ends one attempt alone.
func (c *coordinator) End(token int64, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[token] = cause
	c.endAlone(token)
	c.dispatch(time.Now())
}

// endAlone has the worker of an attempt end it, if somebody has asked for that. One that no worker has is ended by dispatch. Whenever its worker says that it
// has it, this is said again. It is called with the lock held.
func (c *coordinator) endAlone(token int64) {
	if instance := c.dispatcher.HolderOf(token); c.ends[token] != nil && instance != "" {
		s := c.outboxOf(instance)
		s.end = append(s.end, token)
		c.sendSoon(instance, s)
	}
}

// Hurry has the steps of attempts not wait any longer. A worker that this does not reach lets them wait.
func (c *coordinator) Hurry(tokens []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, token := range tokens {
		if instance := c.dispatcher.HolderOf(token); instance != "" {
			s := c.outboxOf(instance)
			s.due = append(s.due, token)
			c.sendSoon(instance, s)
		}
	}
}

// outboxOf returns what is to be sent to a worker. It is called with the lock held.
func (c *coordinator) outboxOf(instance string) *outbox {
	s := c.outboxes[instance]
	if s == nil {
		s = &outbox{sent: map[int]sent{}}
		c.outboxes[instance] = s
	}
	return s
}

// sendSoon has the sender send what waits for a worker. It is called with the lock held.
func (c *coordinator) sendSoon(instance string, s *outbox) {
	c.markDirty(instance, s)
	c.wakeSender()
}

// ackDelay is how long workers wait for the word that reports are not needed any more, so that it mostly goes with what they are given next.
const ackDelay = 20 * time.Millisecond

// sendLater is sendSoon for what can wait a moment. It is called with the lock held.
func (c *coordinator) sendLater(instance string, s *outbox) {
	c.markDirty(instance, s)
	if !c.waking {
		c.waking = true
		time.AfterFunc(ackDelay, func() {
			c.mu.Lock()
			c.waking = false
			c.mu.Unlock()
			c.wakeSender()
		})
	}
}

func (c *coordinator) markDirty(instance string, s *outbox) {
	if !s.dirty {
		s.dirty = true
		c.dirty = append(c.dirty, instance)
	}
}

func (c *coordinator) wakeSender() {
	select {
	case c.sending <- struct{}{}:
	default:
	}
}

// send sends what there is for workers, until the coordinator is closed.
func (c *coordinator) send() {
	for {
		select {
		case <-c.sending:
		case <-c.life.Done():
			return
		}
		c.mu.Lock()
		for len(c.dirty) > 0 {
			instance := c.dirty[0]
			c.dirty = c.dirty[1:]
			s := c.outboxes[instance]
			if s == nil {
				continue
			}
			d := fleet.CoordinatorMessage{V: fleet.Protocol, Key: c.key, Owner: c.owner, Acks: s.acks, Over: s.over, End: s.end, Due: s.due, Again: s.again}
			rounds := s.tasks
			s.dirty, s.acks, s.over, s.end, s.due, s.again, s.tasks = false, nil, nil, nil, nil, false, nil
			c.mu.Unlock()
			c.sendTo(instance, d, rounds)
			c.mu.Lock()
		}
		c.mu.Unlock()
	}
}

// sendTo sends to a worker, in more than one message if that would be too large.
func (c *coordinator) sendTo(instance string, d fleet.CoordinatorMessage, rounds map[int64][]*flight) {
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		size := 0
		d.Round = round
		for _, f := range rounds[round] {
			t := fleet.NewTask(f.attempt(), f.spec.name, time.Now())
			if len(t.Item) > maxBody {
				c.work.Go(func() { c.sendLarge(instance, round, t) })
				continue
			}
			if size += len(t.Item); size > maxBody {
				c.publish(instance, d)
				d, size = fleet.CoordinatorMessage{V: fleet.Protocol, Key: c.key, Owner: c.owner, Round: round}, len(t.Item)
			}
			d.Tasks = append(d.Tasks, t)
		}
		if len(d.Tasks) > 0 {
			c.publish(instance, d)
			d = fleet.CoordinatorMessage{V: fleet.Protocol, Key: c.key, Owner: c.owner}
		}
	}
	if len(d.Acks)+len(d.Over)+len(d.End)+len(d.Due) > 0 || d.Again {
		c.publish(instance, d)
	}
}

// sendLarge sends a task that is too large for a message.
func (c *coordinator) sendLarge(instance string, round int64, t fleet.Task) {
	data := encoded(t)
	ref := objectName(c.key+"/task-"+strconv.FormatInt(t.Token, 10), data)
	if keepTrying(c.life, func(ctx context.Context) error {
		err := c.put(ctx, ref, data)
		c.noteKept(err)
		return err
	}) == nil {
		c.mu.Lock()
		f := c.flights[t.Token]
		if f != nil {
			f.needs(ref)
		}
		c.mu.Unlock()
		if f == nil { // it has ended meanwhile
			_ = c.remove(c.life, ref)
			return
		}
		c.publish(instance, fleet.CoordinatorMessage{V: fleet.Protocol, Key: c.key, Owner: c.owner, Round: round, Tasks: []fleet.Task{{Token: t.Token, Ref: ref}}})
	}
}

// publish sends a message to a worker. What it has of tasks is taken back if the worker is not connected.
func (c *coordinator) publish(instance string, d fleet.CoordinatorMessage) {
	m := c.signer.message(downSubject(instance), signedDown, downSubject(instance), encoded(d))
	if len(d.Tasks) > 0 {
		tokens := make([]int64, len(d.Tasks))
		for i, t := range d.Tasks {
			tokens[i] = t.Token
		}
		c.mu.Lock()
		if s := c.outboxes[instance]; s != nil {
			s.numbers++
			s.sent[s.numbers] = sent{d.Round, tokens}
			m.Reply = c.returns + "." + instance + "." + strconv.Itoa(s.numbers)
		}
		c.mu.Unlock()
		if c.signer != nil {
			c.noteGiven(instance, tokens)
		}
	}
	_ = c.nc.PublishMsg(m) // without a connection it is said again when there is one
}

// returned takes back what could not be delivered.
func (c *coordinator) returned(m *nats.Msg) {
	words := strings.Split(m.Subject, ".")
	if len(words) < 2 || m.Header.Get("Status") != "503" {
		return
	}
	instance := words[len(words)-2]
	number, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.outboxes[instance]; s != nil {
		what := s.sent[number]
		delete(s.sent, number)
		c.dispatcher.Undelivered(instance, what.round, what.tokens)
		c.dispatch(time.Now())
	}
}

// spec has the broker keep what the attempt has in common with others, and returns that.
func (c *coordinator) spec(ctx context.Context, a agent.Attempt) (*sharedSpec, error) {
	known := a.Spec + "\x00" + string(a.Outputs.Keep)
	c.mu.Lock()
	shared := c.specs[known]
	c.mu.Unlock()
	if shared != nil {
		return shared, nil
	}
	s := fleet.NewSpec(a)
	if c.produces != nil {
		s.Produces = c.o.Produces
	}
	if c.clones != nil {
		s.Setup = c.clones.Setup()
	}
	s.Seed, s.LogSteps, s.Claude, s.Agents, s.Layers, s.Echo = c.c.Seed, c.c.LogSteps, c.c.Claude, c.o.Agents, c.o.Layers, c.c.Echo != nil
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	name := objectName(c.key+"/spec", data)
	c.putting.Lock()
	defer c.putting.Unlock()
	c.mu.Lock()
	_, put := c.objects[name]
	c.mu.Unlock()
	if !put {
		if err := c.restoring(ctx, func(ctx context.Context) error { return c.put(ctx, name, data) }); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	shared = &sharedSpec{name: name, template: s.Template}
	c.specs[known], c.objects[name] = shared, data // now that workers can fetch it
	return shared, nil
}
