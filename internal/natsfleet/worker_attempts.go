package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"
	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/fleet"
	"prodigy/internal/mask"
	"prodigy/internal/process"
)

// jobExecutor runs the attempts of one spec.
type jobExecutor struct {
	*agent.Executor
	spec     fleet.Spec
	produces func(string, json.RawMessage) ([]string, error) // nil: none
}

var (
	errGivenBack = errors.New("the worker is being stopped")
	errAlone     = errors.New("stopped by the coordinator")
	errGivenUp   = fmt.Errorf("abandoned by the coordinator: %w", process.ErrKill)
)

// schedule gives free slots to attempts that go on, then to those that wait, and offers what is left to the jobs. It
// returns those that are to run now.
func (s *workerState) schedule(now time.Time) (begun []*heldAttempt) {
	s.noteTurn(now)
	for len(s.free) > 0 && len(s.waking) > 0 {
		s.waking[0] <- s.takeSlot()
		s.waking = s.waking[1:]
	}
	for len(s.free) > 0 && len(s.queue) > 0 && !now.Before(s.rest) {
		h := s.queue[0]
		s.queue = s.queue[1:]
		h.slot = s.takeSlot()
		h.began = h.slot
		begun = append(begun, h)
	}
	free := len(s.free) - len(s.queue)
	if s.stopping || now.Before(s.rest) || s.outOfContact(now) || s.frozen(now) {
		free = 0
	}
	s.offer(free, now)
	return begun
}

// delivered takes what the coordinator of a job says.
func (w *worker) delivered(m *nats.Msg) {
	var d fleet.CoordinatorMessage
	if jsonv1.Unmarshal(m.Data, &d) != nil {
		return
	}
	if err := w.trust.checkMessage(m, signedDown, m.Subject); err != nil {
		w.warn(fmt.Sprintf("a message with %d attempts: %v", len(d.Tasks), err))
		return
	}
	w.turn(func(s *workerState) {
		s.woken = true
		j := s.jobs[d.Key]
		if j == nil || j.Owner != d.Owner {
			return
		}
		now := time.Now()
		if len(d.Tasks) > 0 && (s.proofTooOld(now) || s.frozen(now)) {
			s.restate(j)
			d.Tasks = nil
			go w.renewProof()
		}
		for _, t := range d.Tasks {
			s.take(j, d.Round, t, now)
		}
		for _, e := range d.Acks {
			h := s.heldOf(j, e.Token)
			if h == nil {
				continue
			}
			s.shed(h, h.upTo(e.Index))
			if h.ended && len(h.reports) == 0 && e.Index >= h.index {
				s.drop(h)
			}
		}
		for _, token := range d.Over {
			s.giveUp(j, token)
		}
		for _, token := range d.End {
			w.endAlone(s, j, token)
		}
		for _, token := range d.Due {
			if h := s.heldOf(j, token); h != nil && h.hurried != nil {
				close(h.hurried)
				h.hurried = nil
			}
		}
		if d.Again {
			s.resync(j)
		}
	})
}

// endAlone ends an attempt and nothing else, with the grace. How it ends is reported.
func (w *worker) endAlone(s *workerState, j *workerJob, token int64) {
	h := s.heldOf(j, token)
	if h == nil || h.ended {
		return
	}
	if at := slices.Index(s.queue, h); at >= 0 {
		s.queue = slices.Delete(s.queue, at, at+1)
		w.returnUnbegun(s, h, errAlone.Error())
		return
	}
	h.end(errAlone)
}

