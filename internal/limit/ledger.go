package limit

import (
	"cmp"
	"fmt"
)

// Budget is what agents may use.
type Budget struct {
	// maximum cost of all agents of the job in US dollars; when it is reached, the job stops, and can be
	// resumed with more; default no limit
	Job *USD `yaml:"job"`

	// maximum cost of all agents of an item in US dollars, over all attempts; beyond it, the item fails with
	// type `budget`; default no limit
	Item *USD `yaml:"item"`

	// maximum number of tokens of all agents of the job, including cached ones; default no limit
	Tokens *Count `yaml:"tokens"`
}

// Ask is an agent that wants to start.
type Ask struct {
	Item int // index; below 0: it is in another phase
	Step string
	Max  USD // what the step may cost the item, 0 without a limit
}

// Grant is a start that was admitted.
type Grant struct {
	ID      int64
	Cap     USD  // what the agent may cost, 0 without a limit
	Rest    bool // Cap is less than the step and the item may cost: it is what is left of the budget of the job
	Assumed USD  // what it counts as if nobody learns what it has cost
}

// JobSpent says that the budget of the job does not allow one more agent.
type JobSpent struct {
	Limit, Spent, Next USD // Next: what one more agent may cost
	Tokens, Used       Count

	// Assumed is the part of Spent that agents may have cost whose cost is unknown.
	Assumed USD
}

// Error says it with what the agents have cost, as far as that is known.
func (e *JobSpent) Error() string {
	switch {
	case e.Assumed > 0:
		return fmt.Sprintf("%s; some agents have unknown cost, %s is assumed for each", e.Text(), e.Assumed)
	case e.Spent >= e.Limit && e.Tokens == 0:
		return fmt.Sprintf("%s: agents cost %s so far", e.Text(), e.Spent)
	}
	return e.Text()
}

// Text says it without what is not known of all agents: what they have cost.
func (e JobSpent) Text() string {
	if e.Tokens > 0 {
		return fmt.Sprintf("the budget of %s tokens is used up: agents used %s", e.Tokens, e.Used)
	}
	if left := e.Limit - e.Spent; left > 0 && e.Next > 0 {
		return fmt.Sprintf("the budget of %s does not allow another agent: %s spent, and an agent may cost %s",
			e.Limit, e.Spent, e.Next)
	}
	return fmt.Sprintf("the budget of %s is used up", e.Limit)
}

// ItemSpent says that an item, or one of its steps, may cost no more.
type ItemSpent struct {
	What         string // budget.item or max_cost
	Limit, Spent USD
}

// Error says it for people.
func (e *ItemSpent) Error() string {
	return fmt.Sprintf("%s is %s, and %s is already spent", e.What, e.Limit, e.Spent)
}

// Ledger holds the agents of a job to its budget. It reserves for each of them what it may cost, so that all
// of them together stay within the budget. It is not safe for concurrent use.
type Ledger struct {
	budget  Budget
	account Account
	running map[int64]*atWork
	last    int64
}

// atWork is an agent that runs.
type atWork struct {
	item     int
	step     string
	cap      USD
	reserved USD
	tokens   Count
	live     USD // what it has cost by now, as far as its output says
}

// NewLedger returns the ledger of a job that has used what the account says.
func NewLedger(b Budget, a Account) *Ledger {
	return &Ledger{budget: b, account: a.Clone(), running: map[int64]*atWork{}}
}

