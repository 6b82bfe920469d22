package workflow

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Parse reads a workflow. file is its name in messages. The error is an *InvalidError with all problems.
func Parse(file string, data []byte, o ParseOptions) (*Workflow, error) {
	r := newReader(file, data, o)
	if root := r.load(data); root != nil {
		r.root(entry{name: "workflow", value: root})
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
		invalid := &InvalidError{Problems: sortProblems(r.problems)}
		if r.w.Map != nil || r.w.Commands != nil {
			invalid.Read = r.w
		}
		return nil, invalid
	}
	r.warnOfSharing()
	r.w.Warnings = sortProblems(r.warnings)
	if r.w.Name == "" {
		r.w.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	return r.w, nil
}

// Read reads a file of another kind than a workflow into target, a pointer to a struct that messages call name. The
// error is an *InvalidError with all problems.
func Read(file, name string, data []byte, target any) error {
	r := newReader(file, data, ParseOptions{})
	r.w = nil
	if root := r.load(data); root != nil {
		r.read(entry{name: name, value: root}, target)
	}
	if len(r.problems) > 0 {
		return &InvalidError{Problems: sortProblems(r.problems)}
	}
	return nil
}

// root reads a whole file: a mapping, or a bare list of steps.
func (r *reader) root(e entry) {
	switch e.value.Kind {
	case yaml.SequenceNode:
		r.w.Mode = Standard
		r.w.Commands = r.steps(e)
	case yaml.MappingNode:
		if n := find(e.value, "retry_defaults"); n != nil {
			// First, because every step is read over it.
			if p := r.stepDefaults(); r.retryBlock(entry{name: "retry_defaults", value: n}, &p, nil) {
				r.defaults = &p
			}
		}
		keys := append(r.fields(r.w), key{name: "retry_defaults", read: func(entry) {}})
		keys = append(keys, r.policyKeysNamed(rootPolicyKeys...)...)
		b := r.block("workflow", e, keys)
		r.checkMode(b)
		r.checkErrorPolicy()
	default:
		r.wrongType(e, "a mapping or a list of steps")
	}
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
	r.refuse(b, "reduce_when", !b.has("reduce") && !b.has("merge"), `"reduce_when" requires "reduce" or "merge"`)
	r.require(b, "map")
	r.refuse(b, "commands", b.has("map"),
		`%q and "map" cannot be used together: in mapreduce mode steps belong in agent_template`, b.written["commands"].name)
}

// checkStandard reports keys that need items.
func (r *reader) checkStandard(b *block) {
	if m, ok := b.written["map"]; ok {
		r.fail(m.key, `"map" cannot be used with "mode: standard"`)
		return
	}
	if b.has("mode") {
		r.require(b, "commands")
	} else {
		r.require(b, "commands", "map")
	}
	mends := map[string]string{
		"setup":  `: put its steps at the beginning of "commands"`,
		"reduce": `: put its steps at the end of "commands"`,
		"merge":  `: without "workspace: git" nothing is merged; add it, put these steps at the end of "commands", or delete them`,
	}
	items := []string{"setup", "reduce", "reduce_when", "handlers"}
	if cmp.Or(r.options.Workspace, r.w.Workspace.Mode) != GitWorkspace {
		items = append(items, "merge")
	}
	for name, e := range b.written {
		if slices.Contains(items, name) {
			r.fail(e.key, "%q is only for mode mapreduce, which requires \"map\"%s", name, mends[name])
		}
		if policy := name == "error_policy" || slices.Contains(rootPolicyKeys, name); policy &&
			len(r.options.Values) == 0 {
			r.warn(e.key, "%q has no effect without items, from \"map\" or --args: a step has its own retry_config and on_failure", name)
		}
	}
}

// expandArgs turns a standard workflow into one with items if the run has values: its commands run once for
// each value, which is in ARG, one after the other unless the run sets more slots.
func (r *reader) expandArgs() {
	if len(r.options.Values) == 0 {
		return
	}
	if r.w.Map != nil {
		r.failAt(r.w.Map.Pos, "--args and --map cannot be used with a workflow that has a map")
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
