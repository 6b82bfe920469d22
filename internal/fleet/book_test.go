package fleet

import (
	"fmt"
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

func worker(name string) Holder { return Holder{Instance: name, Node: name, Slot: 1} }

func TestClaims(t *testing.T) {
	for name, c := range map[string]struct {
		adopted bool
		before  func(b *Book)
		who     string
		first   bool
		after   time.Duration
		want    Word
		again   time.Duration
	}{
		"of one that is not out": {before: func(b *Book) { b.End(1) }, who: "a", first: true, want: Over},
		"the first":              {who: "a", first: true, want: Run},
		"the first of one that was delivered before":           {who: "a", want: Run},
		"repeated by its holder":                               {before: granted("a"), who: "a", first: true, after: time.Second, want: Run},
		"of one that another holds, who was heard of":          {before: granted("a"), who: "b", after: 2 * time.Second, want: Held},
		"of one that another holds, who is silent":             {before: granted("a"), who: "b", after: 5 * time.Second, want: Wait, again: 3 * time.Second},
		"of one that another held":                             {before: granted("a"), who: "b", after: lease, want: Wait, again: often},
		"of one of before, while its holder may not have said": {adopted: true, who: "a", first: true, after: time.Second, want: Wait, again: time.Second},
		"of one of before that was never delivered":            {adopted: true, who: "a", first: true, after: 2 * time.Second, want: Run},
		"of one of before that was delivered":                  {adopted: true, who: "a", after: 2 * time.Second, want: Wait, again: 6 * time.Second},
		"of one of before that was delivered and nobody has":   {adopted: true, who: "a", after: lease, want: Wait, again: often},
		"of one of before whose holder spoke": {
			adopted: true, before: func(b *Book) { b.Hears(worker("a"), []int64{1}, start) }, who: "b", first: true,
			after: 2 * time.Second, want: Held,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(lease, often, start)
			b.Add(1, c.adopted, start)
			if c.before != nil {
				c.before(b)
			}
			word, again := b.Claim(1, worker(c.who), c.first, at(c.after))
			if word != c.want || again != c.again {
				t.Errorf("got %s, %s, want %s, %s", word, again, c.want, c.again)
			}
		})
	}
}

func granted(who string) func(*Book) {
	return func(b *Book) { b.Claim(1, worker(who), true, start) }
}

func TestOnlyAHolderThatIsSilentForALeaseIsLost(t *testing.T) {
	b := NewBook(lease, often, start)
	for token := range int64(3) {
		b.Add(token, false, start)
	}
	b.Claim(1, worker("a"), true, start)
	b.Claim(2, worker("b"), true, start)
	b.Hears(worker("b"), []int64{0, 1, 2}, at(time.Second)) // it has only the last
	if got := b.Silent(at(lease - 1)); got != nil {
		t.Errorf("got %v, want none before the lease is over", got)
	}
	if got := b.Silent(at(lease)); !slices.Equal(got, []int64{1}) {
		t.Errorf("got %v, want 1, which a has", got)
	}
	b.Add(3, true, start)
	b.Claim(3, worker("a"), false, at(lease))
	if got := b.Silent(at(lease)); !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("got %v, want also 3, which the broker delivers again and nobody has", got)
	}
	b.End(3)
	b.Deaf(at(lease))
	if got := b.Silent(at(2*lease - 1)); got != nil {
		t.Errorf("got %v, want none: nobody could be heard", got)
	}
	if got := b.Unheld(); !slices.Equal(got, []int64{0}) {
		t.Errorf("got %v, want 0", got)
	}
}

// A broker that doubles, forgets and reorders, workers that die or are cut off, and a coordinator that is killed and comes back: no token is
// run twice, and no two executions of what replaces it overlap, as long as workers end what they hold within 5/6 of a lease without contact.
func TestNoTokenRunsTwiceWhateverTheBrokerDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		b := NewBook(lease, often, now)
		type run struct {
			who     string
			contact time.Time // of the worker, when the book last heard of it
		}
		running, ran := map[int64]*run{}, map[int64]int{}
		cut := map[string]bool{}
		out := map[int64]bool{} // tokens that are in flight by the log
		next := int64(1)
		delivered := map[int64]int{}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for token, n := range ran {
					if n > 1 {
						t.Fatalf("token %d was run %d times", token, n)
					}
				}
			},
			"give out": func(t *rapid.T) {
				b.Add(next, false, now)
				out[next] = true
				next++
			},
			"deliver": func(t *rapid.T) {
				if next == 1 {
					t.Skip("nothing is out")
				}
				token, who := rapid.Int64Range(1, next-1).Draw(t, "token"), name.Draw(t, "worker")
				if r := running[token]; cut[who] || r != nil && r.who == who {
					return
				}
				delivered[token]++
				word, _ := b.Claim(token, worker(who), delivered[token] == 1, now)
				switch word {
				case Run:
					if r := running[token]; r != nil {
						t.Fatalf("token %d is granted to %s while %s runs it", token, who, r.who)
					}
					running[token] = &run{who, now}
					ran[token]++
				}
			},
			"end": func(t *rapid.T) {
				for token, r := range running {
					if !cut[r.who] {
						b.End(token)
						delete(running, token)
						delete(out, token)
						return
					}
				}
			},
			"cut off": func(t *rapid.T) { cut[name.Draw(t, "worker")] = true },
			"heal":    func(t *rapid.T) { delete(cut, name.Draw(t, "worker")) },
			"pass": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "seconds") {
					now = now.Add(time.Second)
					for token, r := range running {
						switch {
						case !cut[r.who]:
							b.Hears(worker(r.who), []int64{token}, now)
							r.contact = now
						case now.Sub(r.contact) > lease*5/6:
							delete(running, token) // it has killed it
						}
					}
					for _, token := range b.Silent(now) {
						if r := running[token]; r != nil {
							t.Fatalf("token %d is lost while %s runs it", token, r.who)
						}
						b.End(token)
						delete(out, token)
					}
				}
			},
			"kill the coordinator": func(t *rapid.T) {
				b = NewBook(lease, often, now)
				for token := range out {
					b.Add(token, true, now)
				}
				for token, r := range running { // those that can be heard say what they have
					if !cut[r.who] {
						b.Hears(worker(r.who), []int64{token}, now)
						r.contact = now
					}
				}
			},
		})
	})
}

func ExampleBook_Claim() {
	b := NewBook(time.Minute, 5*time.Second, start)
	b.Add(17, false, start)
	word, _ := b.Claim(17, Holder{Instance: "x", Node: "worker-1", Slot: 2}, true, start)
	fmt.Println(word)
	word, _ = b.Claim(17, Holder{Instance: "y", Node: "worker-2", Slot: 1}, false, start.Add(time.Second))
	fmt.Println(word)
	// Output:
	// run
	// held
}
