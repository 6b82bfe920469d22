package workflow

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// maxAliased is how many nodes may be reached through aliases. More is a file made to exhaust memory.
const maxAliased = 100_000

// inspector looks over a document for what must be refused before its values are read.
type inspector struct {
	r       *reader
	open    map[*yaml.Node]bool // aliases on the way from the root to here
	aliased int                 // nodes reached through aliases
	seen    map[*yaml.Node]bool // tagged nodes that were told
}

// inspect reports aliases without an end, aliases that multiply without measure, and tags; it returns false when the
// document cannot be walked.
func (r *reader) inspect(root *yaml.Node) bool {
	i := &inspector{r: r, open: map[*yaml.Node]bool{}, seen: map[*yaml.Node]bool{}}
	return i.node(root)
}

func (i *inspector) node(n *yaml.Node) bool {
	if len(i.open) > 0 {
		i.aliased++
	}
	if i.aliased > maxAliased {
		return false
	}
	if n.Kind == yaml.AliasNode {
		return i.alias(n)
	}
	i.tag(n)
	for _, child := range n.Content {
		if !i.node(child) {
			return false
		}
	}
	return true
}

func (i *inspector) alias(n *yaml.Node) bool {
	if i.open[n.Alias] {
		i.r.fail(n, "alias %q contains itself", n.Value)
		return false
	}
	i.open[n.Alias] = true
	ok := i.node(n.Alias)
	delete(i.open, n.Alias)
	if i.aliased > maxAliased && len(i.open) == 0 {
		i.r.fail(n, "alias %q expands to more than %d values", n.Value, maxAliased)
	}
	return ok
}

func (i *inspector) tag(n *yaml.Node) {
	known := []string{"", "!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq"}
	if n.Style&yaml.TaggedStyle == 0 || slices.Contains(known, n.Tag) || i.seen[n] {
		return
	}
	i.seen[n] = true
	i.r.fail(n, "unknown tag %q", n.Tag)
}
