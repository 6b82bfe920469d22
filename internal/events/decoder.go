package events

import (
	"bytes"
	"time"
)

// decoder decodes lines of a log one after the other. It gives what Decode gives, sooner for the two events that a log has most of, since it
// looks only at what they do not have in common with the lines before. The zero value has seen none.
type decoder struct {
	heads heads
	times times
}

func (d *decoder) decode(l line) (Record, error) {
	if r, ok := d.quick(l); ok {
		return r, nil
	}
	r, err := Decode(l.text)
	if err != nil {
		return Record{}, l.damaged(err)
	}
	return r, nil
}

// agent is an AgentStarted or AgentCompleted as it stands in its line, whose ids are made of each other as those of a job are.
type agent struct {
	name            string // of the type
	time            time.Time
	id              []byte
	job             int // how much of the id is that of the job
	correlation     int // how much of the id is the correlation
	index           int
	attempt, worker int
	rest            []byte // of the line, behind these
}

// item returns the id of the item.
func (a *agent) item() []byte { return a.id[a.job+1 : a.correlation] }

// cutAgent reads the fields that both events have, in the form that Encode gives them. Anything else is not ok.
func (d *decoder) cutAgent(l line) (a agent, ok bool) {
	item, rest, ok := d.heads.cut(l)
	if !ok || len(item) < 2 {
		return a, false
	}
	c := cursor{rest: rest, ok: true}
	if a.name = c.typeName(); a.name != started && a.name != completed {
		return a, false
	}
	c.skip(`,"item_id":"`)
	c.skipBytes(item[1:])
	a.index = c.numberOf(`","item_index":`)
	c.skip(`,"agent_id":`)
	a.id = c.raw()
	a.attempt = c.numberOf(`,"attempt":`)
	a.worker = c.numberOf(`,"worker":`)
	own, of := bytes.CutPrefix(a.id, []byte(d.heads.job))
	if !c.ok || !of || !bytes.HasPrefix(own, item) || !plain(own) {
		return a, false
	}
	a.job = len(d.heads.job)
	a.correlation, a.rest = a.job+len(item), c.rest
	a.time, ok = d.times.parse(l.text[l.body : l.body+len(timeLayout)])
	return a, ok
}

// quick reads what cutAgent reads. Anything else is not ok.
func (d *decoder) quick(l line) (Record, bool) {
	a, ok := d.cutAgent(l)
	if !ok {
		return Record{}, false
	}
	id := string(a.id)
	r := Record{Seq: l.seq, Time: a.time, JobID: d.heads.job, CorrelationID: id[:a.correlation]}
	item := id[a.job+1 : a.correlation]
	c := cursor{rest: a.rest, ok: true, ids: ids{text: id, correlation: a.correlation}}
	if a.name == started {
		r.Event = AgentStarted{ItemID: item, ItemIndex: a.index, AgentID: id, Attempt: a.attempt, Worker: a.worker}
		return r, c.end()
	}
	e := AgentCompleted{ItemID: item, ItemIndex: a.index, AgentID: id, Attempt: a.attempt, Worker: a.worker}
	c.outcome(&e)
	r.Event = e
	return r, c.end()
}

// times reads times of timeLayout that follow each other, many within a second. The zero value has seen none.
type times struct {
	second string // as it is written, up to the point
	begin  time.Time
}

func (t *times) parse(b []byte) (time.Time, bool) {
	point := len(t.second)
	if point == 0 || string(b[:point]) != t.second {
		at, ok := parseTime(b)
		if ok {
			t.second, t.begin = string(b[:len(timeLayout)-len(".000000Z")]), at.Truncate(time.Second)
		}
		return at, ok
	}
	micros, size := digits(b[point+1:], 6)
	if size != 6 || b[point] != '.' || b[point+7] != 'Z' {
		return time.Time{}, false
	}
	return t.begin.Add(time.Duration(micros) * time.Microsecond), true
}
