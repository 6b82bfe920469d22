package web

import (
	"net/http"
	"slices"
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
	Selectable int // of those found
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
func (s *Server) find(w http.ResponseWriter, r *http.Request, place jobs.Job) error {
	name := strings.TrimSpace(r.URL.Query().Get("item"))
	to := itemQuery{Name: name}.url(place.ID)
	if _, _, err := s.Data.Explain(place, name); name != "" && err == nil {
		to = itemURL(place.ID, "items", name)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
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
	found, err := view.ListItems(events.Read(place.EventsDir()), running)
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

// fill adds the rows of the page. Only the items of the page are decoded, unless all are for their names.
func (s *Server) fill(list *itemList, found *view.Listing) error {
	q := list.Query
	all, err := s.matching(list.Place, found, q)
	if err != nil {
		return err
	}
	list.Found = len(all)
	rows := make([]itemRow, len(all))
	for i, index := range all {
		rows[i] = itemRow{Item{Index: index}, found.Job.StatusOf(index), found.Course(index)}
		if list.CanAct(rows[i].State) {
			list.Selectable++
		}
	}
	first := min(min(q.Page-1, len(all))*itemsListed, len(all))
	list.Rows = rows[first:min(first+itemsListed, len(all))]
	row := func(index int) int {
		return slices.IndexFunc(list.Rows, func(r itemRow) bool { return r.Index == index })
	}
	for it, err := range s.Data.EachItem(list.Place, func(index int) bool { return row(index) >= 0 }) {
		if err != nil {
			return err
		}
		list.Rows[row(it.Index)].Item = it
	}
	list.From, list.To = first+1, first+len(list.Rows)
	if q.Page > 1 {
		q.Page = min(q.Page-1, max((list.Found+itemsListed-1)/itemsListed, 1))
		list.Prev = q.url(list.Place.ID)
	}
	if list.To < list.Found && len(list.Rows) > 0 {
		q.Page = list.Query.Page + 1
		list.Next = q.url(list.Place.ID)
	}
	return nil
}

// matching returns the indexes of the items that a query selects, in the order of the items.
func (s *Server) matching(place jobs.Job, found *view.Listing, q itemQuery) (all []int, err error) {
	wanted := func(index int) bool {
		fits := found.Fits(index, q.State, q.Failure)
		if fits && q.Name == "" {
			all = append(all, index)
		}
		return fits && q.Name != ""
	}
	for it, err := range s.Data.EachItem(place, wanted) {
		if err != nil {
			return nil, err
		}
		if q.named(it) {
			all = append(all, it.Index)
		}
	}
	return all, nil
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

// CanAct reports whether an item with a status can be selected to start something.
func (l itemList) CanAct(s view.Status) bool {
	return l.Place.Own() && canAct(s, l.State == jobs.Running)
}

// named reports whether the item is one that is asked for by name.
func (q itemQuery) named(it Item) bool {
	name := strings.ToLower(q.Name)
	return name == "" || strings.Contains(strings.ToLower(it.ID), name) || strings.Contains(strings.ToLower(it.Label),
		name)
}
