package agent

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"prodigy/internal/retry"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// plan is all that is compiled of the attempts of one phase. It is immutable.
type plan struct {
	env      []variable
	steps    []*step
	handler  []*step
	itemFile bool // some text names PRODIGY_ITEM_FILE
}

// step is a workflow.Step, compiled.
type step struct {
	*workflow.Step
	label    string
	kind     string
	position int // in its list
	command  command
	env      []variable
	dir      *template.Plain // nil: where the attempt runs
	output   *outputFile     // nil: none
	when     *condition      // nil: always
	fallback command         // nil: none
	success  []*step         // of on_success
	onCode   map[int][]*step
	validate *validate // nil: none
	inner    [][]*step // lists of steps that are part of it
	handler  []*step
	nth      int   // see StepBreaker; of a step with a breaker
	broken   error // a text of the step does not compile
	results  bool  // some text may name map.results
}

// policy returns the step's retry policy; a step without one has the policy that never retries.
func (s *step) policy() retry.Policy {
	if s.Retry == nil {
		return retry.Policy{}
	}
	return *s.Retry
}

// plans are the plans that an Executor has made, so that the agents of a phase share one.
type plans struct {
	mu   sync.Mutex
	made map[planKey]*plan
}

// planKey tells attempts with different texts apart.
type planKey struct{ job, phase, spec string }

// maxPlans bounds the plans in memory: an Executor may serve many jobs, one after another.
const maxPlans = 64

func (ps *plans) of(a *Attempt) *plan {
	if a.Spec == "" {
		return new(compiler).plan(a)
	}
	key := planKey{job: a.JobID, phase: a.Phase, spec: a.Spec}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.made[key]; p != nil {
		return p
	}
	if ps.made == nil || len(ps.made) >= maxPlans {
		ps.made = make(map[planKey]*plan)
	}
	p := new(compiler).plan(a)
	ps.made[key] = p
	return p
}

// compiler compiles step lists and collects what it finds on the way.
type compiler struct {
	findings []finding
	itemFile bool
	breakers map[string]int // steps with a breaker so far, by label
}

// finding is something about a text of the workflow file.
type finding struct {
	at       workflow.Pos
	severity template.Severity
	message  string
}

func (c *compiler) plan(a *Attempt) *plan {
	at := placeOf(a)
	p := &plan{env: c.env(nil, a.Env, ofVariables(a))}
	p.steps, at = c.list(a.Steps, at, "")
	p.handler, _ = c.list(a.Handler, at.failed(), "on_item_failure/")
	p.itemFile = c.itemFile
	return p
}

// list compiles steps that run one after another, the first of them at p, and returns the place behind the last.
func (c *compiler) list(steps []workflow.Step, p place, prefix string) ([]*step, place) {
	compiled := make([]*step, len(steps))
	for i := range steps {
		compiled[i] = c.step(&steps[i], i, p, prefix)
		p = p.behind(&steps[i])
	}
	return compiled, p
}

func (c *compiler) step(w *workflow.Step, position int, p place, prefix string) *step {
	s := &step{Step: w, label: prefix + w.Label(position), kind: w.Kind(), position: position}
	c.captureName(w)
	s.when = c.condition(s, p)
	s.env = c.env(s, w.Env, p)
	inner := p.with(w.Env)
	k, ok := kinds()[s.kind]
	if !ok {
		panic("BUG: a step of unknown kind " + s.kind)
	}
	if k.build != nil {
		s.command = k.build(c, s, inner)
	} else {
		s.command = c.ownCommand(s, k, inner)
	}
	if w.WorkingDir != nil {
		s.dir = c.plain(s, *w.WorkingDir, inner)
	}
	s.output = c.outputFile(s, inner)
	s.validate = c.validation(s, inner)
	c.following(s, p)
	c.afterFailure(s, inner)
	return s
}

// ownCommand compiles the command that s is.
func (c *compiler) ownCommand(s *step, k kind, p place) command {
	if len(s.Interpreter) > 0 {
		k.compile = interpreted(s.Interpreter)
	}
	text := k.text(s.Step)
	return c.command(s, k, text.Value, text.At, p)
}

// following compiles the steps that follow s.
func (c *compiler) following(s *step, p place) {
	behind := p.behind(s.Step)
	s.success, _ = c.list(s.OnSuccess, behind, s.label+"/")
	for _, code := range slices.Sorted(maps.Keys(s.OnExitCode)) {
		at := behind
		if code != 0 {
			at = behind.failed()
		}
		if s.onCode == nil {
			s.onCode = make(map[int][]*step)
		}
		s.onCode[code], _ = c.list(s.OnExitCode[code], at, s.label+"/")
	}
	if on := s.OnFailure; on != nil {
		s.handler, _ = c.list(on.Steps, behind.failed(), s.label+"/")
	}
}

// afterFailure compiles what else a step says about its failures.
func (c *compiler) afterFailure(s *step, p place) {
	policy := s.policy()
	if policy.OnFailure.Kind == retry.Fallback {
		s.fallback = c.command(s, kinds()["shell"], policy.OnFailure.Command, s.somewhere, p.behind(s.Step).failed())
	}
	if policy.CircuitBreaker != nil {
		if c.breakers == nil {
			c.breakers = make(map[string]int)
		}
		s.nth = c.breakers[s.label]
		c.breakers[s.label]++
	}
}

// locate returns the place in the workflow file of a line and column of a text.
type locate func(line, col int) workflow.Pos

// somewhere locates texts of s of which only the step is known.
func (s *step) somewhere(_, _ int) workflow.Pos { return s.Pos }

func (c *compiler) command(s *step, k kind, text string, at locate, p place) command {
	c.look(s, text)
	compiled, diags, err := k.compile(text, p.names())
	for _, d := range diags {
		c.found(at, d)
	}
	c.failed(s, at, err)
	return compiled
}

func (c *compiler) plain(s *step, text workflow.Text, p place) *template.Plain {
	c.look(s, text.Value)
	compiled, err := template.CompilePlain(text.Value, p.names())
	c.failed(s, text.At, err)
	return compiled
}

// look notes what a text wants that is not free.
func (c *compiler) look(s *step, text string) {
	if strings.Contains(text, itemFileVar) {
		c.itemFile = true
	}
	if s != nil && strings.Contains(strings.ReplaceAll(text, "results_file", ""), "results") {
		s.results = true
	}
}

// failed notes that a text does not compile.
func (c *compiler) failed(s *step, at locate, err error) {
	if err == nil {
		return
	}
	if s != nil && s.broken == nil {
		s.broken = err
	}
	var compile *template.CompileError
	if !errors.As(err, &compile) {
		c.findings = append(c.findings, finding{at: at(1, 1), severity: template.Error, message: err.Error()})
		return
	}
	for _, d := range compile.Diags {
		c.found(at, d)
	}
}

func (c *compiler) found(at locate, d template.Diag) {
	f := finding{at: at(d.Line, d.Col), severity: d.Severity, message: d.Code + " " + d.Text}
	c.findings = append(c.findings, f)
}
