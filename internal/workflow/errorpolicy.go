package workflow

import (
	"slices"
	"strings"

	"prodigy/internal/errorpolicy"
)

// rootPolicyKeys are the keys of an error_policy that can also be written at the root.
var rootPolicyKeys = strings.Fields(`on_item_failure continue_on_failure max_failures failure_threshold
	error_collection`)

// policyKeys returns the keys of an error_policy block. A workflow has one policy. Its keys can be spread
// over several blocks, but each can be written only once.
func (r *reader) policyKeys() keySet {
	keys := r.fields(&r.w.ErrorPolicy)
	for i, k := range keys {
		keys[i].read = func(e entry) {
			if before, twice := r.policy[k.name]; twice {
				r.fail(e.key, "%q is set twice (also on line %d)", k.name, before.key.Line)
				return
			}
			r.policy[k.name] = e
			k.read(e)
		}
	}
	return keys
}

// policyKeysNamed returns the keys of policyKeys with these names.
func (r *reader) policyKeysNamed(names ...string) keySet {
	return slices.DeleteFunc(r.policyKeys(), func(k key) bool { return !slices.Contains(names, k.name) })
}

func (r *reader) errorPolicy(e entry) {
	r.block("error_policy", e, r.policyKeys())
}

// checkErrorPolicy checks and completes the policy after all blocks that can hold its keys have been read.
func (r *reader) checkErrorPolicy() {
	p := &r.w.ErrorPolicy
	if p.OnItemFailure.Kind == errorpolicy.Retry && p.RetryConfig == nil {
		base := r.basePolicy()
		p.RetryConfig = &base
	}
	if per := r.w.BreakerPer; per != nil && r.w.Map != nil && r.w.Map.Batch > 0 {
		r.failAt(per.Pos, `"batch" and circuit_breaker "per" cannot be used together: items of a batch may have different keys`)
	}
	r.checkHandlers()
	r.warnOfFindings(p.Ineffective(func(key string) bool { return r.policy[key].key != nil }), r.policy)
}

// checkHandlers reports a custom action whose handler is missing, and warns of unused handlers.
func (r *reader) checkHandlers() {
	wanted := r.w.ErrorPolicy.OnItemFailure.Handler
	if e, ok := r.policy["on_item_failure"]; ok && wanted != "" && r.handlerKeys[wanted] == nil {
		names := make([]string, 0, len(r.handlerKeys))
		for name := range r.handlerKeys {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) == 0 {
			r.fail(e.value, "unknown handler %q: define it under handlers", wanted)
			return
		}
		r.fail(e.value, "unknown handler %q%s", wanted, hint(wanted, names))
	}
	for name, key := range r.handlerKeys {
		if name != wanted {
			r.warn(key, "handler %q is never used", name)
		}
	}
}

// batched reads {batched: {size: n}}.
func (r *reader) batched(e entry, c *errorpolicy.Collection) bool {
	var form struct {
		Batched *struct {
			Size int `yaml:"size" least:"1" required:"true"`
		} `yaml:"batched" required:"true"`
	}
	if !r.read(e, &form) || form.Batched == nil {
		return false
	}
	*c = errorpolicy.Collection{Kind: errorpolicy.Batched, Size: form.Batched.Size}
	return c.Size > 0
}

// handlers reads the named lists of steps that on_item_failure can call.
func (r *reader) handlers(e entry) map[string][]Step {
	all := map[string][]Step{}
	for _, h := range r.namedEntries(e) {
		if !isLabel(h.name) {
			r.fail(h.key, "invalid name %q: use letters, digits, underscores and dashes, not starting with a digit", h.name)
		}
		r.handlerKeys[h.name] = h.key
		all[h.name] = r.steps(h)
	}
	return all
}
