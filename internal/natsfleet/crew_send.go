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

// station is what is to be sent to a worker.
type station struct {
	dirty   bool
	tasks   map[int64][]*flight // by the round that they answer
	settled []fleet.Settled
	over    []int64
	again   bool
	numbers int
	sent    map[int]sent // tasks that may be on the way, by the number of their message
}

// sent are tasks that one message had.
type sent struct {
	round  int64
	tokens []int64
}

func (c *crew) submit(ctx context.Context, a *agent.Attempt, done func(agent.Outcome, error)) error {
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
		c.settling[a.ID] = append(c.settling[a.ID], &settling{})
		c.mu.Unlock()
		return fmt.Errorf("the job is stopping: %w", agent.ErrReturned)
	}
	f := &flight{attempt: a, spec: spec, done: done, of: ctx}
	if adopted {
		f.last = -1
	}
	c.flights[a.Token] = f
	c.book.Add(a.Token, adopted)
	if !c.stops[ctx] {
		c.stops[ctx] = true
		context.AfterFunc(ctx, func() { c.stop(ctx) })
	}
	if last {
		maps.DeleteFunc(c.given, func(token int64, _ string) bool { return c.flights[token] == nil })
	}
	c.deal(time.Now())
	c.mu.Unlock()
	if !last {
		return nil
	}
	return c.unlessSettled(a.Token, c.begin(ctx))
}

// unlessSettled drops an error about an attempt whose end is known already.
func (c *crew) unlessSettled(token int64, err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[token] == nil {
		return nil
	}
	delete(c.flights, token)
	c.book.End(token)
	return err
}

// deal gives attempts that wait to workers that take some. It is called with the lock held.
func (c *crew) deal(now time.Time) {
	if c.held {
		c.giveBack("the job is stopping")
		return
	}
	for _, g := range c.book.Grants(now) {
		s := c.station(g.Instance)
		if s.tasks == nil {
			s.tasks = map[int64][]*flight{}
		}
		s.tasks[g.Round] = append(s.tasks[g.Round], c.flights[g.Token])
		c.soon(g.Instance, s)
	}
}

// station returns what is to be sent to a worker. It is called with the lock held.
func (c *crew) station(instance string) *station {
	s := c.stations[instance]
	if s == nil {
		s = &station{sent: map[int]sent{}}
		c.stations[instance] = s
	}
	return s
}

// soon has what there is for a worker sent. It is called with the lock held.
func (c *crew) soon(instance string, s *station) {
	c.mark(instance, s)
	c.wake()
}

// settleEvery is how long workers wait for the word that reports are not needed any more, so that it mostly goes with what they are given next.
const settleEvery = 20 * time.Millisecond

// later is soon for what can wait a moment. It is called with the lock held.
func (c *crew) later(instance string, s *station) {
	c.mark(instance, s)
	if !c.waking {
		c.waking = true
		time.AfterFunc(settleEvery, func() {
			c.mu.Lock()
			c.waking = false
			c.mu.Unlock()
			c.wake()
		})
	}
}

func (c *crew) mark(instance string, s *station) {
	if !s.dirty {
		s.dirty = true
		c.dirty = append(c.dirty, instance)
	}
}

func (c *crew) wake() {
	select {
	case c.sending <- struct{}{}:
	default:
	}
}

// send sends what there is for workers, until the crew is closed.
func (c *crew) send() {
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
			s := c.stations[instance]
			if s == nil {
				continue
			}
			d := fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner, Settled: s.settled, Over: s.over, Again: s.again}
			rounds := s.tasks
			s.dirty, s.settled, s.over, s.again, s.tasks = false, nil, nil, false, nil
			c.mu.Unlock()
			c.sendTo(instance, d, rounds)
			c.mu.Lock()
		}
		c.mu.Unlock()
	}
}

// sendTo sends to a worker, in more than one message if that would be too large.
func (c *crew) sendTo(instance string, d fleet.Down, rounds map[int64][]*flight) {
	for _, round := range slices.Sorted(maps.Keys(rounds)) {
		size := 0
		d.Round = round
		for _, f := range rounds[round] {
			t := fleet.NewTask(f.attempt, f.spec, time.Now())
			if len(t.Item) > maxBody {
				c.work.Go(func() { c.sendLarge(instance, round, t) })
				continue
			}
			if size += len(t.Item); size > maxBody {
				c.publish(instance, d)
				d, size = fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner, Round: round}, len(t.Item)
			}
			d.Tasks = append(d.Tasks, t)
		}
		if len(d.Tasks) > 0 {
			c.publish(instance, d)
			d = fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner}
		}
	}
	if len(d.Settled)+len(d.Over) > 0 || d.Again {
		c.publish(instance, d)
	}
}

// sendLarge sends a task that is too large for a message.
func (c *crew) sendLarge(instance string, round int64, t fleet.Task) {
	data := encoded(t)
	ref := objectName(c.key+"/task-"+strconv.FormatInt(t.Token, 10), data)
	if keepTrying(c.life, func(ctx context.Context) error { return c.put(ctx, ref, data) }) == nil {
		c.publish(instance, fleet.Down{V: fleet.Protocol, Key: c.key, Owner: c.owner, Round: round, Tasks: []fleet.Task{{Token: t.Token, Ref: ref}}})
	}
}

// publish sends a message to a worker. What it has of tasks is taken back if the worker is not connected.
func (c *crew) publish(instance string, d fleet.Down) {
	m := c.signer.message(downSubject(instance), signedDown, downSubject(instance), encoded(d))
	if len(d.Tasks) > 0 {
		tokens := make([]int64, len(d.Tasks))
		for i, t := range d.Tasks {
			tokens[i] = t.Token
		}
		c.mu.Lock()
		if s := c.stations[instance]; s != nil {
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
func (c *crew) returned(m *nats.Msg) {
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
	if s := c.stations[instance]; s != nil {
		what := s.sent[number]
		delete(s.sent, number)
		c.book.Undelivered(instance, what.round, what.tokens)
		c.deal(time.Now())
	}
}

// spec has the broker keep what the attempt has in common with others, and returns its name.
func (c *crew) spec(ctx context.Context, a agent.Attempt) (string, error) {
	known := a.Spec + "\x00" + string(a.Outputs.Keep)
	c.mu.Lock()
	name := c.specs[known]
	c.mu.Unlock()
	if name != "" {
		return name, nil
	}
	s := fleet.NewSpec(a)
	if c.produces != nil {
		s.Produces = c.o.Produces
	}
	if c.clones != nil {
		s.Setup = c.clones.Setup()
	}
	s.Seed, s.LogSteps, s.Claude, s.Agents, s.Layers = c.c.Seed, c.c.LogSteps, c.c.Claude, c.o.Agents, c.o.Layers
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	name = objectName(c.key+"/spec", data)
	c.putting.Lock()
	defer c.putting.Unlock()
	c.mu.Lock()
	_, put := c.objects[name]
	c.mu.Unlock()
	if !put {
		if err := c.restoring(ctx, func(ctx context.Context) error { return c.put(ctx, name, data) }); err != nil {
			return "", err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs[known], c.objects[name] = name, data // now that workers can fetch it
	return name, nil
}
