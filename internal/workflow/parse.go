package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
	"prodigy/internal/spend"
)

// Parse reads a workflow. file is its name in messages. The error is an *InvalidError with all problems.
func Parse(file string, data []byte, o ParseOptions) (*Workflow, error) {
	r := newReader(file, data, o)
	if root := r.load(data); root != nil && r.inspect(root) {
		r.root(entry{name: "workflow", value: resolveAlias(root)})
		r.refuseRates()
	}
	r.expandArgs()
	if o.Workspace != "" {
		r.w.Workspace.Mode = o.Workspace
	}
	if r.w.Workspace.Isolated() {
		r.w.Workspace = r.w.Workspace.withDefaults()
	}
	r.checkSigns()
	if len(r.problems) > 0 {
		return nil, &InvalidError{Problems: sortProblems(r.problems), Read: r.readSoFar()}
	}
	r.warnOfPhases()
	r.warnOfSharing()
	r.w.Warnings = sortProblems(r.warnings)
	if r.w.Name == "" {
		r.w.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	return r.w, nil
}

// readSoFar returns what could be read of an invalid file, or nil if that is nothing.
func (r *reader) readSoFar() *Workflow {
	if r.w.Map == nil && r.w.Commands == nil {
		return nil
	}
	return r.w
}

// root reads a whole file: a mapping, or a bare list of steps.
func (r *reader) root(e entry) {
	switch e.value.Kind {
	case yaml.SequenceNode:
		r.w.Mode = Standard
		r.w.Commands = r.steps(e)
	case yaml.MappingNode:
		r.rootMapping(e)
	default:
		r.wrongType(e, "a mapping or a list of steps")
	}
}

func (r *reader) rootMapping(e entry) {
	if n := find(e.value, "retry_defaults"); n != nil {
		r.retryDefaults(entry{name: "retry_defaults", value: n}) // first, because every step is read over it
	}
	keys := append(r.fields(r.w), key{name: "retry_defaults", read: func(entry) {}})
	keys = append(keys, r.policyKeysNamed(rootPolicyKeys...)...)
	b := r.block("workflow", e, keys)
	r.checkMode(b)
	r.checkErrorPolicy()
}

// checkMode sets the mode if it is not written, and reports keys that contradict it.
func (r *reader) checkMode(b *block) {
	r.w.Older = r.w.Older || b.has("mode")
	if r.w.Mode == "" && b.has("mode") {
		return // not a mode, which is told already
	}
	if r.w.Mode == "" {
		r.w.Mode = Standard
		if b.has("map") {
			r.w.Mode = MapReduce
		}
	}
	if r.w.Mode == Standard {
		r.checkStandard(b)
		return
	}
	if b.has("reduce_when") && !b.has("reduce") && !b.has("merge") {
		r.fail(b.written["reduce_when"].key, `"reduce_when" needs a "reduce" or a "merge", which it holds back`)
	}
	r.require(b, "map")
	if commands, ok := b.written["commands"]; ok && b.has("map") {
		r.fail(commands.key, `%q and "map" exclude each other: the steps of a map phase are its agent_template`, commands.name)
	}
}

// checkStandard reports keys that need items.
func (r *reader) checkStandard(b *block) {
	if m, ok := b.written["map"]; ok {
		r.fail(m.key, `"map" contradicts "mode: standard": remove one of them`)
		return
	}
	if b.has("mode") {
		r.require(b, "commands")
	} else {
		r.require(b, "commands", "map")
	}
	mends := map[string]string{
		"setup":  `: write its steps at the beginning of "commands"`,
		"reduce": `: write its steps at the end of "commands"`,
		"merge":  `: the commands run in this directory, so nothing is merged; write "workspace: git", or its steps at the end of "commands", or delete it`,
	}
	items := []string{"setup", "reduce", "reduce_when", "handlers"}
	if cmp.Or(r.options.Workspace, r.w.Workspace.Mode) != GitWorkspace {
		items = append(items, "merge")
	}
	for name, e := range b.written {
		if slices.Contains(items, name) {
			r.fail(e.key, "%q is only for mode mapreduce, which needs a \"map\"%s", name, mends[name])
		}
		if policy := name == "error_policy" || slices.Contains(rootPolicyKeys, name); policy && len(r.options.Values) == 0 {
			r.warn(e.key, "%q has no effect without items, which a \"map\" or --args has: a step has its own retry_config and on_failure", name)
		}
	}
}

// expandArgs turns a standard workflow into one with items if the run has values: its commands run once for each value, which is in ARG,
// one after the other unless the run sets more slots.
func (r *reader) expandArgs() {
	if len(r.options.Values) == 0 {
		return
	}
	if r.w.Map != nil {
		r.failAt(r.w.Map.Pos, "a workflow with a map has its own items: --args and --map are for those without")
		return
	}
	values := make([]json.RawMessage, len(r.options.Values))
	for i, v := range r.options.Values {
		values[i] = jsonText(nil, v)
	}
	r.w.Mode = MapReduce
	r.w.Map = &Map{
		Input: Input{Items: values}, MaxParallel: IntOrVar{Value: 1}, AgentTemplate: r.w.Commands, ItemsFromArgs: true,
	}
	r.w.Commands = nil
}

// value reads e into target, a pointer to a field of a block. It has a case for each type of field. An invalid value is reported and
// leaves the target unchanged.
func (r *reader) value(e entry, target any, timeout bool) {
	switch t := target.(type) {
	case *string:
		set(t)(r.text(e))
	case *Text:
		set(t)(r.textWithPos(e))
	case **Text:
		setPointer(t)(r.textWithPos(e))
	case *bool:
		set(t)(r.boolean(e))
	case **bool:
		setPointer(t)(r.boolean(e))
	case *int:
		set(t)(r.integer(e))
	case **int:
		setPointer(t)(r.integer(e))
	case *float64:
		set(t)(r.number(e))
	case **float64:
		setPointer(t)(r.number(e))
	case *time.Duration:
		set(t)(r.duration(e, timeout))
	case **time.Duration:
		setPointer(t)(r.duration(e, timeout))
	case *[]time.Duration:
		set(t)(r.durations(e))
	default:
		r.workflowValue(e, target)
	}
}

// workflowValue is value for the types of workflow files.
func (r *reader) workflowValue(e entry, target any) {
	switch t := target.(type) {
	case *Mode:
		set(t)(word(r, e, Standard, MapReduce))
	case *[]Step:
		*t = r.steps(e)
	case **Phase:
		*t = r.phase(e)
	case **Map:
		*t = r.mapPhase(e)
	case *Input:
		set(t)(r.input(e))
	case *Workspace:
		*t = r.workspace(e)
	case *OnEmpty:
		set(t)(word(r, e, EmptyIsError, EmptyIsOK))
	case *Take:
		set(t)(word(r, e, TakeAll, TakeCommits))
	case *History:
		set(t)(word(r, e, HistoryMerge, HistorySquash))
	case *Order:
		set(t)(word(r, e, OrderCompletion, OrderItems))
	case **Verify:
		*t = r.verify(e)
	case **Agent:
		*t = r.agent(e)
	case *Sharing:
		set(t)(word(r, e, SharingOK))
	case *May:
		set(t)(word(r, e, MayRead, MayEdit, MayAll))
	case *SessionUse:
		set(t)(word(r, e, ResumeAuto, ResumeNever))
	case **AgentPresets:
		*t = r.agentPresets(e)
	case **WriteFile:
		*t = r.writeFile(e)
	case **Foreach:
		*t = r.foreach(e)
	case **Validate:
		*t = r.validate(e)
	case *[]Receiver:
		*t = r.receivers(e)
	case *[]Moment:
		*t = r.moments(e)
	case *SecondsOrVar:
		set(t)(r.secondsOrVar(e))
	case *limit.Windows:
		*t = r.windows(e)
	case *limit.Guards:
		r.guards(e, t)
	case **limit.Amount:
		setPointer(t)(r.amount(e))
	case **Canary:
		*t = r.canary(e)
	case **Ramp:
		*t = r.ramp(e)
	case **limit.StragglerConfig:
		*t = r.straggler(e)
	case *limit.StragglerAfter:
		set(t)(r.stragglerAfter(e))
	case *[]int: // read by its own reader
	case **Concurrency:
		*t = r.concurrency(e)
	case *Rate:
		set(t)(r.rate(e))
	case **Rate:
		setPointer(t)(r.rate(e))
	case *limit.Rate:
		set(t)(r.rateLimit(e))
	case **ParkAfter:
		setPointer(t)(r.parkAfter(e))
	case **ReduceWhen:
		set(t)(r.reduceWhen(e))
	case *Incomplete:
		set(t)(word(r, e, KeepIncomplete, RemoveIncomplete, PartialIncomplete))
	case **Bound:
		set(t)(r.bound(e))
	case *IntOrVar:
		set(t)(r.intOrVar(e))
	case *ExitSteps:
		*t = r.exitSteps(e)
	case *CaptureFormat:
		set(t)(word(r, e, CaptureFormats()...))
	case *Interpreter:
		set(t)(r.interpreter(e))
	case *[]EnvVar:
		*t = r.env(e)
	case *[]Text:
		*t = r.textList(e)
	case *[]Profile:
		*t = r.profiles(e)
	case *[]Secret:
		*t = r.secrets(e)
	case *[]Parameter:
		*t = r.params(e)
	case *ParameterType:
		set(t)(word(r, e, parameterTypes()...))
	case *map[string][]Step:
		*t = r.handlers(e)
	default:
		r.policyValue(e, target)
	}
}

// policyValue is value for the types of other packages: retry, errorpolicy, breaker.
func (r *reader) policyValue(e entry, target any) {
	switch t := target.(type) {
	case *outputs.Policy:
		r.block("outputs", e, r.fields(t))
	case *outputs.Keep:
		set(t)(word(r, e, outputs.Keeps()...))
	case *outputs.Size:
		set(t)(r.size(e))
	case *spend.Budget:
		r.block("budget", e, r.fields(t))
	case *spend.USD:
		set(t)(r.dollars(e))
	case **spend.USD:
		setPointer(t)(r.dollars(e))
	case **spend.Count:
		setPointer(t)(r.tokens(e))
	case *errorpolicy.Policy:
		r.errorPolicy(e)
	case **limit.QuotaPolicy:
		*t = r.quota(e)
	case *limit.OnQuota:
		set(t)(word(r, e, limit.OnQuotas()...))
	case *errorpolicy.OnOOM:
		set(t)(word(r, e, errorpolicy.OOMAlone))
	case *errorpolicy.ItemAction:
		set(t)(r.itemAction(e))
	case *errorpolicy.Collection:
		set(t)(r.collection(e))
	case **retry.Policy:
		setPointer(t)(r.itemRetry(e))
	case **retry.Ratio:
		*t = r.retryRatio(e)
	case *retry.Backoff:
		set(t)(r.backoff(e))
	case *retry.Jitter:
		set(t)(r.jitter(e))
	case **retry.After:
		*t = r.retryAfter(e)
	case *[]retry.Matcher:
		*t = r.matchers(e)
	case *retry.FailureAction:
		set(t)(r.failureAction(e))
	case **limit.BreakerConfig:
		setPointer(t)(r.breaker(e))
	case *limit.OnOpen:
		set(t)(word(r, e, limit.Reject, limit.Wait))
	default:
		panic(fmt.Sprintf("BUG: no way to read a %T", target))
	}
}
