package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/duration"
	"prodigy/internal/fleet"
)

type fleetCommandOptions struct {
	broker brokerOptions
	format format
}

func newFleetCommand(con *console) *cobra.Command {
	group := newGroup("fleet", "Look after the workers of a fleet")
	var o fleetCommandOptions
	list := &cobra.Command{
		Use:     "ls",
		Short:   "List the workers",
		Example: "  prodigy fleet ls --fleet nats://127.0.0.1:4222",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.broker.need("fleet"); err != nil {
				return err
			}
			return con.linked(func() error { return runFleetList(cmd.Context(), con, o) })
		},
	}
	addFormat(list, &o.format, asJSON)
	drain := &cobra.Command{
		Use:     "drain <worker>",
		Short:   "Have a worker finish what it runs, take no more, and end",
		Example: "  prodigy fleet drain worker-3",
		Args:    exactly("worker"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.broker.need("fleet"); err != nil {
				return err
			}
			return con.linked(func() error { return runFleetDrain(cmd.Context(), con, o, args[0]) })
		},
	}
	for _, cmd := range []*cobra.Command{list, drain} {
		o.broker.add(cmd, "fleet", "the broker")
		group.AddCommand(cmd)
	}
	return group
}

// nodeShown is a worker as `fleet ls --json` prints it.
type nodeShown struct {
	Name     string    `json:"name"`
	Host     string    `json:"host"`
	Version  string    `json:"version"`
	Slots    int       `json:"slots"`
	Busy     int       `json:"busy"`
	Labels   []string  `json:"labels"`
	Draining bool      `json:"draining"`
	Began    time.Time `json:"began"`
	Jobs     []jobHeld `json:"jobs"`
}

// jobHeld is what a worker has of a job.
type jobHeld struct {
	JobID   string `json:"job_id"`
	Items   int    `json:"items"`
	Refused string `json:"refused,omitempty"` // why the worker takes no part
}

func runFleetList(ctx context.Context, con *console, o fleetCommandOptions) error {
	nodes, err := con.link.Nodes(ctx, o.broker.found)
	if err != nil {
		return err
	}
	slices.SortFunc(nodes, func(a, b fleet.Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Instance, b.Instance))
	})
	shown := make([]nodeShown, 0, len(nodes))
	for _, n := range nodes {
		one := nodeShown{
			Name: n.Name, Host: n.Host, Version: n.Version, Slots: n.Slots, Busy: n.Busy, Labels: n.Labels, Draining: n.Draining, Began: n.Began, Jobs: []jobHeld{},
		}
		for key, id := range n.Jobs {
			one.Jobs = append(one.Jobs, jobHeld{JobID: id, Items: len(n.Holds[key]), Refused: n.Refuses[key]})
		}
		slices.SortFunc(one.Jobs, func(a, b jobHeld) int { return cmp.Compare(a.JobID, b.JobID) })
		shown = append(shown, one)
	}
	if o.format == asJSON {
		return printJSON(con.out, shown)
	}
	if len(shown) == 0 {
		_, err := fmt.Fprintln(con.err, "no worker answers")
		return err
	}
	t := newTable(con.out, con.look(), nil, "WORKER", "HOST", "SLOTS", "BUSY", "SINCE", "LABELS", "VERSION", "JOBS")
	for _, n := range shown {
		var held []string
		for _, j := range n.Jobs {
			text := j.JobID + ": " + strconv.Itoa(j.Items)
			if j.Refused != "" {
				text = j.JobID + ": refused, " + j.Refused
			}
			held = append(held, text)
		}
		name := n.Name
		if n.Draining {
			name += " (draining)"
		}
		t.row(visible(name), visible(n.Host), strconv.Itoa(n.Slots), strconv.Itoa(n.Busy), duration.Format(time.Since(n.Began).Round(time.Second)),
			visible(strings.Join(n.Labels, ",")), visible(n.Version), visible(cmp.Or(strings.Join(held, "; "), "-")))
	}
	return t.flush()
}

func runFleetDrain(ctx context.Context, con *console, o fleetCommandOptions, name string) error {
	n, err := con.link.Drain(ctx, o.broker.found, name)
	if err != nil {
		return err
	}
	if n == 0 {
		return refusef("no worker named %q answers", name)
	}
	_, err = fmt.Fprintf(con.err, "worker %s finishes what it has and ends\n", name)
	return err
}
