package workflow

import "encoding/json"

// forValues makes a standard workflow that was given values one over items: its commands run once for each value, one after the other
// unless the run says otherwise, and ARG is the value.
func (r *reader) forValues() {
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
		Input: Input{Items: values}, MaxParallel: IntOrVar{Value: 1}, AgentTemplate: r.w.Commands, PerValue: true,
	}
	r.w.Commands = nil
}
