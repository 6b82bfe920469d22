package agent

import (
	"slices"

	"github.com/google/uuid"

	"prodigy/internal/ai"
	"prodigy/internal/events"
)

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
