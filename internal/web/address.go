package web

import (
	"net/url"
	"strconv"
	"strings"

	"prodigy/internal/events"
	"prodigy/internal/view"
)

// itemURL returns the address of a page about an item. The item is in the query, since browsers would resolve . and ..
// in a path.
func itemURL(job, page, item string) string {
	return "/jobs/" + url.PathEscape(job) + "/" + page + "?" + url.Values{"item": {item}}.Encode()
}

// outputURL returns the address of all that an attempt, or a command of it, has printed.
func outputURL(job, item string, attempt, command int) string {
	v := url.Values{"item": {item}}
	if attempt > 0 {
		v.Set("attempt", strconv.Itoa(attempt))
	}
	if command > 0 {
		v.Set("command", strconv.Itoa(command))
	}
	return "/jobs/" + url.PathEscape(job) + "/output?" + v.Encode()
}

// stepURL is outputURL of a step of setup or reduce.
func stepURL(job string, s view.Step) string {
	return "/jobs/" + url.PathEscape(job) + "/output?" + url.Values{"phase": {s.Phase}, "step": {s.Name}}.Encode()
}

// itemQuery is what a list of items is asked for.
type itemQuery struct {
	// The status of the items. It is empty for items of any status.
	State view.Status

	// What the id or the label contains, in any case of its letters.
	Name string

	// What the last failure contains, likewise.
	Failure string

	Page int // from 1
}

// itemQueryOf reads what a list of items is asked for. What cannot be read is as if it was not asked for.
func itemQueryOf(v url.Values) itemQuery {
	q := itemQuery{
		State: view.Status(v.Get("state")), Name: strings.TrimSpace(v.Get("q")),
		Failure: strings.TrimSpace(v.Get("failure")), Page: 1,
	}
	if n, err := strconv.Atoi(v.Get("page")); err == nil && n > 0 {
		q.Page = n
	}
	return q
}

// url returns the address of the list.
func (q itemQuery) url(job string) string {
	v := url.Values{}
	for key, value := range map[string]string{"state": string(q.State), "q": q.Name, "failure": q.Failure} {
		if value != "" {
			v.Set(key, value)
		}
	}
	if q.Page > 1 {
		v.Set("page", strconv.Itoa(q.Page))
	}
	to := url.URL{Path: "/jobs/" + job + "/items", RawQuery: v.Encode()}
	return to.String()
}

// causeSought is how much of the text of a failure the items of a group are searched by.
const causeSought = 300

// failuresURL returns the address of the list of the items that failed for the same cause.
func failuresURL(job string, g view.FailureGroup) string {
	return itemQuery{State: g.ItemStatus(), Failure: events.Clip(g.Title(), causeSought)}.url(job)
}
