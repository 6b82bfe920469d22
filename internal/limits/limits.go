// Package limits says what may start now. Each limit answers one question, Admit, and learns all that it remembers from
// the records of the job, live and on replay alike. So a job that is resumed is limited as if it had never stopped.
//
// A job asks its limits in three groups. The first of a group that does not say Go decides.
//
//	group    limit         what it holds back
//	all      pause         everything, until somebody continues the job
//	         total         everything, until the number of items is known
//	slot     windows       what needs a slot, outside of the times of day of the job
//	         guards        the same, while the machine has too little left
//	         sender        the same, while a fleet has not taken what has started
//	         merges        the same, while the work of items waits to be merged
//	         suspects      the same, while a suspect runs alone
//	         slots         the same, while all slots are taken
//	         room          the same, while the machine has no files, processes or memory for more
//	         concurrency   the same, while as many agents run as a service takes
//	         ramp          the same, while as many agents run as the stage of a rollout allows
//	turn     canary        new items, while those before them have to succeed first
//	         retry ratio   retries of items and steps, while there are too many of them
//	         breaker       items, while too many have failed; by key if there is one for each
//	         pace          items and tries, so that no more start in a second than a service takes
//	         rate          the same, so that no more start in a time than the workflow says; by key if it says so
//	         step rate     steps, by their own keys
//
// Not among them is what agents ask for from within: the quota of a plan and money, and the breakers of steps, which
// only refuse. A slot that the jobs of a machine share is asked for once all others say Go.
package limits

import (
	"time"

	"prodigy/internal/events"
)

// Class is the kind of a start.
type Class int

const (
	Try   Class = iota // the next try of a step
	Again              // an item that has begun before, and has not failed
	Retry              // an item that has failed before
	New                // an item that has not begun
)

// Ask is the question whether something may start.
type Ask struct {
	Class Class
	Now   time.Time
	Busy  int    // how many slots are taken
	Begun int    // how many items have begun and have no outcome, for New
	Key   string // of the limit that is asked, if it is one by key
}

// Answer is what a limit says.
type Answer int

const (
	Go     Answer = iota // start it
	Wait                 // ask again later
	Refuse               // never: the item fails, and does not run
)

// Verdict is the answer to an Ask. The zero Verdict is Go.
type Verdict struct {
	Answer Answer

	// Until is when to ask again, with Wait. Zero means that it is not known, and something has to happen before.
	Until time.Time
}

// WaitUntil returns a Verdict that is Wait until at if that is after now, else Go.
func WaitUntil(at, now time.Time) Verdict {
	if !at.After(now) {
		return Verdict{}
	}
	return Verdict{Answer: Wait, Until: at}
}

// WaitWhile returns a Verdict that is Wait until something happens if holds is set, else Go.
func WaitWhile(holds bool) Verdict {
	if !holds {
		return Verdict{}
	}
	return Verdict{Answer: Wait}
}

// A Limit may hold back starts.
type Limit interface {
	// Admit says whether a start may be now. It changes nothing, and depends only on a and on what was applied.
	Admit(a Ask) Verdict

	// Apply takes note of a record, live and on replay alike. was is what the job knew before it.
	Apply(r events.Record, was Job)
}

// A Teller is a Limit that says in the log what it does.
type Teller interface {
	Limit

	// Tell returns what the log does not say yet, or nil. Once that is recorded, and so applied, there is less to tell.
	Tell() events.Event
}

// A Job is what is known of a job before a record is applied to it.
type Job interface {
	Item(index int) Item
	AtWork() int // attempts at items that have begun and not ended
}

// Item is what is known of an item. The zero Item has not begun.
type Item struct {
	Key     string    // of the rate, of its attempt that runs
	Failed  bool      // its next attempt follows a failure
	Settled bool      // it has an outcome
	Began   time.Time // when its attempt, or the last try of a step of it, began; zero if it does not run
	Waited  bool      // its attempt has waited for a try, so that how long it takes says nothing
}

// Func is a limit that remembers nothing: it looks at what its job has at the moment.
type Func func(a Ask) Verdict

// Admit calls f.
func (f Func) Admit(a Ask) Verdict { return f(a) }

// Apply does nothing.
func (Func) Apply(events.Record, Job) {}
