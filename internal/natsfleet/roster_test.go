package natsfleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/fleet"
)

// nodesOf returns the workers that somebody sees, by name.
func (f *field) nodesOf(a fleet.Address) map[string]fleet.Node {
	nodes, err := (Backend{}).Nodes(f.t.Context(), a)
	if err != nil {
		f.t.Error(err)
	}
	byName := map[string]fleet.Node{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	return byName
}

// A worker that is silent is listed while a job still runs that has heard of it, with what the job waits for. What else answers does no harm.
func TestAWorkerThatIsSilentIsListed(t *testing.T) {
	f := newField(t)
	f.worker("a", 1, nil)
	c, joined := f.config(nil)
	of := joined.(*coordinator)
	ghost := f.stranger()
	instance := ghost.instance()
	if _, err := ghost.subscribe(downSubject(instance), func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	send := func(u fleet.WorkerMessage) {
		u.V, u.Owner, u.Instance, u.Host, u.Full = fleet.Protocol, of.owner, instance, "far", true
		if err := ghost.nc.Publish(upSubject(instance, of.key), encoded(u)); err != nil {
			t.Error(err)
		}
	}
	odd := f.stranger()
	answers := []string{
		`{`, `[]`, `{"heard":7}`, `{"heard":[{"name":"nobody"},7]}`, `{"v":9,"heard":[{"name":"no instance"}]}`, "\xff", "",
		`{"v":1,"instance":"old-1","name":"old","host":"h","version":"0"}`, `{"v":9,"heard":[{"instance":"odd-1","name":"odd","ago":-5}]}`,
	}
	if _, err := odd.subscribe("prodigy.nodes", func(m *nats.Msg) {
		for _, text := range answers {
			_ = m.Respond([]byte(text))
		}
	}); err != nil {
		t.Fatal(err)
	}
	f.whenRunning(func() {
		send(fleet.WorkerMessage{WorkerStatus: fleet.WorkerStatus{Node: "ghost", Round: 1, Credit: 2, Slots: 2}})
		var found fleet.Node
		if !eventually(func() bool {
			found = f.nodesOf(f.address())["ghost"]
			return len(found.Jobs) > 0 && found.Silent()
		}) {
			t.Errorf("the ghost is %+v, want that it has something and is silent", found)
		}
		for _, j := range found.Jobs {
			if !strings.HasPrefix(j.ID, "mapreduce-") || j.Items == 0 {
				t.Errorf("it has something of %+v", j)
			}
		}
		if found.Host != "far" || found.Slots != 2 || found.Ago < 3*found.Every || found.Unfit(fleet.Job{}) == "" {
			t.Errorf("got %+v, which is fit for a job: %q", found, found.Unfit(fleet.Job{}))
		}
		all := f.nodesOf(f.address())
		if a := all["a"]; a.Ago != 0 || a.Silent() || all["old"].Version != "0" || all["odd"].Silent() {
			t.Errorf("got %+v", all)
		}
	})
	r, err := f.runWith(c, joined, source(12, 4, twice, ""))
	if err != nil {
		t.Fatal(err)
	}
	f.once(r, 12)
	if n, there := f.nodesOf(f.address())["ghost"]; there {
		t.Errorf("the job has ended, and the ghost is still listed: %+v", n)
	}
}

// A worker that says that it ends is not silent.
func TestARosterForgetsWhoHasEnded(t *testing.T) {
	now := time.Now()
	r := workerBook{}
	heard := func(instance string, change func(*fleet.WorkerMessage)) {
		u := fleet.WorkerMessage{Host: "h", WorkerStatus: fleet.WorkerStatus{Instance: instance, Node: instance, Slots: 1}}
		if change != nil {
			change(&u)
		}
		r.hear(u, now)
	}
	heard("a", nil)
	heard("b", nil)
	heard("c", nil)
	heard("b", func(u *fleet.WorkerMessage) { u.Gone = true })
	nodes := r.nodes("key", "job", time.Second, func(instance string) []int64 {
		return map[string][]int64{"a": {7, 9}, "b": {1}}[instance]
	}, now.Add(5*time.Second))
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
		if n.Ago != 5*time.Second || n.Every != time.Second || n.Jobs["key"] != (fleet.NodeJob{ID: "job", Items: 2}) {
			t.Errorf("got %+v", n)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a"}) {
		t.Errorf("got %q, want a", names)
	}
}
