package web

import (
	"fmt"
	"net/http"
	"strings"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/view"
)

// itemsListed is the number of items on a page.
const itemsListed = 50

// itemRow is an item in the list.
type itemRow struct {
	Item
	State view.Status
	view.Course
}

// itemList is the data of the page.
type itemList struct {
	Place      jobs.Job
	Job        *view.Job
	State      jobs.State
	Query      itemQuery
	Choices    []stateChoice
	Rows       []itemRow
	Found      int
	From, To   int // numbers of the rows, from 1
	Prev, Next string
}

// stateChoice is a link to the items of one state.
type stateChoice struct {
	State  view.Status // empty: any
	Count  int
	URL    string
	Chosen bool
}

// find leads to the item with the id that is asked for, or else to those whose id or label contains it.
func (s *Server) find(w http.ResponseWriter, r *http.Request, place jobs.Job) {
	name := strings.TrimSpace(r.URL.Query().Get("item"))
	to := itemQuery{Name: name}.url(place.ID)
	if _, _, err := s.Data.Explain(place, name); name != "" && err == nil {
		to = itemURL(place.ID, "items", name)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// itemOrItems makes the page of the item that the query names, or else the list of items.
func (s *Server) itemOrItems(r *http.Request, place jobs.Job) (page, error) {
	if r.URL.Query().Get("item") != "" {
		return s.explain(r, place)
	}
	return s.items(r, place)
}

// items makes the list of the items of a job. Of the items it keeps those on the page only.
func (s *Server) items(r *http.Request, place jobs.Job) (page, error) {
	running := place.Running()
	q := itemQueryOf(r.URL.Query())
	found, err := view.SearchItems(events.Read(place.EventsDir()), running, q.State, q.Failure)
	if err != nil {
		return page{}, err
	}
	list := itemList{Place: place, Job: found.Job, State: stateOf(found.Job, running), Query: q}
	list.Choices = stateChoices(place, found.Job, q)
	if err := s.fill(&list, found); err != nil {
		return page{}, err
	}
	return page{
		Title: "Items · " + place.ID, Name: "items", Live: "/live" + q.url(place.ID), Ended: !running,
		Data: list,
	}, nil
}

// fill adds the rows of the page.
func (s *Server) fill(list *itemList, found *view.Search) error {
	first := (list.Query.Page - 1) * itemsListed
	// Where no name is asked for, only the items of the page are decoded.
	wanted := func(index int) bool {
		if !found.Found(index) {
			return false
		}
		if list.Query.Name != "" {
			return true
		}
		list.Found++
		return list.Found > first && list.Found <= first+itemsListed
	}
	onPage := map[string]bool{}
	for it, err := range s.Data.EachItem(list.Place, wanted) {
		if err != nil {
			return err
		}
		if list.Query.Name != "" {
			if !list.Query.named(it) {
				continue
			}
			if list.Found++; list.Found <= first || list.Found > first+itemsListed {
				continue
			}
		}
		onPage[it.ID] = true
		list.Rows = append(list.Rows, itemRow{Item: it, State: found.Job.StatusOf(it.Index)})
	}
	courses, err := view.Courses(events.AboutItems(list.Place.EventsDir(), onPage))
	if err != nil {
		return err
	}
	for i := range list.Rows {
		list.Rows[i].Course = courses[list.Rows[i].Index]
	}
	list.From, list.To = first+1, first+len(list.Rows)
	other := list.Query
	if first > 0 {
		other.Page = min(list.Query.Page-1, max((list.Found+itemsListed-1)/itemsListed, 1))
		list.Prev = other.url(list.Place.ID)
	}
	if list.To < list.Found && len(list.Rows) > 0 {
		other.Page = list.Query.Page + 1
		list.Next = other.url(list.Place.ID)
	}
	return nil
}

// stateChoices counts all items of a job by state.
func stateChoices(place jobs.Job, j *view.Job, q itemQuery) []stateChoice {
	counts := map[view.Status]int{}
	for index := range j.Total {
		counts[j.StatusOf(index)]++
	}
	chosen := q.State
	q.Page, q.State = 1, ""
	list := []stateChoice{{Count: j.Total, URL: q.url(place.ID), Chosen: chosen == ""}}
	for _, state := range view.Statuses() {
		if counts[state] > 0 || state == chosen {
			q.State = state
			list = append(list, stateChoice{
				State: state, Count: counts[state], URL: q.url(place.ID),
				Chosen: state == chosen,
			})
		}
	}
	return list
}

// Title says which items are listed.
func (l itemList) Title() string {
	if l.Query.State == "" {
		return "Items"
	}
	return fmt.Sprintf("Items: %s", statusWord(l.Query.State))
}

// named reports whether the item is one that is asked for by name.
func (q itemQuery) named(it Item) bool {
	name := strings.ToLower(q.Name)
	return name == "" || strings.Contains(strings.ToLower(it.ID), name) || strings.Contains(strings.ToLower(it.Label),
		name)
}
