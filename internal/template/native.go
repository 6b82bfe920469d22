package template

import (
	"fmt"
	"maps"
	"slices"
)

// export is a declared name that the script uses as $name: the shell finds it in its environment, and expands it natively.
type export struct {
	name     string
	number   bool // the shell evaluates it
	required bool // some use has no default
	child    bool // another shell reads it
}

// nativeUse notes that the shell itself expands a name. One that would steer the shell is left to the environment as it is.
func (c *compiler) nativeUse(name string, s surroundings, required, child bool) {
	if !c.names.declared(name) {
		if c.names.root(name) {
			c.rootUses[name] = true
		}
		return
	}
	c.used[name] = true
	if ReservedName(name) {
		return
	}
	e := c.exports[name]
	if e == nil {
		e = &export{name: name}
		c.exports[name] = e
	}
	e.number = e.number || s.number
	e.required = e.required || required
	e.child = e.child || child
}

// finishNatives drops the names that the script sets itself. A name that nobody exports has no use for the shell's operators.
func (c *compiler) finishNatives() {
	for name := range c.exports {
		if c.sets[name] {
			delete(c.exports, name)
		}
	}
	for _, n := range c.natives {
		if c.rootUses[n.name] && !c.sets[n.name] {
			c.report(Error, n.offset, finding{codePlaceholder, fmt.Sprintf("%s uses an operator of the shell on a prodigy value; assign it to a shell variable first: v=${%s}; then use its operators on v", n.written, n.name)})
		}
	}
}

func (c *compiler) sortedExports() []export {
	var list []export
	for _, name := range slices.Sorted(maps.Keys(c.exports)) {
		list = append(list, *c.exports[name])
	}
	return list
}
