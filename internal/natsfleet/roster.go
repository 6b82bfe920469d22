package natsfleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// workerBook is what a coordinator knows of the workers that have spoken, by instance. It tells those who ask who is
// there, too: a worker that is silent cannot say so itself.
type workerBook map[string]*knownWorker

// knownWorker is what a worker has said of itself last.
type knownWorker struct {
	name, host string
	slots      int
	// refuses is why it does not join the job. It is empty if it does.
	refuses string
	// short is what its machine has too little of, as it was told.
	short string
	// at is when it said something of itself. It is zero if it never did, or has ended.
	at time.Time
	// heard is when it has spoken last, while it could be heard. A call counts too.
	heard time.Time
	// offset is what is to be added to the times of its clock.
	offset time.Duration
	// named is a name that is its own.
	named string
}

// of returns what is known of a worker.
func (b workerBook) of(instance string) *knownWorker {
	if b[instance] == nil {
		b[instance] = &knownWorker{}
	}
	return b[instance]
}

// hear notes what a worker says of itself. It reports whether somebody is to be told that its machine has too little of
// something, or enough again.
func (b workerBook) hear(u fleet.WorkerMessage, now time.Time) bool {
	w := b.of(u.Instance)
	w.name, w.host, w.slots = u.Node, u.Host, cmp.Or(u.Slots, w.slots)
	w.refuses, w.at, w.heard = u.Refuses, now, now
	if u.Gone {
		w.at = time.Time{}
	}
	if u.Refuses != "" || !u.Full || (u.Short == "") == (w.short == "") {
		return false
	}
	w.short = u.Short
	return true
}

// refusalsShown is how many workers refusing names.
const refusalsShown = 3

// refusing says in brackets which workers take no part, and why, or "" if all do.
func (b workerBook) refusing() string {
	var list []string
	for _, w := range b {
		if w.refuses != "" && !w.at.IsZero() {
			list = append(list, w.name+": "+w.refuses)
		}
	}
	slices.Sort(list)
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(check.First(list, refusalsShown), "; ") +
		check.Some("; and %d more", len(list)-refusalsShown) + ")"
}

// hostOf returns the machine of a worker, unless it is called like the worker or is not known.
func (b workerBook) hostOf(instance string) string {
	if w := b[instance]; w != nil && w.host != w.name {
		return w.host
	}
	return ""
}

// nodes returns the workers that have something of the job, which waits for word of them. every is how often each
// should say something, and held returns the tokens of what one has.
func (b workerBook) nodes(
	key, jobID string, every time.Duration, held func(instance string) []int64, now time.Time,
) (list []fleet.Node) {
	for instance, w := range b {
		if tokens := held(instance); len(tokens) > 0 && !w.at.IsZero() {
			list = append(list, fleet.Node{
				V: fleet.Protocol, Instance: instance, Name: w.name, Host: w.host, Slots: w.slots, Busy: len(tokens),
				Ago: max(1, now.Sub(w.at)), Every: every,
				Jobs: map[string]fleet.NodeJob{key: {ID: jobID, Items: len(tokens)}},
			})
		}
	}
	return list
}

// rosterAnswer is what a coordinator answers who asks for the workers. It has no instance, unlike the answer of a
// worker.
type rosterAnswer struct {
	Heard []fleet.Node `json:"heard"`
}

// tellRoster answers who asks for the workers.
func (c *coordinator) tellRoster(m *nats.Msg) {
	var nodes []fleet.Node
	c.turn(func(s *jobState) {
		if !s.gone {
			nodes = s.workers.nodes(c.key, c.jobID, s.ledger.Every, s.ledger.Held, time.Now())
		}
	})
	if len(nodes) > 0 {
		_ = m.Respond(encoded(rosterAnswer{nodes})) // or it is listed the next time that somebody asks
	}
}

// withSilent returns the workers that answer, and those that only coordinators have heard of.
func withSilent(answering, heard []fleet.Node) []fleet.Node {
	present := map[string]bool{}
	for _, n := range answering {
		present[n.Instance] = true
	}
	silent := map[string]fleet.Node{}
	for _, n := range heard {
		if n.Instance == "" || n.Ago <= 0 || n.Jobs == nil || present[n.Instance] {
			continue
		}
		if other, known := silent[n.Instance]; known {
			n.Ago, n.Every, n.Busy = min(n.Ago, other.Ago), max(n.Every, other.Every), n.Busy+other.Busy
			maps.Copy(n.Jobs, other.Jobs)
		}
		silent[n.Instance] = n
	}
	for _, n := range check.ByKey(silent) {
		answering = append(answering, n)
	}
	return answering
}
