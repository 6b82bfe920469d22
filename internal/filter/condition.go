package filter

import "strings"

// Condition is an expression in the language of filters over the variables of a step. It may be used by
// several goroutines at once. A variable is written bare, as in build.success, or as ${build.success}; in a
// quoted text ${…} is a part of that text. Values are put in after the expression was read, so none can
// become a part of it.
type Condition struct {
	// Terms are the variables of the expression, in the order of the text.
	Terms []Term

	root node
}

// ParseCondition compiles a condition. An error shows the place with a caret.
//
// The whole may stand in one ${…}, as in ${a && b}: then it is the condition inside.
func ParseCondition(src string) (*Condition, error) {
	if inner, at, ok := unwrapped(src); ok {
		c, err := ParseCondition(inner)
		if err != nil {
			return nil, err
		}
		for i := range c.Terms {
			c.Terms[i].At += at
		}
		return c, nil
	}
	c := new(Condition)
	p := &parser{lexer: lexer{src: src, places: true}, terms: &c.Terms}
	err := p.parse(func() { c.root = p.whole() })
	return c, err
}

// unwrapped returns what stands inside a ${…} that is the whole of src and holds more than a placeholder can,
// and where that begins.
func unwrapped(src string) (inner string, at int, ok bool) {
	at = len(src) - len(strings.TrimLeft(src, " \t\n")) + len("${")
	inner, prefixed := strings.CutPrefix(strings.TrimSpace(src), "${")
	inner, suffixed := strings.CutSuffix(inner, "}")
	if !prefixed || !suffixed || strings.ContainsAny(inner, "{}") || strings.Contains(inner, ":-") {
		return "", 0, false
	}
	operators := strings.ReplaceAll(inner, "||", "")
	if strings.Contains(operators, "|") { // a filter
		return "", 0, false
	}
	return inner, at, operators != inner || strings.ContainsAny(inner, "&=<>!()") ||
		strings.Contains(strings.TrimSpace(inner), " ")
}

// Holds reports whether the condition is true. value returns that of a term by its index; each is asked for, whether it
// counts or not.
func (c *Condition) Holds(value func(term int) (Value, error)) (bool, error) {
	values := make([]Value, len(c.Terms))
	for i := range values {
		var err error
		if values[i], err = value(i); err != nil {
			return false, err
		}
	}
	return c.root.holds(func(path []step) (Value, bool) { return values[path[0].index], true }), nil
}

// Untyped returns the value of a text that nothing is known of, as the output of a command: where it meets
// a number or a boolean it is one, if it is spelled like one.
func Untyped(s string) Value { return Value{kind: Text, text: s, untyped: true} }
