package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"prodigy/internal/retry"
	shelltext "prodigy/internal/shell"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// plan is everything that is compiled of the attempts of one phase. It is immutable.
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

	rateKey  func(id string, item json.RawMessage) string // nil: its rate has no keys
	broken   error                                        // a text of the step does not compile
	command  command
	env      []variable
	dir      *template.Plain // nil: where the attempt runs
	output   *outputFile     // nil: none
	when     *condition      // nil: always
	validate *validation     // nil: none
	inner    [][]*step       // lists of steps that are part of it
	results  bool            // some text may name map.results
	nth      int             // see StepBreaker; of a step with a breaker

	// The hooks.
	onSuccess []*step
	onCode    map[int][]*step
	onFailure []*step
	fallback  command         // nil: none
	after     *template.Plain // the file that says when to try again; nil means none
}

// variable is one of an env block, compiled: a text, a command whose output is the value, a literal or a secret.
type variable struct {
	name    string
	value   *template.Plain // nil: not a text
	command command         // nil: not a command
	literal string
	secret  bool // the Executor has the value
}

// policy returns the retry policy of the step; without one, it is never retried.
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

type planKey struct{ job, phase, spec string }

// maxPlans limits the plans in memory: an Executor may serve many jobs, one after another.
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

// compiler compiles lists of steps and collects its findings about their texts.
type compiler struct {
	findings []finding
	itemFile bool
	breakers map[string]int // steps with a breaker so far, by label
}

// finding is an error or a warning about a text of the workflow file.
type finding struct {
	at       workflow.Pos
	severity template.Severity
	message  string

	conditional bool // the step has a condition
}

func (c *compiler) plan(a *Attempt) *plan {
	names := namesOf(a)
	p := &plan{env: c.env(nil, a.Env, variableNames(a))}
	p.steps, names = c.list(a.Steps, names, "")
	p.handler, _ = c.list(a.Handler, names.failed(), "on_item_failure/")
	p.itemFile = c.itemFile
	return p
}

// list compiles steps that run one after another. n are the names that the first of them sees; it returns those
// after the last.
func (c *compiler) list(steps []workflow.Step, n scopeNames, prefix string) ([]*step, scopeNames) {
	compiled := make([]*step, len(steps))
	for i := range steps {
		compiled[i] = c.step(&steps[i], i, n, prefix)
		n = n.after(&steps[i])
	}
	return compiled, n
}

func (c *compiler) step(w *workflow.Step, position int, n scopeNames, prefix string) *step {
	s := &step{Step: w, label: prefix + w.Label(position), kind: w.Kind(), position: position}
	if w.Rate != nil && w.Rate.Per != nil {
		s.rateKey, _ = Keys(*w.Rate.Per) // Check has refused a wrong one
	}
	c.captureName(w)
	if w.When != nil {
		s.when = c.condition(s, n.Names)
	}
	s.env = c.env(s, w.Env, n)

	inner := n.withVars(w.Env)
	k, ok := kinds()[s.kind]
	switch {
	case !ok:
		panic("BUG: a step of unknown kind " + s.kind)
	case k.build != nil:
		s.command = k.build(c, s, inner)
	default:
		if len(w.Interpreter) > 0 {
			k.compile = interpreted(w.Interpreter)
		}
		text := k.text(w)
		s.command = c.command(s, k.compile, text.Value, text.At, inner)
	}
	if w.WorkingDir != nil {
		s.dir = c.plain(s, *w.WorkingDir, inner)
	}
	if w.OutputFile != nil {
		if path := c.plain(s, *w.OutputFile, inner); path != nil {
			s.output = &outputFile{path: path, head: path.Before(inner.isData)}
		}
	}
	if w.Validate != nil {
		s.validate = c.validation(s, inner)
	}

	after := n.after(w)
	s.onSuccess, _ = c.list(w.OnSuccess, after, s.label+"/")
	for _, code := range slices.Sorted(maps.Keys(w.OnExitCode)) {
		names := after
		if code != 0 {
			names = after.failed()
		}
		if s.onCode == nil {
			s.onCode = make(map[int][]*step)
		}
		s.onCode[code], _ = c.list(w.OnExitCode[code], names, s.label+"/")
	}
	if w.OnFailure != nil {
		s.onFailure, _ = c.list(w.OnFailure.Steps, after.failed(), s.label+"/")
	}
	policy := s.policy()
	if policy.OnFailure.Kind == retry.Fallback {
		s.fallback = c.command(s, compileShell, policy.OnFailure.Command, s.anywhere, inner.after(w).failed())
	}
	if after := policy.RetryAfter; after != nil && after.File != "" {
		s.after = c.plain(s, workflow.Text{Value: after.File, Pos: s.Pos}, inner)
	}
	if policy.CircuitBreaker != nil {
		if c.breakers == nil {
			c.breakers = make(map[string]int)
		}
		s.nth = c.breakers[s.label]
		c.breakers[s.label]++
	}
	return s
}

