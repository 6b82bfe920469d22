package natsfleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// workerBook is what a coordinator knows of the workers that have spoken, by instance.
type workerBook struct {
	roster roster
	clocks fleet.Clocks
	// heard is when they have spoken last. A call counts too.
	heard map[string]time.Time
	// short is what their machines have too little of, as it was told.
	short map[string]string
	// named has the names that are theirs, as instance and name.
	named map[string]bool
}

// hear notes that a worker has spoken. It reports whether somebody is to be told that its machine has too little of
// something, or enough again.
func (b *workerBook) hear(u fleet.WorkerMessage, now time.Time) bool {
	b.heard[u.Instance] = now
	b.roster.heard(u, now)
	if u.Refuses != "" || !u.Full || (u.Short == "") == (b.short[u.Instance] == "") {
		return false
	}
	b.short[u.Instance] = u.Short
	return true
}

// roster has the workers that a coordinator has heard of, by instance, for those who ask who is there: a worker that is
// silent cannot say so itself. Those that have ended are not in it.
type roster map[string]lastHeard

// lastHeard is what a worker has said of itself last.
type lastHeard struct {
	name, host string
	slots      int
	// refuses is why it does not join the job. It is empty if it does.
	refuses string
	at      time.Time
}

// forgottenAfter is how long a worker that has nothing of the job is listed after its last word.
const forgottenAfter = time.Hour

// heard notes that a worker has said something.
func (r roster) heard(u fleet.WorkerMessage, now time.Time) {
	delete(r, u.After)
	if u.Gone {
		delete(r, u.Instance)
		return
	}
	r[u.Instance] = lastHeard{
		name: u.Node, host: u.Host, slots: cmp.Or(u.Slots, r[u.Instance].slots),
		refuses: u.Refuses, at: now,
	}
}

// refusalsShown is how many workers refusing names.
const refusalsShown = 3

// refusing says in brackets which workers take no part, and why, or "" if all do.
func (r roster) refusing() string {
	var list []string
	for _, w := range r {
		if w.refuses != "" {
			list = append(list, w.name+": "+w.refuses)
		}
	}
	slices.Sort(list)
	if len(list) == 0 {
		return ""
	}
	more := ""
	if n := len(list) - refusalsShown; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return " (" + strings.Join(list[:min(len(list), refusalsShown)], "; ") + more + ")"
}

// hostOf returns the machine of a worker, unless it is called like the worker or is not known.
func (r roster) hostOf(instance string) string {
	w := r[instance]
	if w.host == w.name {
		return ""
	}
	return w.host
}

// nodes returns the workers, those that have been silent longest first. every is how often each should say something,
// and held returns the tokens of what one has of the job.
func (r roster) nodes(key, jobID string, every time.Duration, held func(instance string) []int64, now time.Time) []fleet.Node {
	list := make([]fleet.Node, 0, len(r))
	for instance, w := range r {
		n := fleet.Node{
			V: fleet.Protocol, Instance: instance, Name: w.name, Host: w.host, Slots: w.slots,
			Ago: max(1, now.Sub(w.at)), Every: every, Jobs: map[string]string{key: jobID},
		}
		if tokens := held(instance); len(tokens) > 0 {
			n.Holds, n.Busy = map[string][]int64{key: tokens}, len(tokens)
		} else if n.Ago > forgottenAfter {
			delete(r, instance)
			continue
		}
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b fleet.Node) int {
		return cmp.Or(cmp.Compare(b.Ago, a.Ago), cmp.Compare(a.Instance, b.Instance))
	})
	return list
}

// rosterAnswer is what a coordinator answers who asks for the workers. It has no instance, unlike the answer of a
// worker.
type rosterAnswer struct {
	V     int               `json:"v"`
	Heard []json.RawMessage `json:"heard"`
}

// encodedRoster returns the answer with as many workers as a message has room for.
func encodedRoster(nodes []fleet.Node) []byte {
	answer, size := rosterAnswer{V: fleet.Protocol, Heard: []json.RawMessage{}}, 0
	for _, n := range nodes {
		one := encoded(n)
		if size += len(one) + 1; size > maxBody-100 {
			break
		}
		answer.Heard = append(answer.Heard, one)
	}
	return encoded(answer)
}

// heardIn returns the workers in the answer of a coordinator, as far as it can be read.
func heardIn(data []byte) []fleet.Node {
	var answer rosterAnswer
	if json.Unmarshal(data, &answer) != nil {
		return nil
	}
	var nodes []fleet.Node
	for _, one := range answer.Heard {
		var n fleet.Node
		if json.Unmarshal(one, &n) == nil && n.Instance != "" && n.Ago > 0 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// tellRoster answers who asks for the workers.
func (c *coordinator) tellRoster(m *nats.Msg) {
	var nodes []fleet.Node
	c.turn(func(s *jobState) {
		if !s.gone {
			nodes = s.workers.roster.nodes(c.key, c.jobID, s.ledger.Every, s.ledger.Held, time.Now())
		}
	})
	if len(nodes) > 0 {
		_ = m.Respond(encodedRoster(nodes)) // or it is listed the next time that somebody asks
	}
}

// withSilent returns the workers that answer, and those that only coordinators have heard of. One that has nothing, and
// whose name another one answers to, has been replaced by that.
func withSilent(answering, heard []fleet.Node) []fleet.Node {
	present, names := map[string]bool{}, map[string]bool{}
	for _, n := range answering {
		present[n.Instance], names[n.Name] = true, true
	}
	silent := map[string]fleet.Node{}
	for _, n := range heard {
		other, known := silent[n.Instance]
		switch {
		case present[n.Instance]:
			continue
		case known:
			n.Ago, n.Every, n.Busy = min(n.Ago, other.Ago), max(n.Every, other.Every), n.Busy+other.Busy
			n.Jobs, n.Holds = joined(other.Jobs, n.Jobs), joined(other.Holds, n.Holds)
		}
		silent[n.Instance] = n
	}
	for _, n := range check.ByKey(silent) {
		if len(n.Holds) > 0 || !names[n.Name] {
			answering = append(answering, n)
		}
	}
	return answering
}

// joined returns a map with what two maps have.
func joined[V any](a, b map[string]V) map[string]V {
	all := map[string]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
