package workflow

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
)

// ParseOptions are the settings of a run that Parse depends on.
type ParseOptions struct {
	// a standard workflow is run once for each of them (--args, --map), and without any just once
	Values []string

	// where the agents work, whatever the file says (--workspace). It is empty where the file decides
	Workspace WorkspaceMode

	// cap of delays where a workflow does not name one (--max-delay, PRODIGY_MAX_DELAY), by default 30s
	MaxDelay time.Duration
}

// reader turns the nodes of a YAML document into a workflow. It continues after a problem, to report all of them.
type reader struct {
	file     string
	lines    []string // of the file, for places inside values
	options  ParseOptions
	w        *Workflow         // nil in a file of another kind
	defaults *positionedPolicy // retry_defaults, when there are any
	policy   map[string]entry  // the fields of the error policy that were written, wherever that was

	handlerKeys map[string]*yaml.Node // by name
	inTemplate  bool                  // while agent_template is read
	depth       int                   // number of steps that are being read, each inside the one before it

	problems []Problem
	warnings []Problem
}

func newReader(file string, data []byte, o ParseOptions) *reader {
	return &reader{
		file: file, lines: strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n"), options: o,
		w: &Workflow{File: file}, policy: map[string]entry{}, handlerKeys: map[string]*yaml.Node{},
	}
}

// fail records a problem at n. It returns false, for those who report whether they could read a value.
func (r *reader) fail(n *yaml.Node, format string, args ...any) bool {
	return r.failAt(posOf(n), format, args...)
}

func (r *reader) failAt(at Pos, format string, args ...any) bool {
	r.problems = append(r.problems, r.problem(at, format, args...))
	return false
}

// warn records a warning at n.
func (r *reader) warn(n *yaml.Node, format string, args ...any) { r.warnAt(posOf(n), format, args...) }

func (r *reader) warnAt(at Pos, format string, args ...any) {
	r.warnings = append(r.warnings, r.problem(at, format, args...))
}

func (r *reader) problem(at Pos, format string, args ...any) Problem {
	return Problem{File: r.file, Line: max(1, at.Line), Col: max(1, at.Col), Message: fmt.Sprintf(format, args...)}
}

// wrongType records that the value of e has the wrong type, as fail does.
func (r *reader) wrongType(e entry, want string) bool {
	return r.fail(e.value, "%s must be %s, got %s", e.name, want, describe(e.value))
}

// describe names a value in messages.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!bool":
		return n.Value
	case n.Tag == "!!int", n.Tag == "!!float":
		return "the number " + n.Value
	}
	return fmt.Sprintf("%q", shorten(n.Value))
}

func shorten(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// entry is one key of a mapping with its value, whose alias is resolved. An element of a list is an entry
// without a key.
type entry struct {
	name   string // the key as written; of an element, what messages call it
	key    *yaml.Node
	value  *yaml.Node
	merged bool // it came in through a merge key, <<
}

// with returns e with another value.
func (e entry) with(n *yaml.Node) entry {
	e.value = resolveAlias(n)
	return e
}

// resolveAlias returns n, or the node that it is an alias of.
func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// hasTag reports whether n is a scalar of this type.
func hasTag(n *yaml.Node, tag string) bool { return n.Kind == yaml.ScalarNode && n.Tag == tag }

func isNull(n *yaml.Node) bool { return hasTag(n, "!!null") }

// isScalar reports whether n is a single value, and not null.
func isScalar(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && !isNull(n) }

// find returns the value of a key of mapping n, merged keys included, or nil.
func find(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	quiet := &reader{}
	for _, e := range quiet.entries(n) {
		if e.name == name {
			return e.value
		}
	}
	return nil
}

// Pairs yields the keys and values of mapping n as they are written: neither aliases nor merge keys are followed.
func Pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content) && yield(n.Content[i], n.Content[i+1]); i += 2 {
		}
	}
}

// entries returns the keys of mapping n, its own first and then merged ones. It reports duplicate keys.
func (r *reader) entries(n *yaml.Node) []entry {
	var own []entry
	var bases []*yaml.Node
	first := map[string]*yaml.Node{}
	for at, value := range Pairs(n) {
		key, value := resolveAlias(at), resolveAlias(value)
		switch before := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.fail(at, "a key must be a string, got %s", describe(key))
		case key.Tag == "!!merge":
			bases = append(bases, value)
		case before != nil:
			r.fail(at, "key %q is set twice (first on line %d)", key.Value, before.Line)
		default:
			first[key.Value] = at
			own = append(own, entry{name: key.Value, key: at, value: value})
		}
	}
	for _, base := range bases {
		own = r.merge(own, base)
	}
	return own
}

