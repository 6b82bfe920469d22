package template

import (
	"strconv"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// Variables that prodigy sets for every command of an agent.
const (
	itemVar   = "PRODIGY_ITEM"      // the item as JSON
	itemIDVar = "PRODIGY_ITEM_ID"   // its id, which may be a field of it
	itemFile  = "PRODIGY_ITEM_FILE" // a file with the item

	producesVar = "PRODIGY_PRODUCES" // the names may have parts of the item
	itemsFile   = "items_file"       // a file with the items of a batch
)

// checkValues reports the values in a finished script that stand where the shell, or a program that it starts,
// runs them.
func (c *compiler) checkValues(script string) {
	for _, f := range shell.CheckValues(script, c.dialects, c.values()) {
		severity := Error
		if f.Warning {
			severity = Warning
		}
		c.report(severity, f.Offset, finding{f.Code, f.Text})
	}
}

// values returns the values that reach a script: placeholders, each under a name of its own, and names of the
// environment that it mentions.
func (c *compiler) values() []shell.Value {
	var all []shell.Value
	for i, r := range c.refs {
		if !r.filled {
			continue
		}
		s := &c.slots[r.slot]
		// |raw is meant to be code, a number is none, and |sh and |url make a value harmless.
		if s.mode == pastedCode || s.number || s.expr.has("sh") || s.expr.has("url") {
			continue
		}
		v := shell.Value{
			Variable: sentinelName + strconv.Itoa(i), Written: r.written, Offset: r.start, JSON: s.expr.isJSON(),
		}
		if s.mode == separate {
			v.Variable += "_0"
		}
		// A file is harmless by its name, and dangerous by its content.
		is, _ := c.names.Lookup(s.expr.root)
		switch {
		case s.expr.has("file") || s.expr.root == itemsFile && c.names.root(itemsFile):
			v.File, v.JSON = true, false
		case s.expr.isOfMap("results_file"), s.expr.isOfMap("missing_file"):
			v.File, v.JSON = true, true
		case s.expr.has("raw"), s.expr.has("int"), c.isTrusted(s.expr), is.Constant && len(s.expr.steps) == 0:
			continue
		}
		all = append(all, v)
	}
	return append(all, c.namedValues()...)
}

// namedValues returns the names of the environment that bring data, and that the text mentions and does not set.
func (c *compiler) namedValues() (all []shell.Value) {
	seen := map[string]bool{}
	for at := 0; at < len(c.src); {
		n := shell.NameLen(c.src[at:])
		name := c.src[at : at+n]
		isFile := name == itemFile || name == itemsFile && c.names.root(itemsFile)
		if n > 0 && !seen[name] && !c.sets[name] && (isFile || c.bringsData(name)) {
			seen[name] = true
			all = append(all, shell.Value{
				Variable: name, Offset: at, Written: "$" + name,
				File: isFile, JSON: name == itemVar || name == itemFile, Item: name == itemVar || name == itemIDVar,
			})
		}
		at += max(1, n)
	}
	return all
}

// bringsData reports whether a name of the environment brings data. Names that the workflow gives a constant
// value bring none, nor do those of which prodigy checks that they are numbers.
func (c *compiler) bringsData(name string) bool {
	if name == itemVar || name == itemIDVar || name == producesVar {
		return true
	}
	is, ok := c.names.Lookup(name)
	if !ok || !is.Declared || is.Constant || ReservedName(name) || c.isTrusted(&expr{root: name}) {
		return false
	}
	e := c.exports[name]
	return e == nil || !e.number
}

// isTrusted reports whether a placeholder stands for a word that prodigy made itself: no one else writes it. An
// item's id is none, since it may be a field of the item.
func (c *compiler) isTrusted(e *expr) bool {
	if e.has("file") {
		return true
	}
	if len(e.steps) == 0 {
		return c.names.root("item") && check.Among("item_index item_total attempt worker", e.root)
	}
	if len(e.steps) != 1 || e.def != nil {
		return false
	}
	switch key := e.steps[0].key; e.root {
	case "map":
		return key != "results" && e.steps[0].kind == byKey
	case "job", "worker":
		return key == "id"
	case "workflow":
		return true
	}
	return check.Among("exit_code success duration_ms", e.steps[0].key) &&
		check.Among("shell claude last error", e.root)
}
