package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"prodigy/internal/rawjson"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// itemText returns a text for an item. The text may name the item only, since it must not change from run to run.
type itemText func(id string, item json.RawMessage) (string, error)

func compileItemText(text workflow.Text) (itemText, error) {
	names := template.Names{}.With("item", anyItem).With("item_id", template.Name{Declared: true, Data: true})
	compiled, err := template.CompilePlain(text.Value, names)
	return func(id string, item json.RawMessage) (string, error) { return compiled.Bind(labelled{id, item}) }, err
}

// Labels returns what names items for people: by the label of the map phase, else by what an item is or by one
// of its usual fields. The data of the item is as it may be shown. The label is "" if the item has no label, or none
// but the id. A nil m has no label.
func Labels(m *workflow.Map) func(id string, item json.RawMessage) string {
	given := func(string, json.RawMessage) string { return "" }
	if m != nil {
		if of, err := Keys(m.Label); err == nil { // Check has refused a wrong one
			given = of
		}
	}
	return func(id string, item json.RawMessage) string {
		label := cmp.Or(given(id, item), guessedLabel(item))
		if label = strings.TrimSpace(label); label == id {
			return ""
		}
		return label
	}
}

// labelled resolves the names of a label.
type labelled struct {
	id   string
	item json.RawMessage
}

func (l labelled) Resolve(root string) (template.Value, bool) {
	switch root {
	case "item":
		return template.JSON(l.item), true
	case "item_id":
		return template.Text(l.id), true
	}
	return template.Value{}, false
}

// guessedLabel returns the text or number that an item is, or that it has in the first of the usual fields.
func guessedLabel(item json.RawMessage) string {
	if label := labelText(item); label != "" || len(item) == 0 || item[0] != '{' {
		return label
	}
	for field := range strings.FieldsSeq("name id path title file") {
		if value := rawjson.Member(item, field); value != nil && value[0] != '{' && value[0] != '[' {
			if label := labelText(value); label != "" {
				return label
			}
		}
	}
	return ""
}

// labelText returns a text or number as text.
func labelText(value json.RawMessage) string {
	switch {
	case len(value) == 0:
		return ""
	case value[0] == '"':
		return rawjson.Unquote(value)
	case value[0] == '-' || '0' <= value[0] && value[0] <= '9':
		return string(value)
	}
	return ""
}

// Keys compiles a text that says which items have something in common, such as a limit. An item for which it
// cannot be told has the key "".
func Keys(text workflow.Text) (func(id string, item json.RawMessage) string, error) {
	compiled, err := compileItemText(text)
	if err != nil {
		return nil, err
	}
	return func(id string, item json.RawMessage) string {
		key, _ := compiled(id, item) // empty with an error
		return key
	}, nil
}

// Paths compiles texts that each stand for a path and may name the item. The error is of the first that is
// wrong; Check has refused it.
func Paths(texts []workflow.Text) (func(id string, item json.RawMessage) ([]string, error), error) {
	all := make([]itemText, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = compileItemText(text); err != nil {
			return nil, err
		}
	}
	return func(id string, item json.RawMessage) ([]string, error) {
		paths := make([]string, len(all))
		for i, text := range all {
			var err error
			if paths[i], err = text(id, item); err != nil {
				return nil, fmt.Errorf("%s: %w", texts[i].Value, err)
			}
		}
		return paths, nil
	}, nil
}
