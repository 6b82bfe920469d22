package items

import "crypto/sha256"

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

// isNew reports whether no item before had an equal value. What is missing is null.
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
