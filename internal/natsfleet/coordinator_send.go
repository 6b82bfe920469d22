package natsfleet

import (
	"sync/atomic"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// sender wakes the goroutine that sends to workers.
type sender struct {
	wake chan struct{} // something is to be sent
	soon delayed
}

// ackDelay is how long workers wait for the word that reports are not needed any more, so that it mostly goes with what
// they are given next.
const ackDelay = 20 * time.Millisecond

// now wakes the sender immediately.
func (s *sender) now() {
	check.Wake(s.wake)
}

// delayed makes one call of several that are wanted within a moment.
type delayed struct{ waits atomic.Bool }

// do calls f after a delay, unless a call is to come anyway.
func (d *delayed) do(after time.Duration, f func()) {
	if d.waits.CompareAndSwap(false, true) {
		time.AfterFunc(after, func() {
			d.waits.Store(false)
			f()
		})
	}
}

// send sends what there is for workers, until the coordinator is closed.
func (c *coordinator) send() {
	for {
		select {
		case <-c.sender.wake:
		case <-c.life.Done():
			return
		}
		for more := true; more; {
			var letter fleet.Letter
			c.turn(func(s *jobState) { letter, more = s.ledger.Next() })
			if more {
				c.sendLetter(letter)
			}
		}
	}
}

// message returns an empty message to a worker.
func (c *coordinator) message(round int64) fleet.CoordinatorMessage {
	return fleet.CoordinatorMessage{Key: c.key, Owner: c.owner, Round: round}
}

// sendLetter sends to a worker, in more than one message if that would be too large.
func (c *coordinator) sendLetter(l fleet.Letter) {
	d, size := c.message(l.Round), 0
	d.Orders = l.Orders
	for _, token := range l.Tasks {
		var f *flight
		c.turn(func(s *jobState) { f = s.flights[token] })
		if f == nil { // it is not out any more
			continue
		}
		t := fleet.NewTask(f.Attempt, f.spec, time.Now())
		if len(t.Item) > maxBody {
			for _, p := range fleet.Pieces(encoded(t), pieceSize) {
				d := c.message(l.Round)
				d.Tasks = []fleet.Task{{Assignment: agent.Assignment{Token: token}, Piece: &p}}
				c.publish(l.Instance, d)
			}
			continue
		}
		if size += len(t.Item); size > maxBody {
			c.publish(l.Instance, d)
			d, size = c.message(l.Round), len(t.Item)
		}
		d.Tasks = append(d.Tasks, t)
	}
	c.publish(l.Instance, d)
}

// publish sends a message to a worker. Without a connection it is said again when there is one.
func (c *coordinator) publish(instance string, d fleet.CoordinatorMessage) {
	_ = c.nc.PublishMsg(c.signer.message(downSubject(instance), signedDown, downSubject(instance), encoded(d)))
}

// shared is what attempts have in common. Workers ask for it by its name, which is its digest.
type shared struct {
	// data has specs, the list of files, and what workspaces are made of, by their names.
	data map[string][]byte
	// files is the list that sendFiles has made.
	files []fleet.File
	// specs has the names of specs, by the spec of the attempt and what else is in it.
	specs map[string]string
	// base is the commit that the job begins at, with workspaces.
	base string
}

// add adds something, and returns its name.
func (s *shared) add(v any) (name string) {
	data := encoded(v)
	name = fleet.Digest(data)
	s.data[name] = data
	return name
}

// spec returns the name of what the attempt has in common with others.
func (c *coordinator) spec(a agent.Attempt) (name string) {
	known := a.Spec + "\x00" + string(a.Outputs.Keep)
	c.turn(func(s *jobState) { name = s.shared.specs[known] })
	if name != "" {
		return name
	}
	s := fleet.NewSpec(a)
	if c.produces != nil {
		s.Produces = c.o.Produces
	}
	if c.clones != nil {
		s.Setup = c.clones.Setup()
	}
	s.Seed, s.LogSteps, s.Echo = c.c.Seed, c.c.LogSteps, c.c.Echo != nil
	s.Claude, s.Agents, s.Layers = c.c.Claude, c.o.Agents, c.o.Layers
	c.turn(func(j *jobState) {
		name = j.shared.add(s)
		j.shared.specs[known] = name
	})
	return name
}
