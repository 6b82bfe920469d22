package items

import (
	"encoding/json"
	"errors"

	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// yaml takes YAML documents as JSON. The elements of a document that stands alone and is a list are items, else each document is
// one; a document that holds nothing is none. With a path, it is evaluated on each document.
func (f *feed) yaml(p path, take func([]byte) error) error {
	take = p.on(take)
	var first json.RawMessage
	count := 0
	err := workflow.Documents(f, func(document json.RawMessage) error {
		if string(document) == "null" {
			return nil
		}
		switch count++; count {
		case 1:
			first = document
			return nil
		case 2:
			if err := take(first); err != nil {
				return err
			}
		}
		return take(document)
	})
	switch {
	case f.failure() != nil && !errors.Is(err, errEnough):
		return f.failure()
	case err != nil || count != 1:
		return err
	case p.empty() && first[0] == '[':
		for element := range rawjson.Elements(first) {
			if err := take(element); err != nil {
				return err
			}
		}
		return nil
	}
	return take(first)
}
