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

// quick reads AgentStarted and AgentCompleted in the form that Encode gives them, whose ids are made of each other as those of a job are. Anything
// else is not ok.
func (d *decoder) quick(l line) (Record, bool) {
	item, rest, ok := d.heads.cut(l)
	if !ok || len(item) < 2 {
		return Record{}, false
	}
	c := cursor{rest: rest, ok: true}
	name := c.typeName()
	if name != started && name != completed {
		return Record{}, false
	}
	var s AgentStarted
	c.skip(`,"item_id":"`)
	c.skipBytes(item[1:])
	s.ItemIndex = c.numberOf(`","item_index":`)
	c.skip(`,"agent_id":`)
	agent := c.raw()
	s.Attempt = c.numberOf(`,"attempt":`)
	s.Worker = c.numberOf(`,"worker":`)
	r := Record{Seq: l.seq, JobID: d.heads.job}
	own, of := bytes.CutPrefix(agent, []byte(r.JobID))
	if r.Time, ok = d.times.parse(l.text[l.body : l.body+len(timeLayout)]); !ok || !c.ok || !of || !bytes.HasPrefix(own, item) || !plain(own) {
		return Record{}, false
	}
	s.AgentID = string(agent)
	r.CorrelationID = s.AgentID[:len(r.JobID)+len(item)]
	s.ItemID = r.CorrelationID[len(r.JobID)+1:]
	if name == started {
		r.Event = s
		return r, c.end()
	}
	e := AgentCompleted{ItemID: s.ItemID, ItemIndex: s.ItemIndex, AgentID: s.AgentID, Attempt: s.Attempt, Worker: s.Worker}
	c.ids = ids{text: s.AgentID, correlation: len(r.CorrelationID)}
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
