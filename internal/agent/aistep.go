package agent

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// aiStep is an agent step: a run of an AI coding CLI whose output is read by a preset.
type aiStep struct {
	*workflow.Agent
	prompt *template.Plain
}

func buildAgent(c *compiler, s *step, n scopeNames) command {
	return aiStep{s.Agent, c.plain(s, s.Agent.Prompt, n)}
}

func (a aiStep) bind(r template.Resolver, x *Executor) (call, error) {
	p, err := x.Agents.Find(a.Preset())
	if err != nil {
		return call{}, err
	}
	prompt, err := a.prompt.Bind(r)
	if err != nil {
		return call{}, err
	}
	argv := slices.Concat(p.Argv, p.Args, a.Args)
	argv = append(argv, p.Options.Of("model", cmp.Or(a.Model, p.Model))...)
	if a.MaxTurns > 0 {
		argv = append(argv, p.Options.Of("max_turns", strconv.Itoa(a.MaxTurns))...)
	}
	return aiCall(call{argv: argv}, &aiRun{
		Agent: *a.Agent, preset: p, prompt: prompt, model: cmp.Or(a.Model, p.Model),
		limits: p.Limits(a.StallTimeout, a.ToolTimeout, a.MaxTurns), sessions: a.Resume != workflow.ResumeNever,
	}), nil
}

func (a aiStep) render(r template.Resolver) string { return a.prompt.Render(r) }

// aiCall returns a call of an AI coding CLI. Its prompt comes to it with addPrompt.
func aiCall(c call, run *aiRun) call {
	c.ai, c.aiRun = true, run
	for name, value := range check.ByKey(run.preset.Env) {
		c.defaults = append(c.defaults, name+"="+value)
	}
	return c
}

// complete adds to the call of an AI coding CLI what the step, the attempt and the budget say, and its prompt, each
// in the way of its preset.
func (b *boundCommand) complete(r *run) error {
	a := b.aiRun
	if a.Schema != "" {
		if err := b.addSchema(r.a.Dir); err != nil {
			return err
		}
	}
	below, err := filepath.Rel(r.a.Dir, b.dir)
	inWorkspace := r.a.Base != "" && err == nil && filepath.IsLocal(below)
	if a.May == "" && inWorkspace && a.preset.May.Said(b.argv[1:]) == "" {
		a.May = workflow.MayEdit // unless arguments of the user's own say what it may do
	}
	args, env, _ := a.preset.May.Of(a.May)
	b.argv, b.env = append(b.argv, args...), append(b.env, env...)
	if most := r.ticket.Cap; most > 0 {
		b.argv = append(b.argv, a.preset.Options.Of("max_cost", most.Decimal())...)
	}
	if r.x.Simulate == nil { // an id would be random
		b.addSession(r.session)
	}
	return b.addPrompt()
}

// addPrompt gives an AI coding CLI its prompt in the way of its preset.
func (b *boundCommand) addPrompt() error {
	prompt := b.aiRun.prompt
	if b.aiRun.continued {
		prompt = goOn + prompt
	}
	switch p := b.aiRun.preset.Prompt; {
	case len(p.File) > 0:
		for _, arg := range p.File {
			if arg != "{}" {
				b.argv = append(b.argv, arg)
			}
		}
		b.script = prompt
		return nil
	case p.Stdin:
		b.input = prompt
		if p.Arg != "" {
			b.argv = append(b.argv, p.Arg)
		}
		return nil
	}
	if err := checkPromptArgument(b.argv[0], prompt); err != nil {
		return err
	}
	b.argv = append(b.argv, prompt)
	return nil
}

// goOn is in front of the prompt of a session that is continued.
const goOn = "You were interrupted before you had finished. Look at what is there already, and finish the work. This was the task:\n\n"

// checkPromptArgument returns what is wrong with a prompt that is to be an argument.
func checkPromptArgument(program, prompt string) error {
	switch {
	case strings.IndexByte(prompt, 0) >= 0:
		return unfit("the prompt contains a NUL byte, which is not allowed in an argument")
	case strings.HasPrefix(prompt, "-"):
		return unfit("the prompt starts with a dash, and " + filepath.Base(program) +
			" would parse it as an option: put other words first")
	}
	return nil
}

// addSchema adds the arguments for the schema of an agent step, which is a file in dir.
func (b *boundCommand) addSchema(dir string) error {
	path := process.Resolve(dir, b.aiRun.Schema)
	data, err := os.ReadFile(path)
	if err != nil {
		return unfit("schema: " + err.Error())
	}
	if _, err := compileSchema(data); err != nil {
		return unfit("schema: " + path + ": " + err.Error())
	}
	b.aiRun.Schema = string(data)
	option := b.aiRun.preset.Options["schema"]
	value := string(data)
	if slices.Contains(option, "{file}") {
		value = path
	}
	for _, arg := range option {
		b.argv = append(b.argv, strings.NewReplacer("{}", value, "{file}", value).Replace(arg))
	}
	return nil
}

