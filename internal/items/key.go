package items

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"prodigy/internal/check"
	"prodigy/internal/filter"
)

// KeyError means that the key of an item is not a valid name.
type KeyError struct {
	Key  string // as the workflow has it
	Item string // item_<index> of the item

	// Problem continues the sentence that begins with the item: "has no key".
	Problem string
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("key %s: %s %s", e.Key, e.Item, e.Problem)
}

// maxKey is the maximum length of a key in bytes, since it is in every event about the item.
const maxKey = 512

// keys names items by a field, and checks at the end that no two have the same name. The check sorts the names, so that
// millions of them take little memory.
type keys struct {
	src  string
	path filter.Path

	// secret reports whether a text is secret. It may be nil.
	secret func(string) bool

	// given has the names, with the indexes of their items as data.
	given sorter

	// index is the buffer of an encoded index.
	index []byte
}

// id returns the text of the key of an item.
func (k *keys) id(item json.RawMessage, index int) (string, error) {
	wrong := func(format string, args ...any) error { return k.wrong(index, format, args...) }
	v, ok := k.path.In(item)
	id := v.Spelling()
	switch {
	case !ok, v.Kind() == filter.Null:
		var f Fields
		f.Add(item)
		names, _ := f.Names()
		if !ok && len(names) > 0 {
			return "", wrong("has no key; its fields are %s", check.Few(names, 5))
		}
		return "", wrong("has no key")
	case v.Kind() == filter.Array, v.Kind() == filter.Object:
		return "", wrong("has the key %s, which must be a string, a number or a boolean", kindNames[v.Kind()])
	}
	if k.secret != nil && k.secret(id) {
		return "", wrong("has a key that contains a secret, but keys are shown everywhere")
	}
	if problem := badID(id); problem != "" {
		return "", wrong("%s", problem)
	}
	k.index = binary.AppendUvarint(k.index[:0], uint64(index))
	return id, k.given.add([]byte(id), k.index)
}

func (k *keys) wrong(index int, format string, args ...any) error {
	return &KeyError{Key: k.src, Item: ID(index), Problem: fmt.Sprintf(format, args...)}
}

// check returns an error for the first item with a name that an earlier item has.
func (k *keys) check() error {
	const none = ^uint64(0)
	var last []byte
	var name string
	// Equal names come one after the other, in the order of their items: owner is the first with the name last. twice
	// is the first of all items whose name an earlier one has, first is that one, and name is what both are called.
	var owner, first, twice uint64 = 0, 0, none
	err := k.given.each(func(id, data []byte) error {
		index, _ := binary.Uvarint(data)
		switch {
		case last == nil || string(id) != string(last):
			last, owner = append(last[:0], id...), index
		case index < twice:
			first, twice, name = owner, index, string(id)
		}
		return nil
	})
	if err != nil || twice == none {
		return err
	}
	return k.wrong(int(twice), "has the same key as %s, %q", ID(int(first)), name)
}

var kindNames = [...]string{filter.Array: "an array", filter.Object: "an object"}

// badID returns why a text cannot name an item, or "". Slashes are fine, since it is never used as a file name.
func badID(id string) string {
	switch {
	case id == "":
		return "has an empty key"
	case len(id) > maxKey:
		return fmt.Sprintf("has a key of %d bytes; the maximum is %d", len(id), maxKey)
	case id[0] == '-':
		return fmt.Sprintf("has the key %q, which must not start with a dash", id)
	case !utf8.ValidString(id):
		return "has a key that is not valid UTF-8"
	}
	for _, c := range id {
		if unicode.IsControl(c) {
			return fmt.Sprintf("has the key %q, which must not contain control characters", id)
		}
	}
	if strings.TrimSpace(id) != id {
		return fmt.Sprintf("has the key %q, which must not start or end with a space", id)
	}
	return ""
}