// env compiles a block of variables. Each sees the ones before it. Without a step it is the block of the workflow.
func (c *compiler) env(s *step, vars []workflow.EnvVar, n scopeNames) []variable {
	compiled := make([]variable, len(vars))
	for i, v := range vars {
		c.envName(v.Name, v.At())
		one := variable{name: v.Name}
		switch {
		case v.Command != nil:
			one.command = c.command(s, compileShell, v.Command.Value, v.Command.At, n)
		case v.Choice != nil: // it is decided before the job starts: only Check comes here
			one.value = c.plain(s, v.Choice.WhenTrue, n)
			c.plain(s, v.Choice.WhenFalse, n)
		case v.Literal:
			one.literal = v.Value.Value
		case v.Secret && v.Value.Value == "":
			one.secret = true
		default:
			one.value = c.plain(s, v.Value, n)
		}
		c.steering(v, one, n)
		compiled[i] = one
		n = n.withVars(vars[i : i+1])
	}
	return compiled
}

// compileText makes the command of a step from its text.
type compileText func(text string, n template.Names) (command, []template.Diag, error)

// locate returns the position in the workflow file of a line and column of a text.
type locate func(line, col int) workflow.Pos

// anywhere locates texts of s whose own position is not known.
func (s *step) anywhere(_, _ int) workflow.Pos { return s.Pos }

func (c *compiler) command(s *step, compile compileText, text string, at locate, n scopeNames) command {
	c.noteUse(s, text)
	compiled, diags, err := compile(text, n.Names)
	for _, d := range diags {
		c.found(s, at, d)
	}
	c.failed(s, at, err)
	return compiled
}

func (c *compiler) plain(s *step, text workflow.Text, n scopeNames) *template.Plain {
	c.noteUse(s, text.Value)
	compiled, err := template.CompilePlain(text.Value, n.Names)
	if compiled != nil {
		for _, d := range compiled.Diags {
			c.found(s, text.At, d)
		}
	}
	c.failed(s, text.At, err)
	return compiled
}

// noteUse notes what a text uses that costs something to provide.
func (c *compiler) noteUse(s *step, text string) {
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
	compile, is := errors.AsType[*template.CompileError](err)
	if !is {
		c.refuse(at(1, 1), "%v", err)
		return
	}
	for _, d := range compile.Diags {
		c.found(s, at, d)
	}
}

// refuse notes an error.
func (c *compiler) refuse(at workflow.Pos, format string, args ...any) {
	c.findings = append(c.findings, finding{at: at, severity: template.Error, message: fmt.Sprintf(format, args...)})
}

func (c *compiler) found(s *step, at locate, d template.Diag) {
	c.findings = append(c.findings, finding{
		at: at(d.Line, d.Col), severity: d.Severity, message: d.Code + " " + d.Text,
		conditional: s != nil && s.When != nil,
	})
}

// captureName refuses names that would steer the programs of later steps, since captured values are exported to them.
func (c *compiler) captureName(s *workflow.Step) {
	if template.ReservedName(s.Capture) {
		c.refuse(s.Pos, "PS031 the output cannot be captured as %s: a variable of that name would steer the shell or its programs; choose another name", s.Capture)
	}
}

// elementName is captureName for the element of a foreach.
func (c *compiler) elementName(s *step) {
	if name := s.Foreach.ElementName(); template.ReservedName(name) {
		c.refuse(s.Pos, "PS031 the element cannot be called %s: a variable of that name would steer the shell or its programs; choose another name", name)
	}
}

// steering reports data in a variable that makes it code: shells and programs run what they find there.
func (c *compiler) steering(v workflow.EnvVar, compiled variable, n scopeNames) {
	runs, searched := shelltext.Steering(v.Name)
	if !runs && !searched {
		return
	}
	written, isData := "the output of a command", v.Command != nil
	if compiled.value != nil {
		written, isData = compiled.value.Data(n.Names)
	}
	if !isData && v.Choice != nil && strings.Contains(v.Choice.WhenFalse.Value, "$") {
		if other, err := template.CompilePlain(v.Choice.WhenFalse.Value, n.Names); err == nil {
			written, isData = other.Data(n.Names)
		}
	}
	switch {
	case !isData:
	case runs && v.Command == nil:
		c.refuse(v.At(), "PS033 %s is the value of %s, where shells and programs look for what they run; give it a constant value", written, v.Name)
	default:
		c.findings = append(c.findings, finding{at: v.At(), severity: template.Warning, message: fmt.Sprintf(
			"PS033 %s is the value of %s; whoever writes it may choose which program runs", written, v.Name,
		)})
	}
}

// envName refuses names that prodigy sets for every command: the value of the workflow would never be seen.
func (c *compiler) envName(name string, at workflow.Pos) {
	if isOurs(name + "=") {
		c.refuse(at, "PS032 %s is set by prodigy itself for every command; choose another name", name)
	}
}