// merge adds to entries the keys of base, a mapping or a list of mappings, that it lacks.
func (r *reader) merge(entries []entry, base *yaml.Node) []entry {
	switch base.Kind {
	case yaml.SequenceNode:
		for _, each := range base.Content {
			if each = resolveAlias(each); each.Kind != yaml.MappingNode {
				r.wrongType(entry{name: "<<", value: each}, "a mapping")
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
		r.wrongType(entry{name: "<<", value: base}, "a mapping or a list of mappings")
	}
	return entries
}

// namedEntries returns the entries of a mapping whose keys are names that the file chooses. It reports a
// value that is no mapping.
func (r *reader) namedEntries(e entry) []entry {
	if e.value.Kind != yaml.MappingNode {
		r.wrongType(e, "a mapping")
		return nil
	}
	return r.entries(e.value)
}

// byName reads a mapping whose keys are names that the file chooses. A name that is not valid is reported as wrong.
func byName[T any](r *reader, e entry, valid func(string) bool, wrong string, read func(entry) T) []T {
	var all []T
	for _, one := range r.namedEntries(e) {
		if !valid(one.name) {
			r.fail(one.key, wrong, one.name)
		}
		all = append(all, read(one))
	}
	return all
}

// key is a key that a block can have, and how its value is read.
type key struct {
	name, alias string
	read        func(entry)
}

// keySet are the keys that a block can have.
type keySet []key

// fields returns a key for each field with a yaml tag of the struct that target points to.
func (r *reader) fields(target any) keySet {
	from := reflect.ValueOf(target).Elem()
	keys := make(keySet, 0, from.NumField())
	for field, v := range from.Fields() {
		name := field.Tag.Get("yaml")
		switch {
		case name == "" && field.Anonymous:
			keys = append(keys, r.fields(v.Addr().Interface())...)
			continue
		case name == "":
			continue
		}
		keys = append(keys, key{name, field.Tag.Get("alias"), func(e entry) { r.value(e, v, field.Tag) }})
	}
	return keys
}

// find returns the key with that name or alias, or nil.
func (k keySet) find(name string) *key {
	i := slices.IndexFunc(k, func(k key) bool { return k.name == name || k.alias != "" && k.alias == name })
	if i < 0 {
		return nil
	}
	return &k[i]
}

// read makes read the reader of the key called name, which is added if it is missing.
func (k *keySet) read(name string, read func(entry)) {
	if have := k.find(name); have != nil {
		have.read = read
		return
	}
	*k = append(*k, key{name: name, read: read})
}

// block is a mapping that has been read, such as a step or a retry_config.
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

// at returns the value of a key for the position of a message, or the block itself.
func (b *block) at(name string) *yaml.Node {
	if e, ok := b.written[name]; ok {
		return e.value
	}
	return b.node
}

// block reads the value of e key by key. It returns nil if that is no mapping.
func (r *reader) block(name string, e entry, keys keySet) *block {
	if e.value.Kind != yaml.MappingNode {
		r.wrongType(e, "a mapping")
		return nil
	}
	b := &block{name: name, node: e.value, written: map[string]entry{}}
	for _, e := range r.entries(e.value) {
		r.readKey(b, e, keys)
	}
	return b
}

// readKey reads one key of a block.
func (r *reader) readKey(b *block, e entry, keys keySet) {
	k := keys.find(e.name)
	if k == nil {
		r.unknown(b, e, keys)
		return
	}
	switch before, twice := b.written[k.name]; {
	case twice && e.merged:
	case twice:
		r.fail(e.key, "%q and %q are the same key of %s (also on line %d)", e.name, before.name, b.name,
			before.key.Line)
	default:
		b.written[k.name] = e
		k.read(e)
	}
}

// unknown reports a key that is not among keys.
func (r *reader) unknown(b *block, e entry, keys keySet) {
	if instead := inTable(removedKeys, b.name, e.name); instead != "" {
		b.guessed = append(b.guessed, e.name, "shell", "file", "value") // some stand for a command or a value
		r.fail(e.key, "%q is not supported: %s", e.name, instead)
		return
	}
	var words []string
	for _, k := range keys {
		words = append(words, k.name)
		if k.alias != "" {
			words = append(words, k.alias)
		}
	}
	if r.w == nil {
		r.fail(e.key, "unknown key %q in %s%s", e.name, b.name, hint(e.name, words))
		return
	}
	guess := cmp.Or(inTable(otherKeys, b.name, e.name), check.Nearest(e.name, words))
	if guess == "" {
		r.fail(e.key, "unknown key %q in %s%s", e.name, b.name, misplacedKey(e.name, b.name))
		return
	}
	b.guessed = append(b.guessed, guess)
	r.fail(e.key, "unknown key %q in %s (did you mean %q?)", e.name, b.name, guess)
	r.readGuess(b, e, keys, guess)
}

// readGuess reads the value of an unknown key as that of the key that was probably meant, so that what it
// declares is known to the rest of the file. It reports no problems of the value, since the guess may be
// wrong.
func (r *reader) readGuess(b *block, e entry, keys keySet, guess string) {
	k := keys.find(guess)
	if k == nil || find(b.node, k.name) != nil || k.alias != "" && find(b.node, k.alias) != nil {
		return
	}
	problems, warnings := r.problems, r.warnings
	k.read(e)
	r.problems, r.warnings = problems, warnings
}

// refuse reports a key of b that is written when it must not be.
func (r *reader) refuse(b *block, name string, when bool, format string, args ...any) {
	if e, ok := b.written[name]; ok && when {
		r.fail(e.key, format, args...)
	}
}

// require reports that b has none of the keys, unless an unknown key probably meant one of them.
func (r *reader) require(b *block, names ...string) {
	found := func(name string) bool { return b.has(name) || slices.Contains(b.guessed, name) }
	if slices.ContainsFunc(names, found) {
		return
	}
	if len(names) == 1 {
		r.fail(b.node, "key %q is required in %s", names[0], b.name)
		return
	}
	r.fail(b.node, "%s needs one of %s", b.name, check.OneOf(check.Each(names, strconv.Quote)))
}

// atMostOne reports that b has several of the keys.
func (r *reader) atMostOne(b *block, names []string) {
	names = slices.DeleteFunc(names, func(name string) bool { return !b.has(name) })
	if len(names) > 1 {
		r.fail(b.node, "%s: use either %s", b.name, check.OneOf(check.Each(names, strconv.Quote)))
	}
}