// run runs an attempt, and reports how it ended.
func (w *worker) run(h *heldAttempt) {
	o, made, pack, err := w.execute(h)
	err = inWords(err)
	r := fleet.Report{Kind: fleet.Ended, Outcome: &o, Files: made, Pack: pack}
	fenced, cut, stopped := false, false, false
	w.turn(func(s *workerState) {
		fenced, cut = s.fencedOff(h, o.Failure != nil && o.Failure.Signal != ""), h.cut
		h.cancel = nil // to report what came of it may take long
		_, over := errors.AsType[overError](err)
		stopped = over || h.cause != nil || errors.Is(context.Cause(h.life), err) ||
			isAny(err, errGivenBack, errHalting, errObjectGone)
	})
	switch {
	case fenced && !h.ran.Load():
		r = fleet.Report{Kind: fleet.Returned, Reason: "its worker had lost contact with the broker before it started"}
	case fenced:
		r = fleet.Report{Kind: fleet.Dropped, Cut: cut, Reason: "its worker lost contact with the broker for " +
			"most of the lease and killed it"}
	case err != nil && (stopped || errors.Is(err, process.ErrKill)):
		r = fleet.Report{Kind: fleet.Returned, Reason: err.Error()}
	case err != nil:
		r = fleet.Report{Kind: fleet.Broken, Reason: err.Error()}
		w.turn(func(s *workerState) { // which rests, longer each time
			s.resting = min(max(2*s.resting, 5*time.Second), time.Minute)
			s.rest = time.Now().Add(s.resting)
			w.say("could not run an attempt and returned it: %v; accepting none for %s", err, s.resting)
		})
	default:
		w.turn(func(s *workerState) { s.resting = 0 })
	}
	w.finish(h, r)
}

// stamped returns the next report of an attempt, with what says whose it is.
func (w *worker) stamped(h *heldAttempt, r fleet.Report) fleet.Report {
	h.index++
	r.V, r.Token, r.Index = fleet.Protocol, h.token, h.index
	r.Holder = fleet.Holder{Instance: w.node.Instance, Node: w.o.Name, Slot: h.began}
	return r
}

// execute runs an attempt that was granted.
func (w *worker) execute(h *heldAttempt) (o agent.Outcome, made []fleet.File, pack *fleet.File, err error) {
	var ctx context.Context
	var cancel context.CancelCauseFunc
	w.turn(func(s *workerState) {
		h.life = h.job.life
		ctx, cancel = context.WithCancelCause(context.WithValue(h.life, heldKey{}, h))
		h.cancel = cancel
		if h.cause != nil { // which was said before it could be ended
			cancel(h.cause)
		}
	})
	defer cancel(nil)
	x, dir, space, err := w.executor(ctx, h)
	if err != nil {
		return o, nil, nil, err
	}
	a := h.task.Attempt(x.spec, h.slot, h.arrived)
	a.Dir = cmp.Or(dir, w.o.Dir, a.Dir)
	if a.Lost { // it may be what kills workers: that it has begun must be known before it does it again
		w.report(h, fleet.Report{Kind: fleet.Placed})
		w.sendAll(false)
		_ = w.nc.FlushTimeout(time.Second)
	} else {
		placed := time.AfterFunc(100*time.Millisecond, func() { w.report(h, fleet.Report{Kind: fleet.Placed}) })
		defer placed.Stop()
	}
	if space != nil {
		h.x, h.checkout = x, a.Dir
		o, pack, err = w.executeIsolated(ctx, h, space, a)
		return o, nil, pack, err
	}
	if o, err = x.Execute(ctx, a); err == nil {
		if dir != "" {
			made, err = w.collect(ctx, x, h, a, &o)
		}
	}
	return o, made, nil, err
}

// executor returns what runs the attempts of a spec, the directory of the files of the job (empty: it is shared), and
// its workspaces (nil: it has none).
func (w *worker) executor(ctx context.Context, h *heldAttempt) (x *jobExecutor, dir string, space *jobSpace,
	err error,
) {
	j := h.job
	j.asking.Lock()
	defer j.asking.Unlock()
	entry := w.entry(j)
	files := entry.Files
	if files != "" {
		if dir, err = w.directory(ctx, j, files); err != nil {
			return nil, "", nil, fmt.Errorf("files: %w", err)
		}
	}
	if space, err = w.workspaces(ctx, j, entry); err != nil {
		return nil, "", nil, fmt.Errorf("workspaces: %w", err)
	}
	if x := j.executors[h.task.Spec]; x != nil {
		return x, dir, space, nil
	}
	x = &jobExecutor{}
	if err := w.ask(ctx, j, callShared, h.token, callArgs{Name: h.task.Spec}, &x.spec); err != nil {
		return nil, "", nil, fmt.Errorf("request the steps: %w", err)
	}
	if entry.Secrets && j.secrets == nil {
		if err := w.ask(ctx, j, callSecrets, 0, callArgs{}, &j.secrets); err != nil {
			return nil, "", nil, fmt.Errorf("request the secrets: %w", err)
		}
	}
	var agents ai.Set
	if x.spec.Agents {
		var layers []ai.Layer
		for _, text := range x.spec.Layers {
			var node yaml.Node
			if err := yaml.Unmarshal([]byte(text), &node); err != nil {
				return nil, "", nil, fmt.Errorf("read the presets: %w", err)
			}
			if len(node.Content) > 0 { // it has more than comments
				layers = append(layers, ai.Layer{Name: "the coordinator", Node: node.Content[0]})
			}
		}
		if agents, err = ai.Load(layers...); err != nil {
			return nil, "", nil, err
		}
	}
	if len(x.spec.Produces) > 0 {
		if x.produces, err = agent.Paths(x.spec.Produces); err != nil {
			return nil, "", nil, err
		}
	}
	environ := w.o.Environ
	if space != nil {
		environ = space.Environ(environ)
	}
	host := &workerHost{w, j}
	var echo agent.Echo
	if x.spec.Echo {
		echo = workerEcho{host}
	}
	x.Executor = agent.New(agent.Config{
		Run: w.command, Claude: x.spec.Claude, Agents: agents, Seed: x.spec.Seed, Grace: entry.Grace,
		LogSteps: x.spec.LogSteps, TempDir: w.temp,
		Environ: environ, Secrets: j.secrets, Mask: mask.New(slices.Collect(maps.Values(j.secrets))), Echo: echo,
	}, host)
	j.executors[h.task.Spec] = x
	return x, dir, space, nil
}

