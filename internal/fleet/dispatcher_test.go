package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 20, 16, 15, 0, 0, time.UTC)

const (
	lease = 8 * time.Second
	often = time.Second
)

func at(d time.Duration) time.Time { return start.Add(d) }

func offer(who string, round, credit int64, holds ...int64) WorkerStatus {
	return WorkerStatus{Instance: who, Node: who, Round: round, Credit: credit, Full: true, Holds: holds}
}

// given returns who was given what, in order.
func given(grants []Assignment) []string {
	var list []string
	for _, g := range grants {
		list = append(list, fmt.Sprintf("%s:%d", g.Instance, g.Token))
	}
	return list
}

func TestAttemptsGoRoundThoseThatTakeSome(t *testing.T) {
	d := NewDispatcher(lease, often, start)
	for token := range int64(6) {
		d.Add(token + 1)
	}
	d.Update(offer("a", 1, 3), start)
	d.Update(offer("b", 1, 1), start)
	d.Update(offer("c", 1, 0), start)
	if got, want := given(d.Assign(start)), []string{"a:1", "b:2", "a:3", "a:4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	d.Update(offer("b", 1, 1, 2), start) // says nothing new
	if got := given(d.Assign(start)); got != nil {
		t.Errorf("got %v, want none: nobody takes more", got)
	}
	if got := d.Unassigned(); !slices.Equal(got, []int64{5, 6}) {
		t.Errorf("got %v, want 5 and 6 to wait", got)
	}
	d.Remove(1)
	d.Update(WorkerStatus{Instance: "a", Round: 1, Credit: 4}, start)
	if got, want := given(d.Assign(start)), []string{"a:5"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWhatAWorkerNeverTookIsGivenToAnother(t *testing.T) {
	for name, c := range map[string]struct {
		then func(d *Dispatcher) (again bool)
		want []string // given to b then
	}{
		"it is on the way": {then: func(d *Dispatcher) bool {
			_, again := d.Update(offer("a", 1, 1), at(often))
			return again
		}},
		"it has it in another round": {then: func(d *Dispatcher) bool {
			_, again := d.Update(offer("a", 2, 0, 1), at(often))
			return again
		}},
		"it has closed the round without it": {want: []string{"b:1"}, then: func(d *Dispatcher) bool {
			_, again := d.Update(offer("a", 2, 0), at(often))
			return again
		}},
		"it ends": {want: []string{"b:1"}, then: func(d *Dispatcher) bool {
			w := offer("a", 2, 0)
			w.Gone = true
			_, again := d.Update(w, at(often))
			return again
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDispatcher(lease, often, start)
			d.Add(1)
			d.Update(offer("a", 1, 1), start)
			d.Assign(start)
			if c.then(d) {
				t.Error("it is asked to say everything again")
			}
			d.Update(offer("b", 1, 1), at(often))
			if got := given(d.Assign(at(often))); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	d := NewDispatcher(lease, often, start)
	d.Add(1)
	d.Update(offer("a", 1, 1), start)
	d.Assign(start)
	if _, again := d.Update(offer("a", 1, 1), at(3*often)); !again {
		t.Error("what does not arrive for a long time is not asked after")
	}
	if over, _ := d.Update(offer("a", 2, 0, 1, 7), at(3*often)); !slices.Equal(over, []int64{7}) {
		t.Errorf("got %v, want that 7 is over, which is not out", over)
	}
}

// What a worker has listed, or reported of, and has no more, is lost, and not given out again as if it had not arrived.
func TestWhatAWorkerHadAndForgotIsLost(t *testing.T) {
	for name, had := range map[string]func(d *Dispatcher){
		"it has listed it":          func(d *Dispatcher) { d.Update(offer("a", 1, 1, 1), start) },
		"it has reported something": func(d *Dispatcher) { d.Reported(1, Holder{Instance: "a"}, start) },
		"it has lost it for a moment": func(d *Dispatcher) {
			d.Reported(1, Holder{Instance: "a"}, start)
			d.Update(offer("a", 2, 0), start)
			d.Update(offer("a", 2, 0, 1), start)
			if got := d.Lost(start); got != nil {
				t.Errorf("got %v, want nothing: it has it", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDispatcher(lease, often, start)
			d.Add(1)
			d.Update(offer("a", 1, 1), start)
			d.Assign(start)
			had(d)
			d.Update(offer("a", 3, 1), at(often))
			if got := given(d.Assign(at(often))); got != nil {
				t.Errorf("%v are given out again", got)
			}
			if got, want := d.Lost(at(often)), []Loss{{Token: 1, Node: "a", Began: true, Missing: true}}; !slices.Equal(got, want) {
				t.Errorf("%+v are lost, want %+v", got, want)
			}
		})
	}
}

func TestOnlyWhatASilentWorkerHasIsLost(t *testing.T) {
	d := NewDispatcher(lease, often, start)
	for token := range int64(4) {
		d.Add(token)
	}
	d.Update(offer("a", 1, 2), start)
	d.Update(offer("b", 1, 1), start)
	d.Assign(start) // a has 0 and 2, b has 1, and 3 waits
	d.Update(WorkerStatus{Instance: "a", Node: "a", Round: 1, Credit: 3}, start)
	d.Reported(2, Holder{Instance: "a"}, start)
	d.Update(offer("b", 1, 1, 1), at(time.Second))
	if got := d.Lost(at(lease - 1)); got != nil {
		t.Errorf("got %v, want none before the lease is over", got)
	}
	want := []Loss{{Token: 0, Node: "a"}, {Token: 2, Node: "a", Began: true}}
	if got := d.Lost(at(lease)); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := given(d.Assign(at(lease))); got != nil {
		t.Errorf("got %v, want nothing for those that are silent", got)
	}
	d.RestartLeases(at(lease))
	if got := d.Lost(at(2*lease - 1)); got != nil {
		t.Errorf("got %v, want none: nobody could be heard", got)
	}
}

// What waits for a worker when the run dies is given out at once by the next, when all who may have it have said what
// they have. What had begun by then, and nobody has, is lost.
func TestWhatTheRunBeforeGaveOut(t *testing.T) {
	for name, c := range map[string]struct {
		expected []string
		others   bool
		words    []WorkerStatus
		after    time.Duration
		queued   []int64
		lost     []int64
	}{
		"nobody had anything":         {words: []WorkerStatus{offer("a", 1, 0)}, queued: []int64{2}, lost: []int64{1}},
		"it has one":                  {expected: []string{"a"}, words: []WorkerStatus{offer("a", 1, 0, 2)}, lost: []int64{1}},
		"another has not spoken":      {expected: []string{"a", "b"}, words: []WorkerStatus{offer("a", 1, 0, 2)}},
		"nobody knows who there were": {others: true, words: []WorkerStatus{offer("a", 1, 0, 2)}},
		"another has ended":           {expected: []string{"a", "b"}, words: []WorkerStatus{offer("a", 1, 0, 2), {Instance: "b", Full: true, Gone: true}}, lost: []int64{1}},
		"another has ended, and has told the broker of one":    {expected: []string{"a", "b"}, words: []WorkerStatus{offer("a", 1, 0, 2), {Instance: "b", Full: true, Holds: []int64{1}, Left: []int64{1}, Gone: true}}, lost: []int64{1}},
		"it has ended one, and only the broker has the report": {expected: []string{"a"}, words: []WorkerStatus{offer("a", 1, 0, 2), {Instance: "a", Round: 1, Full: true, Holds: []int64{2}, Left: []int64{2}}}, lost: []int64{1, 2}},
		"another is silent": {expected: []string{"a", "b"}, words: []WorkerStatus{offer("a", 1, 0, 2)}, after: lease, lost: []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDispatcher(lease, often, start)
			d.Expect(c.expected, c.others, start)
			d.Adopt(1, "z") // by the log
			d.Adopt(2, "")
			for _, w := range c.words {
				d.Update(w, start)
			}
			for range c.after / often {
				d.Update(offer("a", 1, 0, 2), at(c.after))
			}
			if got := d.Unassigned(); !slices.Equal(got, c.queued) {
				t.Errorf("%v wait for a worker, want %v", got, c.queued)
			}
			var lost []int64
			for _, l := range d.Lost(at(c.after)) {
				lost = append(lost, l.Token)
				if l.Token == 1 && (l.Node != "z" || !l.Began) && len(c.words) > 0 && len(c.words[len(c.words)-1].Left) == 0 {
					t.Errorf("%+v is lost, want that it had begun on z", l)
				}
			}
			if !slices.Equal(lost, c.lost) {
				t.Errorf("%v are lost, want %v", lost, c.lost)
			}
		})
	}
}

// modelWorker is a worker of the model below.
type modelWorker struct {
	instance           string
	round, credit, got int64
	owner              int
	holds              map[int64]bool // what it has taken and is not told to be settled
	running            map[int64]bool
	left               map[int64]bool // ended, and the report is with the broker
	contact            time.Time      // when the coordinator last heard of it
	cut                bool
	again              bool // it says again what it has left with the broker, since that may have lost it
}

// modelReport is the end of an attempt that a worker has left with the broker.
type modelReport struct {
	instance string
	token    int64
}

// grantOnWay is what a coordinator has sent.
type grantOnWay struct {
	Assignment
	owner int
}

// Messages that are lost or come late, workers that are cut off for any time or end, a broker that loses its disk, and a coordinator that is killed and comes back: no token is
// run twice, and none is given up while it runs, as long as workers end what they hold within 5/6 of a lease without contact.
func TestNoTokenRunsTwiceWhateverIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, owner := start, 1
		d := NewDispatcher(lease, often, now)
		workers := map[string]*modelWorker{}
		for _, name := range []string{"a", "b", "c"} {
			workers[name] = &modelWorker{instance: name, holds: map[int64]bool{}, running: map[int64]bool{}, left: map[int64]bool{}, contact: now, owner: 1}
		}
		of := func(instance string) *modelWorker {
			for _, w := range workers {
				if w.instance == instance {
					return w
				}
			}
			return nil
		}
		var box []modelReport                         // at the broker
		out, ran := map[int64]bool{}, map[int64]int{} // tokens that are in flight by the log; how often each ran
		members, givenUp := map[string]bool{}, map[int64]bool{}
		next := int64(1)
		var way []grantOnWay
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		deal := func() {
			for _, g := range d.Assign(now) {
				way = append(way, grantOnWay{g, owner})
			}
		}
		// read takes all that the broker has.
		read := func() {
			for _, r := range box {
				if d.Reported(r.token, Holder{Instance: r.instance}, now) {
					d.Remove(r.token)
					delete(out, r.token)
				}
			}
			box = nil
		}
		say := func(who string) {
			w := workers[who]
			if w.cut {
				return
			}
			if w.owner != owner {
				w.owner = owner
				w.round++
				w.credit, w.got = 0, 0
				w.again = true
			}
			if w.again { // before all else that it says
				w.again = false
				for _, token := range slices.Sorted(maps.Keys(w.left)) {
					if token%3 == 0 {
						continue // there was no room to keep its report
					}
					delete(w.left, token)
					if d.Reported(token, Holder{Instance: w.instance}, now) {
						d.Remove(token)
						delete(out, token)
					}
				}
			}
			members[w.instance] = true
			w.contact = now
			over, again := d.Update(WorkerStatus{
				Instance: w.instance, Node: who, Round: w.round, Credit: w.credit, Full: true, Holds: slices.Sorted(maps.Keys(w.holds)), Left: slices.Sorted(maps.Keys(w.left)),
			}, now)
			for _, token := range over {
				delete(w.holds, token)
				delete(w.running, token)
				delete(w.left, token)
			}
			if again {
				w.round++
				w.credit, w.got = 0, 0
			}
			deal()
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for token, n := range ran {
					if n > 1 {
						t.Fatalf("token %d was run %d times", token, n)
					}
				}
			},
			"give out": func(t *rapid.T) {
				d.Add(next)
				out[next] = true
				next++
				deal()
			},
			"offer": func(t *rapid.T) {
				who := name.Draw(t, "worker")
				if w := workers[who]; w.credit-w.got < 3 {
					w.credit++
				}
				say(who)
			},
			"close the round": func(t *rapid.T) {
				w := workers[name.Draw(t, "worker")]
				w.round++
				w.credit, w.got = 0, 0
			},
			"say": func(t *rapid.T) { say(name.Draw(t, "worker")) },
			"arrive": func(t *rapid.T) {
				if len(way) == 0 {
					t.Skip("nothing is on the way")
				}
				i := rapid.IntRange(0, len(way)-1).Draw(t, "which")
				g := way[i]
				way = slices.Delete(way, i, i+1)
				w := of(g.Instance)
				if rapid.IntRange(0, 4).Draw(t, "lost") == 0 || w == nil || w.owner != g.owner || w.round != g.Round || w.got >= w.credit || now.Sub(w.contact) > lease*5/6 {
					return // or it would not know whether others have it by now
				}
				if givenUp[g.Token] {
					t.Fatalf("token %d begins on %s after it was given up", g.Token, g.Instance)
				}
				w.got++
				w.holds[g.Token], w.running[g.Token] = true, true
				ran[g.Token]++
			},
			"end": func(t *rapid.T) {
				who := name.Draw(t, "worker")
				w := workers[who]
				running := slices.Sorted(maps.Keys(w.running))
				if len(running) == 0 {
					return
				}
				token := running[0]
				delete(w.running, token)
				if !w.cut && w.owner == owner && d.Reported(token, Holder{Instance: w.instance}, now) {
					d.Remove(token)
					delete(out, token)
					delete(w.holds, token)
				}
			},
			"leave reports with the broker": func(t *rapid.T) {
				w := workers[name.Draw(t, "worker")]
				for token := range w.holds {
					if !w.running[token] && !w.left[token] {
						w.left[token] = true
						box = append(box, modelReport{instance: w.instance, token: token})
					}
				}
			},
			"end a worker": func(t *rapid.T) {
				who := name.Draw(t, "worker")
				w := workers[who]
				if len(w.holds) > len(w.left) {
					return // it has not told all yet
				}
				if !w.cut && w.owner == owner && rapid.Bool().Draw(t, "the coordinator is there") {
					holds := slices.Sorted(maps.Keys(w.holds))
					d.Update(WorkerStatus{Instance: w.instance, Node: who, Round: w.round, Full: true, Holds: holds, Left: slices.Sorted(maps.Keys(w.left)), Gone: true}, now)
					if len(holds) == 0 && !d.Knows(w.instance) {
						delete(members, w.instance) // the next coordinator need not know of it
					}
				}
				workers[who] = &modelWorker{instance: w.instance + "+", holds: map[int64]bool{}, running: map[int64]bool{}, left: map[int64]bool{}, contact: now, owner: owner}
			},
			"lose the disk of the broker": func(*rapid.T) {
				box = nil
				for _, w := range workers {
					w.again = true // they were disconnected
				}
			},
			"read":    func(*rapid.T) { read(); deal() },
			"cut off": func(t *rapid.T) { workers[name.Draw(t, "worker")].cut = true },
			"heal":    func(t *rapid.T) { workers[name.Draw(t, "worker")].cut = false },
			"pass": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "seconds") {
					now = now.Add(time.Second)
					for _, who := range []string{"a", "b", "c"} {
						w := workers[who]
						if say(who); now.Sub(w.contact) > lease*5/6 {
							clear(w.running) // it has killed it
						}
					}
					read()
					for _, lost := range d.Lost(now) {
						for who, w := range workers {
							if w.running[lost.Token] {
								t.Fatalf("token %d is lost while %s runs it", lost.Token, who)
							}
						}
						d.Remove(lost.Token)
						delete(out, lost.Token)
						givenUp[lost.Token] = true
					}
				}
			},
			"kill the coordinator": func(t *rapid.T) {
				owner++
				d = NewDispatcher(lease, often, now)
				forgotten := rapid.Bool().Draw(t, "nobody knows who there were")
				if forgotten {
					d.Expect(nil, true, now)
				} else {
					d.Expect(slices.Sorted(maps.Keys(members)), false, now)
				}
				for token := range out {
					d.Adopt(token, "")
				}
				read()
			},
		})
	})
}