// recordUsage records what a run of an AI coding CLI has used.
func (r *run) recordUsage(st *step, a *aiRun, v ai.Verdict, outcome string, took time.Duration) {
	e := events.AgentUsage{
		ItemID: r.a.ItemID, ItemIndex: r.a.ItemIndex, AgentID: r.a.ID, Attempt: r.a.Number, Step: st.label,
		Preset: a.preset.Name, Model: cmp.Or(v.Usage.Model, a.model),
		SessionID: v.SessionID, Outcome: outcome, Partial: v.Usage.Partial, Turns: v.Usage.Turns,
		DurationMS: events.Millis(took),
	}
	if r.a.ItemID == "" {
		e.Phase = r.a.Phase
	}
	if v.Rule != "" {
		e.Rule = a.preset.Name + "/" + v.Rule
	}
	if v.Usage.Counted {
		e.Tokens = new(limit.Tokens(v.Usage.Tokens))
	}
	if cost, source := a.costOf(v.Usage); source != "" {
		e.CostUSD, e.CostSource = &cost, source
	} else {
		e.AssumedUSD = r.ticket.Assumed
	}
	r.x.host.RecordUsage(r.a, r.ticket, e)
}

// costOf returns what a run has cost, as far as the CLI says or there is a price, and the source of that, or an empty
// source. Nothing for some tokens is no cost: the CLI does not know the price of the model.
func (a *aiRun) costOf(u ai.Usage) (cost limit.USD, source string) {
	if u.Costed && (u.CostUSD > 0 || u.Tokens == ai.Tokens{}) {
		return limit.FromFloat(u.CostUSD), events.CostReported
	}
	if dollars, priced := a.preset.CostOf(cmp.Or(u.Model, a.model), u.Tokens); priced && u.Tokens != (ai.Tokens{}) {
		return limit.FromFloat(dollars), events.CostPriced
	}
	return 0, ""
}

// recordCutOff records what a run of an AI coding CLI had used when it was ended from outside. The error says by what.
func (r *run) recordCutOff(st *step, b boundCommand, out *sink, took time.Duration, err error) {
	if b.aiRun == nil {
		return
	}
	v := r.verdict(b.aiRun, out, ai.End{Signal: "SIGTERM", Now: time.Now()}, "", "")
	if b.aiRun.notOurs(v) {
		return
	}
	outcome := events.OutcomeInterrupted
	if _, limited := errors.AsType[*timeLimit](err); limited {
		outcome = outcomeTimeout
	}
	v.Usage.Partial, v.Rule = true, ""
	r.recordUsage(st, b.aiRun, v, outcome, took)
}

// verdict says what became of a run of an AI coding CLI by what it printed, of which stderr is the end.
func (r *run) verdict(a *aiRun, out *sink, e ai.End, stderr, output string) ai.Verdict {
	if r.x.Simulate != nil {
		return r.simulated.verdict(a, e, stderr, output)
	}
	out.reading.WriteStderr([]byte(stderr))
	return out.reading.Verdict(e)
}

// notOurs reports whether a command that may be one of the user's own has shown that it is one.
func (a *aiRun) notOurs(v ai.Verdict) bool {
	return !v.Known && (a.raw || a.lenient && v.Plain)
}

