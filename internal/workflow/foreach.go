package workflow

import (
	"encoding/json"

	"gopkg.in/yaml.v3"
)

// Foreach is a foreach step.
type Foreach struct {
	Input    Elements `yaml:"input" alias:"foreach" json:"input"`          // what the steps are run for: a list, a command whose output is read, or a placeholder of a list; required
	Do       []Step   `yaml:"do" json:"do"`                                // the steps, run for each element; required
	As       string   `yaml:"as" json:"as,omitempty"`                      // the name of the element in the steps; default item
	Parallel int      `yaml:"parallel" json:"parallel,omitempty"`          // for how many elements the steps run at once; default 1
	Continue bool     `yaml:"continue_on_error" json:"continue,omitempty"` // a failure neither keeps other elements from being run nor fails the step; default false
	MaxItems *int     `yaml:"max_items" json:"max_items,omitempty"`        // how many elements are taken at most; default all
}

// Elements is the source of the elements of a foreach. Exactly one of its fields is set.
type Elements struct {
	List    []Element `json:"list"`
	Command *Text     `json:"command,omitempty"` // a text that is one placeholder stands for its value instead
}

// Element is one element of a list: a text, which can hold placeholders, or any other JSON.
type Element struct {
	Text *Text           `json:"text,omitempty"`
	JSON json.RawMessage `json:"json,omitempty"`
}

// ElementName returns the name that the steps use for the element.
func (f *Foreach) ElementName() string {
	if f.As != "" {
		return f.As
	}
	return "item"
}

// parallelTrue is what `parallel: true` stands for.
const parallelTrue = 10

func (r *reader) foreach(e entry) *Foreach {
	f := new(Foreach)
	keys := r.fields(f)
	keys = withReader(keys, "input", func(e entry) { set(&f.Input)(r.elements(e)) })
	keys = withReader(keys, "as", func(e entry) { set(&f.As)(r.elementName(e)) })
	keys = withReader(keys, "parallel", func(e entry) { set(&f.Parallel)(r.parallel(e)) })
	keys = withReader(keys, "max_items", func(e entry) { setPointer(&f.MaxItems)(r.atLeast(e, 0)) })
	if b := r.block("foreach", e, keys); b != nil {
		r.require(b, "input")
		r.require(b, "do")
	}
	return f
}

// elements reads a list, or a command.
func (r *reader) elements(e entry) (Elements, bool) {
	if e.value.Kind != yaml.SequenceNode {
		text, ok := r.textWithPos(e)
		return Elements{Command: &text}, ok
	}
	all := make([]Element, 0, len(e.value.Content))
	for _, n := range e.value.Content {
		n = resolveAlias(n)
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			text := r.withPos(n, n.Value)
			all = append(all, Element{Text: &text})
			continue
		}
		all = append(all, Element{JSON: r.json(nil, n)})
	}
	return Elements{List: all}, true
}

// elementName reads a name for the element. It may be item, which hides the item of the agent.
func (r *reader) elementName(e entry) (string, bool) {
	name, ok := r.text(e)
	switch {
	case !ok:
	case name == "index", name == "total":
		r.fail(e.value, "%s: %q is a name that every foreach has: choose another", e.name, name)
	case name != "item":
		r.checkName(e, name, isName, "letters, digits and underscores")
	}
	return name, ok
}

// parallel reads a number, or true for parallelTrue.
func (r *reader) parallel(e entry) (int, bool) {
	if e.value.Kind != yaml.ScalarNode || e.value.Tag != "!!bool" {
		return r.atLeast(e, 1)
	}
	if many, _ := r.boolean(e); many {
		return parallelTrue, true
	}
	return 1, true
}