// heldKey is the key of the heldAttempt in the context of its commands.
type heldKey struct{}

// command runs a command, unless this worker was out of contact: after it was frozen it must begin nothing. One that
// was killed for that has not failed.
func (w *worker) command(ctx context.Context, c process.Command) (exit process.Exit, err error) {
	w.turn(func(s *workerState) {
		if now := time.Now(); s.outOfContact(now) || s.frozen(now) {
			err = errNoContact
		}
	})
	if err != nil {
		return exit, err
	}
	h, ok := ctx.Value(heldKey{}).(*heldAttempt)
	if !ok {
		return process.Run(ctx, c)
	}
	h.ran.Store(true)
	exit, err = process.Run(ctx, c)
	w.turn(func(s *workerState) {
		if err == nil && s.fencedOff(h, exit.Signal != "") {
			err = errNoContact
		}
	})
	return exit, err
}

// mostUnread is how many bytes of reports of a job are kept until the coordinator has taken them or the broker has:
// then what is printed waits.
const mostUnread = 8 << 20

// report has the coordinator told what happened. Reports of an attempt come in order. It waits while too much of the
// job was reported that nobody has taken.
func (w *worker) report(h *heldAttempt, r fleet.Report) {
	for {
		var space chan struct{}
		w.turn(func(s *workerState) {
			if h.job.unread > mostUnread && s.jobs[h.job.key] == h.job && !h.fenced && !s.gaveBack &&
				w.life.Err() == nil {
				space = s.space
			} else {
				w.add(s, h, r)
			}
		})
		if space == nil {
			return
		}
		select {
		case <-space:
		case <-w.life.Done():
		}
	}
}

// finish frees the slot of an attempt and reports its end, in one message.
func (w *worker) finish(h *heldAttempt, r fleet.Report) {
	w.turn(func(s *workerState) {
		s.vacate(h)
		h.result = r.Kind == fleet.Ended
		if !errors.Is(h.cause, errGivenUp) && s.jobs[h.job.key] == h.job {
			w.add(s, h, r)
			h.ended = true
			return
		}
		h.ended = true
		s.drop(h)
		w.tidy(s, h.job)
	})
}

// add puts the next report of an attempt among those to be sent, in pieces if it is too large for a message. Nobody
// wants it if the job is over, or the attempt was dropped, and nothing follows its end.
func (w *worker) add(s *workerState, h *heldAttempt, r fleet.Report) {
	if s.jobs[h.job.key] != h.job || h.ended {
		return
	}
	stamped := w.stamped(h, r)
	data := encoded(stamped)
	if len(data) <= maxBody {
		s.add(h, report{data: data, index: stamped.Index, made: time.Now()})
		return
	}
	h.index--
	for _, p := range fleet.Pieces(data, pieceSize) {
		piece := w.stamped(h, fleet.Report{Kind: r.Kind, Piece: &p})
		s.add(h, report{data: encoded(piece), index: piece.Index, made: time.Now()})
	}
}