func ExampleDispatcher() {
	d := NewDispatcher(time.Minute, 5*time.Second, start)
	d.Add(17)
	d.Update(WorkerStatus{Instance: "x", Node: "worker-1", Round: 1, Credit: 2, Full: true}, start)
	for _, g := range d.Assign(start) {
		fmt.Println(g.Token, "for", g.Instance)
	}
	// Output:
	// 17 for x
}

func TestSlotsAreThoseOfTheWorkersThatTakePart(t *testing.T) {
	d := NewDispatcher(lease, often, start)
	said := func(what string, wantWorkers, wantSlots int) {
		t.Helper()
		if workers, slots := d.Slots(); workers != wantWorkers || slots != wantSlots {
			t.Errorf("%s: got %d workers with %d slots, want %d with %d", what, workers, slots, wantWorkers, wantSlots)
		}
	}
	says := func(who string, slots int, at time.Time) {
		d.Update(WorkerStatus{Instance: who, Node: who, Round: 1, Credit: 1, Slots: slots}, at)
	}
	said("nobody", 0, 0)
	d.Add(1)
	says("a", 3, start)
	says("b", 2, start)
	says("b", 2, start)
	d.Assign(start)
	said("two", 2, 5)
	says("b", 0, start)
	said("b is drained", 1, 3)
	d.Update(WorkerStatus{Instance: "b", Node: "b", Round: 1, Gone: true}, start)
	said("b has gone", 1, 3)
	d.Lost(at(lease))
	said("a is silent, and what it has is lost", 0, 0)
	says("a", 3, at(lease))
	said("a is back", 1, 3)
	d.Update(WorkerStatus{Instance: "a", Node: "a", Round: 1, Gone: true}, at(lease))
	said("a has ended", 0, 0)
}