// Admit decides about a start. Without a grant, wait says that it depends on agents that run: ask again when
// one has ended. The error is a *JobSpent or an *ItemSpent.
func (l *Ledger) Admit(a Ask) (g Grant, wait bool, err error) {
	most, limited, wait, err := l.ofItem(a)
	if err != nil || wait {
		return Grant{}, wait, err
	}
	next := &atWork{item: a.Item, step: a.Step}
	total := &l.account.Total
	g.Cap = most
	next.reserved = most
	if !limited {
		next.reserved = total.Largest
	}
	if job := l.budget.Job; job != nil {
		spent := total.Cost + total.Assumed
		left := *job - spent
		for _, w := range l.running {
			left -= max(w.reserved, w.live)
		}
		need := total.Largest // of the size of those before it may get through
		if limited && most < need {
			need = most
		}
		if left <= 0 || need > left {
			if len(l.running) > 0 {
				return Grant{}, true, nil
			}
			return Grant{}, false, &JobSpent{Limit: *job, Spent: spent, Next: need, Assumed: total.Assumed}
		}
		if !limited || most > left {
			g.Cap, g.Rest = left, true
			next.reserved = min(next.reserved, left)
		}
	}
	if limit := l.budget.Tokens; limit != nil {
		used := total.Tokens.All()
		left := *limit - used
		for _, w := range l.running {
			left -= w.tokens
		}
		if left <= 0 || total.LargestN > left {
			if len(l.running) > 0 {
				return Grant{}, true, nil
			}
			return Grant{}, false, &JobSpent{Tokens: *limit, Used: used}
		}
		next.tokens = total.LargestN
	}
	next.cap = g.Cap
	l.last++
	g.ID = l.last
	g.Assumed = next.reserved
	l.running[g.ID] = next
	return g, false, nil
}

// ofItem returns what an agent may cost by the limits of its item and of its step.
func (l *Ledger) ofItem(a Ask) (most USD, limited, wait bool, err error) {
	ofStep, all := l.account.Items[a.Item][a.Step], USD(0)
	for _, cost := range l.account.Items[a.Item] {
		all += cost
	}
	var ofAll USD // what the item may cost
	if l.budget.Item != nil {
		ofAll = *l.budget.Item
	}
	var stepHeld, itemHeld USD // by other agents of the item that run, as in a foreach
	for _, w := range l.running {
		if w.item != a.Item {
			continue
		}
		itemHeld += w.reserved
		if w.step == a.Step {
			stepHeld += w.reserved
		}
	}
	for _, limit := range []struct {
		what              string
		most, spent, held USD
		there             bool
	}{
		{"max_cost", a.Max, ofStep, stepHeld, a.Max > 0},
		{"budget.item", ofAll, all, itemHeld, l.budget.Item != nil && a.Item >= 0},
	} {
		if !limit.there {
			continue
		}
		left := limit.most - limit.spent - limit.held
		switch {
		case limit.most <= limit.spent:
			return 0, true, false, &ItemSpent{What: limit.what, Limit: limit.most, Spent: limit.spent}
		case left <= 0:
			return 0, true, true, nil
		case !limited || left < most:
			most, limited = left, true
		}
	}
	return most, limited, false, nil
}

// Live notes what a running agent has cost by now. It reports whether the agent has reached its cap, or all
// agents together the budget of the job: then it has to end.
func (l *Ledger) Live(id int64, cost USD) (own, job bool) {
	w := l.running[id]
	if w == nil {
		return false, false
	}
	w.live = max(w.live, cost)
	own = w.cap > 0 && w.live >= w.cap
	if l.budget.Job == nil {
		return own, false
	}
	sum := l.account.Total.Cost + l.account.Total.Assumed
	for _, w := range l.running {
		sum += w.live
	}
	return own, sum >= *l.budget.Job
}

// Add adds what an attempt has used.
func (l *Ledger) Add(item int, step string, u Use) { l.account.Add(item, step, u) }

// Release ends a grant, after Add.
func (l *Ledger) Release(id int64) { delete(l.running, id) }

// Running returns how many agents run.
func (l *Ledger) Running() int { return len(l.running) }

// More returns a budget to suggest when the one of e is spent: twice as much, and enough for the next agent.
func (e *JobSpent) More() USD { return cmp.Or(max(2*e.Limit, 2*e.Spent, e.Spent+e.Next), Dollar) }
