// Package mask takes secrets out of what is written or printed.
//
// A secret is found by reading: each character of a text is taken for all that the encodings in use make of it,
// and what that comes to is held against the secrets. So an encoding that escapes characters needs no list of
// what it makes of a secret, and may change in the middle. Digits that stand for bits (base64, base32,
// hexadecimal) are read in the same way, one by one.
package mask

import (
	"slices"
	"sync"
)

// Mark is what stands for a secret.
const Mark = "***"

// Masker knows secrets. It does not change and is safe for concurrent use, and the nil Masker knows none.
type Masker struct {
	starts [256][]start    // by the first byte
	pairs  [1 << 10]uint64 // two bytes that can begin a form, a bit each
	walks  sync.Pool
}

// start is a form and the bytes that can be the second of a text which begins with one of its spellings.
type start struct {
	form   *form
	second [4]uint64 // a bit for each
}

// New returns a Masker of these secrets; empty ones do not count.
func New(secrets []string) *Masker {
	if !slices.ContainsFunc(secrets, func(s string) bool { return s != "" }) {
		return nil
	}
	seen := map[string]bool{"": true}
	m := new(Masker)
	m.walks.New = func() any { return new(walk) }
	w := m.walks.Get().(*walk) // not on the stack: it would grow for every caller without secrets as well
	defer m.walks.Put(w)
	all := notations()
	for _, secret := range secrets {
		if seen[secret] {
			continue
		}
		seen[secret] = true
		for _, f := range formsOf(secret, all) {
			m.add(f, w)
		}
	}
	return m
}

// add asks f itself with which bytes its spellings can begin.
func (m *Masker) add(f *form, w *walk) {
	bytes := 256
	if f.kind == asDigits {
		bytes = 128 // all that they are written with
	}
	var text [2]byte
	for first := range bytes {
		text[0] = byte(first)
		if length, undecided := f.match(w, text[:1], true); length == 0 && !undecided {
			continue
		}
		s := start{form: f}
		for second := range bytes {
			text[1] = byte(second)
			if length, undecided := f.match(w, text[:], true); length > 0 || undecided {
				s.second[second/64] |= 1 << (second % 64)
			}
		}
		m.starts[first] = append(m.starts[first], s)
		for i, bits := range s.second {
			m.pairs[4*first+i] |= bits
		}
	}
}

// begins reports whether a secret may begin with the first bytes of b.
func (m *Masker) begins(b []byte) bool {
	if len(b) < 2 {
		return len(m.starts[b[0]]) > 0
	}
	pair := uint(b[0])<<8 | uint(b[1])
	return m.pairs[pair/64]&(1<<(pair%64)) != 0
}

// skip returns how many bytes at the start of b begin no secret. It stops in front of the last prefix, which may go on.
func (m *Masker) skip(w *walk, b []byte) (n int) {
	for ; n+prefixLen < len(b); n++ {
		if !m.begins(b[n:]) {
			continue
		}
		slot, key := w.harmless.slot(b[n:])
		if *slot == key {
			continue
		}
		if length, undecided := m.at(w, 0, b[n:n+prefixLen], true); length > 0 || undecided {
			break
		}
		*slot = key
	}
	return n
}

// Short reports whether a secret is so short that it is only found as a whole word.
func Short(secret string) bool { return len(secret) < leastSecret }

// at returns how long the longest secret is that b begins with, where the byte before stands in front of it. It
// is undecided when more bytes could make one, or a longer one, and there may be more.
func (m *Masker) at(w *walk, before byte, b []byte, more bool) (length int, undecided bool) {
	for i := range m.starts[b[0]] {
		s := &m.starts[b[0]][i]
		if len(b) > 1 && s.second[b[1]/64]&(1<<(b[1]%64)) == 0 || s.form.kind == asWord && isWord(before) {
			continue
		}
		n, undecided := s.form.match(w, b, more)
		if undecided {
			return 0, true
		}
		length = max(length, n)
	}
	return length, false
}