// judge turns the end of a command that a preset reads into a result: its answer is the output, and a failure
// says what the preset found. Timeouts and commands that did not start are no affair of the preset. A command
// that was ended after it had printed its end has that end.
func (r *run) judge(
	ctx context.Context, st *step, b boundCommand, out *sink, exit process.Exit, stderr string, res result,
) (result, *Failure, bool) {
	stall, ended := out.watch.saw()
	if ended && (exit.TimedOut || exit.Expired) {
		exit.Code, exit.Signal, exit.TimedOut, stall = 0, "", false, nil
		res.code = 0
	}
	if exit.Start != nil {
		return res, nil, false
	}
	a := b.aiRun
	v := r.verdict(
		a, out,
		ai.End{
			ExitCode: exit.Code, Signal: exit.Signal, Now: time.Now(), May: a.May, AllowDenied: a.AllowDenied,
			AllowEmpty: a.AllowEmpty,
		},
		stderr, res.Output,
	)
	if exit.TimedOut || exit.Code == 126 || exit.Code == 127 {
		if exit.TimedOut && !a.notOurs(v) {
			v.Usage.Partial, v.Rule = true, ""
			r.recordUsage(st, a, v, outcomeTimeout, exit.Duration)
		}
		return res, nil, false
	}
	if stall != nil {
		v.Outcome, v.Type, v.Rule, v.Message = stall.Outcome, stall.Outcome.ErrorType(), stall.Rule, stall.Message
	}
	own := a.lenient && v.Outcome == ai.Failed && v.Rule == "" && (v.Plain || exit.Code != 0 || exit.Signal != "")
	if !v.Known && (a.raw || own) {
		return res, nil, false
	}
	end := &events.AgentEnd{SessionID: cmp.Or(v.SessionID, a.session), Turns: v.Usage.Turns}
	if cost, source := a.costOf(v.Usage); source != "" {
		end.CostUSD = &cost
	}
	if v.Outcome == ai.Success && a.Schema != "" && !r.simulated.Unknown {
		answer, err := answerOf(v, res.Output, a.Schema)
		if err != nil {
			v.Outcome, v.Type, v.Rule, v.Message = ai.Incomplete, ai.Incomplete.ErrorType(), "schema", err.Error()
		}
		end.JSON = answer
	}
	end.Outcome, res.ai, r.limitUse = string(v.Outcome), end, v.Limit
	res.sessionUnknown = v.NewSession && a.continued
	cut := v.Rule == "" && exit.Signal != ""
	if !res.sessionUnknown && continues(v.Outcome, v.Usage.Tokens.Output > 0, cut) { // or its work would be lost
		res.session = end.SessionID
	}
	outcome := end.Outcome
	if ctx.Err() != nil && v.Outcome != ai.Success {
		outcome, v.Usage.Partial = events.OutcomeInterrupted, true
	}
	v.Usage.Partial = v.Usage.Partial || !ended && (exit.Signal != "" || stall != nil)
	if !res.sessionUnknown { // it has done nothing
		r.recordUsage(st, a, v, outcome, exit.Duration)
	}
	if !a.raw && !v.Whole {
		answer := strings.TrimRight(v.Text, "\n")
		res.print(Printed{answer, res.Stderr}, Printed{r.x.Mask.Text(answer), r.x.Mask.Text(res.Stderr)})
	}
	if v.Outcome == ai.Success {
		return res, nil, true
	}
	f := &Failure{Step: st.label, Failure: retry.Failure{
		Type: v.Type, Message: events.Clip(r.x.Mask.Text(v.Message), events.MaxError), ExitCode: exit.Code,
		Signal: exit.Signal, Exact: true,
		RetryAfter: v.RetryAfter, ResetAt: v.Reset, Scope: v.Scope,
	}}
	switch {
	case stall != nil:
		f.ExitCode, f.Signal = -1, "" // the signal was prodigy's own
	case exit.Signal != "":
		f.ExitCode = -1
	}
	if v.Rule != "" {
		f.Rule = a.preset.Name + "/" + v.Rule
	}
	return res, f, true
}

// newWatch returns the watch for a run; nil if its output is its own affair.
func (r *run) newWatch(a *aiRun) *watch {
	if a.raw {
		return nil
	}
	w := &watch{limits: a.limits, lenient: a.lenient, ticket: r.ticket}
	w.expiry, w.expire = context.WithCancel(context.Background())
	if a.preset.Options["max_cost"] == nil && r.ticket.ID != 0 {
		w.host = r.x.host
	}
	return w
}

// continues reports whether a run with that outcome leaves a session that the next try continues: it did not end by
// itself, or its service went away. answered says that its service had begun to answer, cut that a run which failed
// was ended from outside.
func continues(o ai.Outcome, answered, cut bool) bool {
	switch o {
	case ai.Quota, ai.Auth, ai.Stalled, events.OutcomeInterrupted:
		return true
	case ai.Overloaded:
		return answered
	}
	return o == ai.Failed && cut
}

// LeavesSession reports whether the end of a run of an agent leaves a session that its item may go on in, as
// far as its record tells.
func LeavesSession(e events.AgentUsage) bool {
	return continues(ai.Outcome(e.Outcome), e.Tokens != nil && e.Tokens.Output > 0, e.Rule == "" && e.Partial)
}

// addSession adds the arguments for the session of an AI coding CLI: for that to continue, or else for a new
// one, where the CLI lets it be named.
func (b *boundCommand) addSession(id string) {
	a := b.aiRun
	for _, name := range []string{"session", "resume"} { // the arguments may be about a session already
		if option := a.preset.Options[name]; len(option) > 0 && slices.Contains(b.argv[1:], option[0]) {
			return
		}
	}
	if !a.sessions {
		id = ""
	}
	args := a.preset.Options.Of("resume", id)
	switch {
	case len(args) > 0:
		a.session, a.continued = id, true
	case !a.lenient && len(a.preset.Options["session"]) > 0:
		// Random: an id that was used once cannot be used for another session, whatever became of the first.
		a.session = uuid.NewString()
		args = a.preset.Options.Of("session", a.session)
	}
	b.argv = append(b.argv, args...)
}

// followSession records the session of a run: at once if it is known, else as soon as the CLI says it.
func (r *run) followSession(st *step, a *aiRun, out *sink) {
	known := ""
	record := func(id string) {
		if id == "" || id == known {
			return
		}
		known = id
		r.emit(events.AISessionStarted{
			ItemID: r.a.ItemID, Attempt: r.a.Number, Step: st.label, Preset: a.preset.Name,
			Model: out.reading.Model(), SessionID: id,
			Resumed: a.continued && id == a.session,
		})
	}
	record(a.session)
	out.onSession = func() { record(out.reading.SessionID()) }
}

// outcomeTimeout is the outcome of an agent that took too long. No preset gives it.
const outcomeTimeout = "timeout"
