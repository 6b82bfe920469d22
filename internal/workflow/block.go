package workflow

import (
	"cmp"
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"

	"prodigy/internal/spelling"
)

// entry is one key of a mapping with its value, whose alias is followed. An element of a list is an entry without a key.
type entry struct {
	name   string // the key as written; of an element, what messages call it
	key    *yaml.Node
	value  *yaml.Node
	merged bool // it came in through a merge key, <<
}

// with returns e with another value.
func (e entry) with(n *yaml.Node) entry {
	e.value = follow(n)
	return e
}

// entries returns the keys of mapping n, its own first and then those that it merges in. Doubled keys are reported.
func (r *reader) entries(n *yaml.Node) []entry {
	var own []entry
	var bases []*yaml.Node
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := follow(n.Content[i]), follow(n.Content[i+1])
		switch before := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.fail(n.Content[i], "a key must be text, got %s", describe(key))
		case key.Tag == "!!merge":
			bases = append(bases, value)
		case before != nil:
			r.fail(n.Content[i], "key %q is written twice (first in line %d)", key.Value, before.Line)
		default:
			first[key.Value] = n.Content[i]
			own = append(own, entry{name: key.Value, key: n.Content[i], value: value})
		}
	}
	for _, base := range bases {
		own = r.merge(own, base)
	}
	return own
}

// members returns the entries of e's value, a mapping by names that the file chooses. It tells when it is none.
func (r *reader) members(e entry) []entry {
	if e.value.Kind != yaml.MappingNode {
		r.wrong(e, "a mapping")
		return nil
	}
	return r.entries(e.value)
}

// merge adds the keys of base, or of each mapping in the list base, that entries lacks.
func (r *reader) merge(entries []entry, base *yaml.Node) []entry {
	switch base.Kind {
	case yaml.SequenceNode:
		for _, each := range base.Content {
			if each = follow(each); each.Kind != yaml.MappingNode {
				r.wrong(entry{name: "<<", value: each}, "a mapping")
				continue
			}
			entries = r.merge(entries, each)
		}
	case yaml.MappingNode:
		for _, e := range r.entries(base) {
			e.merged = true
			if !slices.ContainsFunc(entries, func(have entry) bool { return have.name == e.name }) {
				entries = append(entries, e)
			}
		}
	default:
		r.wrong(entry{name: "<<", value: base}, "a mapping or a list of mappings")
	}
	return entries
}

// key is what a mapping may hold under one name, and how it is read.
type key struct {
	name, alias string
	read        func(entry)
}

// fields returns the keys of the struct that target points to, as its tags yaml and alias name them. The tag
// unit:"seconds" marks a timeout, which can be written as a bare number.
func (r *reader) fields(target any) []key {
	from := reflect.ValueOf(target).Elem()
	keys := make([]key, 0, from.NumField())
	for field, v := range from.Fields() {
		name := field.Tag.Get("yaml")
		if name == "" {
			continue
		}
		timeout := field.Tag.Get("unit") == "seconds"
		keys = append(keys, key{name, field.Tag.Get("alias"), func(e entry) { r.value(e, v.Addr().Interface(), timeout) }})
	}
	return keys
}

// reading returns keys with another way to read the one called name, which is added when it is not there.
func reading(keys []key, name string, read func(entry)) []key {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return append(keys, key{name: name, read: read})
	}
	keys[i].read = read
	return keys
}

// block is a mapping that has been read.
type block struct {
	name    string // what messages call it
	node    *yaml.Node
	written map[string]entry // by the key's own name, also where its alias was used
	guessed []string         // keys that were probably meant by unknown ones, so that they are not missed as well
}

func (b *block) has(name string) bool {
	_, ok := b.written[name]
	return ok
}

// at returns where the value of a key was written, or the block itself.
func (b *block) at(name string) *yaml.Node {
	if e, ok := b.written[name]; ok {
		return e.value
	}
	return b.node
}

// block reads e's value, a mapping, key by key. It returns nil when it is none.
func (r *reader) block(name string, e entry, keys []key) *block {
	if e.value.Kind != yaml.MappingNode {
		r.wrong(e, "a mapping")
		return nil
	}
	b := &block{name: name, node: e.value, written: map[string]entry{}}
	for _, e := range r.entries(e.value) {
		r.take(b, e, keys)
	}
	return b
}

// take reads one key of a block.
func (r *reader) take(b *block, e entry, keys []key) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == e.name || k.alias != "" && k.alias == e.name })
	if i < 0 {
		r.unknown(b, e, keys)
		return
	}
	k := keys[i]
	switch before, twice := b.written[k.name]; {
	case twice && e.merged:
	case twice:
		r.fail(e.key, "%q and %q are the same key of %s (the other is in line %d)", e.name, before.name, b.name, before.key.Line)
	default:
		b.written[k.name] = e
		k.read(e)
	}
}

// unknown reports a key that is not among keys.
func (r *reader) unknown(b *block, e entry, keys []key) {
	if instead, ok := retired()[b.name][e.name]; ok {
		b.guessed = append(b.guessed, e.name, "shell") // some stand for a command
		r.fail(e.key, "%q is a key of the older tool: %s", e.name, instead)
		return
	}
	var words []string
	for _, k := range keys {
		words = append(words, k.name)
		if k.alias != "" {
			words = append(words, k.alias)
		}
	}
	guess := cmp.Or(borrowed()[b.name][e.name], spelling.Nearest(e.name, words))
	if guess == "" {
		r.fail(e.key, "unknown key %q in %s%s", e.name, b.name, belongs(e.name, b.name))
		return
	}
	b.guessed = append(b.guessed, guess)
	r.fail(e.key, "unknown key %q in %s (did you mean %q?)", e.name, b.name, guess)
	r.readGuess(b, e, keys, guess)
}

// readGuess reads the value of an unknown key as that of the key that was probably meant, so that what it names is known to the rest of
// the file. What is wrong with it is not told: the guess may be.
func (r *reader) readGuess(b *block, e entry, keys []key, guess string) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == guess || k.alias == guess })
	if i < 0 || find(b.node, keys[i].name) != nil || keys[i].alias != "" && find(b.node, keys[i].alias) != nil {
		return
	}
	problems, warnings := r.problems, r.warnings
	keys[i].read(e)
	r.problems, r.warnings = problems, warnings
}

// require reports that none of the names is written in b, unless one was probably meant.
func (r *reader) require(b *block, names ...string) {
	found := func(name string) bool { return b.has(name) || slices.Contains(b.guessed, name) }
	if slices.ContainsFunc(names, found) {
		return
	}
	if len(names) == 1 {
		r.fail(b.node, "missing key %q in %s", names[0], b.name)
		return
	}
	r.fail(b.node, "%s needs one of %s", b.name, oneOf(quoted(names)))
}
