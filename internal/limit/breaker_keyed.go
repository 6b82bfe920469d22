package limit

import "time"

// KeyedBreaker is a breaker for each of any number of keys: what is done for one key says nothing of the
// others. A key that nothing is known of has a closed breaker. It is not safe for concurrent use.
//
// Only keys are remembered that are not closed, have failed since their last success, or have a start without
// an outcome. When these become too many, further ones stay closed.
type KeyedBreaker struct {
	config BreakerConfig
	keyedMemory
}

// keyedMemory is what a KeyedBreaker remembers.
type keyedMemory struct {
	Keys map[string]keyMemory `json:"keys,omitempty"`
}

// keyMemory is what is remembered of one key.
type keyMemory struct {
	Breaker breakerMemory `json:"breaker"`
	Flying  int           `json:"flying,omitempty"` // starts without an outcome
}

// NewKeyedBreaker returns breakers that are all closed.
func NewKeyedBreaker(c BreakerConfig) *KeyedBreaker { return &KeyedBreaker{config: c} }

// Len returns the number of keys that are remembered.
func (k *KeyedBreaker) Len() int { return len(k.Keys) }

// Admit returns whether a start of a key would be admitted at now. It changes nothing.
func (k *KeyedBreaker) Admit(key string, now time.Time) Admission {
	return k.of(k.Keys[key]).Admit(now)
}

// of returns the breaker of a key. What it remembers from then on is put back by the caller.
func (k *KeyedBreaker) of(one keyMemory) *Breaker {
	return &Breaker{k.config, one.Breaker}
}

// Start is Breaker.Start for a key.
func (k *KeyedBreaker) Start(key string) (t Ticket, changes []Transition) {
	changes = k.change(key, func(b *Breaker, one *keyMemory) (changes []Transition) {
		one.Flying++
		t, changes = b.Start()
		return changes
	})
	t.Key = key
	return t, changes
}

// End is Breaker.End for the key of t.
func (k *KeyedBreaker) End(t Ticket, success bool, now time.Time) []Transition {
	return k.end(t, func(b *Breaker) []Transition { return b.End(t, success, now) })
}

// Release is Breaker.Release for the key of t.
func (k *KeyedBreaker) Release(t Ticket) {
	k.end(t, func(b *Breaker) []Transition { b.Release(t); return nil })
}

// end gives a start its outcome. A ticket that no start has returned is ignored.
func (k *KeyedBreaker) end(t Ticket, outcome func(*Breaker) []Transition) []Transition {
	if k.Keys[t.Key].Flying == 0 {
		return nil
	}
	return k.change(t.Key, func(b *Breaker, one *keyMemory) []Transition {
		one.Flying--
		return outcome(b)
	})
}

// change applies one change to a key, and forgets the key if there is nothing to remember any more.
func (k *KeyedBreaker) change(key string, apply func(*Breaker, *keyMemory) []Transition) []Transition {
	one, known := k.Keys[key]
	b := k.of(one)
	changes := apply(b, &one)
	for i := range changes {
		changes[i].Key = key
	}
	if one.Breaker = b.breakerMemory; one.Flying == 0 && b.State == Closed && b.Failures == 0 {
		delete(k.Keys, key)
		return changes
	}
	if !known && len(k.Keys) >= maxKeys {
		return changes
	}
	if k.Keys == nil {
		k.Keys = map[string]keyMemory{}
	}
	k.Keys[key] = one
	return changes
}
