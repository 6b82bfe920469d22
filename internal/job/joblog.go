package job

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// Command returns the command of the first step of an item, as it would run in the first slot.
func Command(w *workflow.Workflow, dir string, it items.Item) (string, error) {
	commands, err := agent.Render(agent.Attempt{
		Phase: "map", Workflow: w.Name, Worker: 1, Dir: dir, Env: w.Env, Batch: w.Map.Batch > 0,
		Steps:      w.Map.AgentTemplate,
		Assignment: agent.Assignment{ItemID: it.ID, ItemIndex: it.Index, Item: it.Data, Number: 1},
	}, false)
	if err != nil {
		return "", err
	}
	return commands[0], nil
}

// WriteJoblog writes a row for each finished item of a job, in the order in which they finished, as GNU parallel does
// with --joblog. A host is the worker of a fleet, the runtime that of the last attempt, and secrets in a command are
// masked.
func WriteJoblog(place jobs.Job, to io.Writer) error {
	meta, err := place.ReadMeta()
	if err != nil {
		return &FilesError{JobID: place.ID, Err: err}
	}
	w, err := RecordedWorkflow(place, meta)
	if err != nil || w.Map == nil {
		return errors.Join(err, ErrNoItems)
	}
	store, err := items.OpenStore(place.ItemsFile())
	if err != nil {
		return err
	}
	defer check.Quietly(store.Close)

	out := bufio.NewWriter(to)
	_, _ = out.WriteString("Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n")
	started := map[int]time.Time{}
	err = events.Each(events.Read(place.EventsDir()), func(r events.Record) {
		if e, ok := r.Event.(events.AgentStarted); ok {
			started[e.ItemIndex] = r.Time
		}
		ended, ok := events.ResultOf(r.Event)
		if !ok || ended.How == events.Failed && !ended.Settles {
			return
		}
		command := "" // an item that no command can be made of has failed for that
		if it, err := store.At(ended.Index); err == nil {
			it.Data = it.Shown()
			command, _ = Command(w, meta.Dir, it)
		}
		failed, _ := r.Event.(events.AgentFailed)
		code, signal := -1, process.SignalNumber(failed.Signal)
		switch {
		case ended.ExitCode != nil:
			code = *ended.ExitCode
		case signal > 0:
			code = 0
		}
		_, _ = fmt.Fprintf(out, "%d\t%s\t%.3f\t%10.3f\t0\t%d\t%d\t%d\t%s\n", ended.Index+1, cmp.Or(ended.Node, ":"),
			float64(started[ended.Index].UnixMilli())/1e3, ended.Took.Seconds(), len(ended.Output), code, signal,
			strings.ReplaceAll(command, "\n", " "))
		delete(started, ended.Index)
	})
	return errors.Join(err, out.Flush())
}
