package cli

import (
	"context"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/mapreduce"
	"prodigy/internal/notify"
	"prodigy/internal/term"
)

// notifyPatience is how long the end of a job waits for its last messages.
const notifyPatience = 15 * time.Second

// notify has the receivers of the workflow told what c records. The function that it returns must be called when the
// job has ended; it waits for the last messages, unless ctx ends.
func (p *printer) notify(ctx context.Context, c *mapreduce.Config) (end func(), err error) {
	if len(p.workflow.Notify) == 0 {
		return func() {}, nil
	}
	targets, err := notify.Resolve(p.workflow, c.Settings, c.Dir, c.Environ)
	if err != nil {
		return nil, err
	}
	n := notify.New(notify.Config{
		Home: c.Home, Workflow: p.workflow.Name, Targets: targets,
		Told: func(text string) { p.notices <- notice{text: "note: " + term.Visible(text)} },
	})
	observe := c.Observe
	c.Observe = func(records []events.Record) {
		n.Observe(records)
		observe(records)
	}
	return func() { n.Close(ctx, notifyPatience) }, nil
}
