package items

import (
	"crypto/sha256"
	"encoding/json"

	"prodigy/internal/filter"
)

// fingerprint stands for a value: 128 bits of a hash of its ordered form. That two of a million different values have the same is less
// likely than one in 10^26.
type fingerprint [16]byte

func newFingerprint(form []byte) fingerprint {
	sum := sha256.Sum256(form)
	return fingerprint(sum[:16])
}

// dedup knows the values of a field that items before had. It keeps a fingerprint of each.
type dedup struct {
	path filter.Path
	seen map[fingerprint]struct{}
	form []byte
}

// isNew reports whether no item before had an equal value. What is missing is null.
func (n *dedup) isNew(item json.RawMessage) bool {
	v, _ := n.path.In(item)
	n.form = v.AppendOrdered(n.form[:0])
	f := newFingerprint(n.form)
	if _, before := n.seen[f]; before {
		return false
	}
	n.seen[f] = struct{}{}
	return true
}
