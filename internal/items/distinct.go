package items

import (
	"crypto/sha256"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// fingerprint stands for a value: 128 bits of a hash of its ordered form. That two of a million different values have the same is less
// likely than one in 10^26.
type fingerprint [16]byte

func newFingerprint(form []byte) fingerprint {
	sum := sha256.Sum256(form)
	return fingerprint(sum[:16])
}

// novelty tells which values of a field are new. It keeps a fingerprint of each.
type novelty struct {
	path []step
	seen map[fingerprint]struct{}
	form []byte
}

// isNew tells whether no item before had an equal value. What is missing is null.
func (n *novelty) isNew(item value) bool {
	v, _ := inItem(item)(n.path)
	n.form = appendOrdered(n.form[:0], v)
	f := newFingerprint(n.form)
	if _, before := n.seen[f]; before {
		return false
	}
	n.seen[f] = struct{}{}
	return true
}

// KeyError says that the key of a map phase is no name for an item.
type KeyError struct {
	Key     string // as the workflow has it
	Item    string // item_<index> of the item
	Problem string
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("key %s: %s %s", e.Key, e.Item, e.Problem)
}

// maxKey is how long the text of a key may be, in bytes: it is part of every event about the item.
const maxKey = 512

// keys names items by a field, and sees to it that each name is given once.
type keys struct {
	src   string
	path  []step
	given map[fingerprint]int32 // the index of the item that has it
}

// id returns the text of the key of an item.
func (k *keys) id(item value, index int) (string, error) {
	wrong := func(format string, args ...any) error {
		return &KeyError{Key: k.src, Item: itemID(index), Problem: fmt.Sprintf(format, args...)}
	}
	v, ok := inItem(item)(k.path)
	id := v.text
	switch {
	case !ok, v.kind == null:
		return "", wrong("has none")
	case v.kind == array, v.kind == objectKind:
		return "", wrong("has %s, and only a text, a number or a boolean is the name of an item", kindNames[v.kind])
	case v.kind == boolean:
		id = fmt.Sprint(v.yes)
	}
	if problem := badID(id); problem != "" {
		return "", wrong("%s", problem)
	}
	f := newFingerprint([]byte(id))
	if before, taken := k.given[f]; taken {
		return "", wrong("has %q, as %s has", id, itemID(int(before)))
	}
	k.given[f] = int32(index)
	return id, nil
}

var kindNames = map[kind]string{array: "an array", objectKind: "an object"}

// badID says why a text cannot name an item, or nothing. Slashes are fine: nothing makes a file name of it.
func badID(id string) string {
	switch {
	case id == "":
		return "has an empty one"
	case len(id) > maxKey:
		return fmt.Sprintf("has one of %d bytes, and more than %d are too long", len(id), maxKey)
	case !utf8.ValidString(id):
		return "has one that is not UTF-8"
	}
	for _, c := range id {
		if unicode.IsControl(c) {
			return fmt.Sprintf("has %q, and a name is one line without control characters", id)
		}
	}
	if first, _ := utf8.DecodeRuneInString(id); unicode.IsSpace(first) {
		return fmt.Sprintf("has %q, and a name does not begin or end with a blank", id)
	}
	if last, _ := utf8.DecodeLastRuneInString(id); unicode.IsSpace(last) {
		return fmt.Sprintf("has %q, and a name does not begin or end with a blank", id)
	}
	return ""
}
