package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

// itemPage is the data of the page of an item.
type itemPage struct {
	Place    jobs.Job
	Item     view.Explanation
	Label    string
	Data     json.RawMessage
	Attempts []*attempt // the newest first

	// The number of commands that are not shown, the oldest ones.
	Left int

	// The job is being run.
	Running bool

	// The job belongs to the user whose server this is.
	Mine bool
}

// Skippable reports whether the item may still be left out.
func (d itemPage) Skippable() bool { return d.Running && canAct(d.Item.Status, true) }

// attempt is what happened in an attempt and after it, until the next.
type attempt struct {
	// The number of the attempt; 0 stands for what happened before the first.
	Number int

	State    string
	Class    string
	Entries  []view.Entry
	Commands []*command
	Newest   bool
}

// explain makes the page of an item: its attempts, with what happened in them and what their commands have printed.
func (s *Server) explain(r *http.Request, place jobs.Job) (_ page, err error) {
	item := itemOf(r)
	d := itemPage{Place: place, Running: place.Running(), Mine: place.Own()}
	if d.Item, d.Data, err = s.Data.Explain(place, item); err != nil {
		return page{}, fmt.Errorf("%w: %w", errNoItem, err)
	}
	d.Label, d.Data = s.Data.Items(place)(item, d.Data)
	var spaced bytes.Buffer
	if json.Indent(&spaced, d.Data, "", "  ") == nil {
		d.Data = spaced.Bytes()
	}
	commands, left, err := commandsOf(s.Data.Outputs(place, outputs.Query{ItemID: item}))
	if err != nil {
		return page{}, err
	}
	d.Left = left
	for _, c := range commands {
		c.Job = place.ID
	}
	d.Attempts = attemptsOf(d.Item, commands, d.Running)
	return page{
		Title: item + " · " + place.ID, Name: "explain", Live: "/live" + itemURL(place.ID, "items", item),
		Ended: !d.Running, Data: d,
	}, nil
}

// attemptsOf puts together what belongs to each attempt. Each start begins one, also one that has the number of the one
// before, which was stopped; their commands are told apart by the order in which they began.
func attemptsOf(x view.Explanation, commands []*command, running bool) []*attempt {
	var list []*attempt
	for _, e := range x.Entries {
		if len(list) == 0 || e.Event == events.TypeOf(events.AgentStarted{}) ||
			e.Event == events.TypeOf(events.AgentDuplicated{}) {
			list = append(list, &attempt{Number: e.Attempt})
		}
		a := list[len(list)-1]
		for i := len(list) - 1; i >= 0 && a.Number != e.Attempt; i-- { // one of two that ran at once
			if list[i].Number == e.Attempt {
				a = list[i]
			}
		}
		a.Entries = append(a.Entries, e)
		if end, known := endings[e.How]; known {
			a.State, a.Class = end.state, end.class
		}
	}
	for _, c := range commands {
		if a := attemptOf(list, c); a != nil {
			a.Commands = append(a.Commands, c)
		}
	}
	slices.Reverse(list)
	if len(list) == 0 {
		return nil
	}
	newest := list[0]
	newest.Newest = true
	if newest.State == "" && x.Status == view.InFlight && running {
		newest.State, newest.Class = "running", "item-running"
	}
	for i, c := range newest.Commands {
		c.Running = newest.State == "running"
		c.Open = c.Failed() || i == len(newest.Commands)-1
	}
	return list
}

// endings are the words and the classes for how an attempt ended.
var endings = map[events.How]struct{ state, class string }{
	events.Succeeded:  {"succeeded", "item-success"},
	events.Failed:     {"failed", "item-failed"},
	events.Stopped:    {"stopped", "item-pending"},
	events.Lost:       {"lost with its worker", "item-pending"},
	events.Superseded: {"superseded by another attempt", "item-pending"},
}

// attemptOf returns the attempt that a command belongs to: of several with one number the last that began before it
// did.
func attemptOf(list []*attempt, c *command) *attempt {
	var found *attempt
	for _, a := range list {
		if a.Number == c.Attempt && (found == nil || !a.Entries[0].Time.After(c.Began)) {
			found = a
		}
	}
	return found
}

// action returns the address that starts an action on the item.
func (d itemPage) action(id string) string { return itemURL(d.Place.ID, id, d.Item.ItemID) }
