package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
	"prodigy/internal/shell"
)

// Types read themselves, in this order; a pointer is read as what it points to.

// ownForms is a value that has several forms, or depends on where it stands. read returns false for
// anything else, after it has told why.
type ownForms interface{ read(r *reader, e entry) bool }

// fromText is a value that is written as one text, such as 40/s, or a map or list that may be. The reader puts the name
// of the key before an error, unless that is a check.Sentence. If ReadText refuses an empty text with a check.Want, a
// value that is not a text is refused with the same error.
type fromText interface{ ReadText(text string) error }

// Any other struct is a block. Its keys are its fields with a tag yaml. More tags say what holds of a key that is
// written:
//
//	alias:"name"      another name of the key
//	required:"true"   it must be there
//	required:"one"    one of the keys with this must be there, and no more than one
//	required:"some"   at least one of the keys with this must be there
//	short:"true"      a value that is no mapping stands for this key alone
//	unit:"seconds"    a duration that may be a number of seconds, and is more than 0
//	least:"1"         a number that is not less
//	above:"0"         a number that is more
//	range:"0 100"     a number that is neither less nor more
//	text:"filled"     a text that is not blank; a Text never is, but with text:"any"
//	text:"constant"   a text that is not blank and has no placeholders
//	text:"revision"   the name of a commit or of a branch
//	text:"id"         a name, which may hold dashes
//	text:"name"       a name
//	list:"strings"      a list, and no single value in its place
//	empty:"why not"   what is wrong with a list without elements; {words} stands for those of the enum
//	element:"a case"  what messages call an element of a list
//	words:"a b"       the words of an enum
//	case:"any"        the words of an enum in any style of names: per_agent, PerAgent, per-agent or PER_AGENT
//
// A field Pos of type Pos gets the position of the block.

// defaulted is a block whose keys have values before any is written.
type defaulted interface{ SetDefaults() }

// checked is a block that knows what is wrong with it. It cannot tell a key that is absent from one that is zero.
type checked interface{ Check(found *check.Findings) }

// value reads e into target, a field with these tags. It reports whether it could. Else the problem is recorded, and
// target is unchanged.
func (r *reader) value(e entry, target reflect.Value, tag reflect.StructTag) bool {
	v := reflect.New(target.Type())
	v.Elem().Set(target)
	ok, known := r.grammar(e, v.Interface())
	switch {
	case known:
	case target.Kind() == reflect.Pointer:
		v.Elem().Set(reflect.New(target.Type().Elem()))
		ok = r.value(e, v.Elem().Elem(), tag)
	default:
		ok = r.ownValue(e, v.Interface(), tag)
	}
	if ok {
		target.Set(v.Elem())
	}
	return ok
}

// grammar reads what is no plain value: steps, types with forms of their own, and names that the file chooses. It
// reports known: false for all other types.
func (r *reader) grammar(e entry, target any) (ok, known bool) {
	ok = true
	switch t := target.(type) {
	case ownForms:
		ok = t.read(r, e)
	case *[]Step:
		*t = r.steps(e)
	case *[]EnvVar:
		*t = r.variables(r.namedEntries(e))
	case *[]Profile:
		*t = byName(r, e, isLabel, notAProfile, r.profile)
	case *[]Secret:
		*t = byName(r, e, shell.IsName, notAVariable, r.secret)
	case *[]Parameter:
		*t = r.params(e)
	case *[]json.RawMessage:
		if e.value.Kind != yaml.SequenceNode {
			r.wrongType(e, "a list")
			return false, true
		}
		*t = r.items(e)
	case *map[string][]Step:
		*t = r.handlers(e)
	case *errorpolicy.Policy:
		r.errorPolicy(e)
		return false, true // it has been read into the policy of the workflow, key by key
	case *errorpolicy.Collection:
		if known = e.value.Kind == yaml.MappingNode; known {
			ok = r.batched(e, t)
		}
		return ok, known
	case *retry.Policy:
		*t, ok = r.itemRetry(e)
	case *retry.Backoff:
		*t, ok = r.backoff(e)
	case **retry.After:
		*t, ok = r.retryAfter(e)
	case *retry.Matcher:
		if known = e.value.Kind == yaml.MappingNode; known {
			*t, ok = r.matcher(e)
		}
		return ok, known
	case *retry.FailureAction:
		*t, ok = r.failureAction(e)
	case *limit.BreakerConfig:
		*t, ok = r.breaker(e)
	default:
		return false, false
	}
	return ok, true
}

// ownValue reads e as the type of target, which is a pointer, and its tags say.
func (r *reader) ownValue(e entry, target any, tag reflect.StructTag) (ok bool) {
	v := reflect.ValueOf(target).Elem()
	switch t := target.(type) {
	case *Text:
		if tag.Get("text") != "any" {
			*t, ok = r.filledText(e)
			return ok
		}
		text, ok := r.text(e)
		*t = r.withPos(e.value, text)
		return ok
	case *time.Duration:
		*t, ok = r.duration(e, tag.Get("unit") == "seconds")
		return ok
	case *limit.USD:
		f, ok := r.number(e)
		if !ok {
			return false
		}
		var err error
		if *t, err = limit.LimitOf(f); err != nil {
			r.fail(e.value, "%s: %v", e.name, err)
		}
		return err == nil
	case fromText:
		many := v.Kind() == reflect.Map || v.Kind() == reflect.Slice
		if !many || e.value.Kind == yaml.ScalarNode {
			return r.fromText(e, t)
		}
	}
	switch v.Kind() {
	case reflect.String:
		if words := tag.Get("words"); words != "" {
			return r.enum(e, v, strings.Fields(words), tag)
		}
		var text string
		text, ok = r.string(e, tag.Get("text"))
		v.SetString(text)
	case reflect.Bool:
		var is bool
		is, ok = r.boolean(e)
		v.SetBool(is)
	case reflect.Int:
		var n int
		n, ok = r.integer(e)
		v.SetInt(int64(n))
		ok = ok && r.bounded(e, float64(n), tag)
	case reflect.Float64:
		var f float64
		f, ok = r.number(e)
		v.SetFloat(f)
		ok = ok && r.bounded(e, f, tag)
	case reflect.Slice:
		return r.list(e, v, tag)
	case reflect.Map:
		v.Set(reflect.ValueOf(r.texts(e)).Convert(v.Type()))
		return true
	case reflect.Struct:
		return r.read(e, target)
	default:
		panic(fmt.Sprintf("BUG: no way to read a %T", target))
	}
	return ok
}

// enum reads one of a few words.
func (r *reader) enum(e entry, v reflect.Value, words []string, tag reflect.StructTag) bool {
	written := check.Fold(e.value.Value)
	for _, word := range words {
		if tag.Get("case") == "any" && check.Fold(word) == written {
			v.SetString(word)
			return true
		}
	}
	word, ok := r.oneOf(e, words)
	v.SetString(word)
	return ok
}

// texts reads a mapping of names to texts. A list or a mapping is written as JSON; an empty list in place of the whole
// has no names.
func (r *reader) texts(e entry) map[string]string {
	all := map[string]string{}
	if e.value.Kind == yaml.SequenceNode && len(e.value.Content) == 0 {
		return all
	}
	for _, one := range r.namedEntries(e) {
		all[one.name] = one.value.Value
		if one.value.Kind != yaml.ScalarNode {
			all[one.name] = string(r.json(nil, one.value))
		}
	}
	return all
}

func (r *reader) fromText(e entry, target fromText) bool {
	if !isScalar(e.value) {
		want, _ := errors.AsType[check.Want](target.ReadText(""))
		return r.wrongType(e, cmp.Or(string(want), "a string"))
	}
	text, ok := r.text(e)
	if !ok {
		return false
	}
	if e.value.Tag == "!!bool" && target.ReadText(strings.ToLower(text)) == nil { // YAML writes true as True as well
		return true
	}
	err := target.ReadText(text)
	if want, is := errors.AsType[check.Want](err); is {
		return r.wrongType(e, string(want))
	}
	if whole, is := errors.AsType[check.Sentence](err); is {
		return r.fail(e.value, "%s", whole)
	}
	switch {
	case err == nil:
		return true
	case strings.TrimSpace(text) == "":
		return r.fail(e.value, "%s is empty", e.name)
	}
	return r.fail(e.value, "%s: %v", e.name, err)
}

// string reads a text of one of the kinds of the tag text.
func (r *reader) string(e entry, kind string) (string, bool) {
	switch kind {
	case "filled":
		return r.nonBlank(e)
	case "constant":
		text, ok := r.nonBlank(e)
		return text, ok && r.constant(e, text)
	case "revision":
		return r.revision(e)
	}
	text, ok := r.text(e)
	switch kind {
	case "id":
		r.checkName(e, text, isLabel, "letters, digits, underscores and dashes")
	case "name":
		r.checkName(e, text, shell.IsName, "letters, digits and underscores")
	}
	return text, ok
}

// bounded reports a number that its tags do not allow.
func (r *reader) bounded(e entry, n float64, tag reflect.StructTag) bool {
	number := func(text string) float64 { return check.Must(strconv.ParseFloat(text, 64)) }
	if text := tag.Get("least"); text != "" && n < number(text) {
		return r.fail(e.value, "%s must be at least %s, got %s", e.name, text, e.value.Value)
	}
	if text := tag.Get("above"); text != "" && n <= number(text) {
		return r.fail(e.value, "%s must be more than %s", e.name, text)
	}
	if least, most, ok := strings.Cut(tag.Get("range"), " "); ok && !(n >= number(least) && n <= number(most)) {
		return r.fail(e.value, "%s must be between %s and %s, got %s", e.name, least, most, e.value.Value)
	}
	return true
}

// list reads a list, or with no tag list also a single value in its place. Elements that cannot be read are left out.
func (r *reader) list(e entry, target reflect.Value, tag reflect.StructTag) bool {
	nodes, of := []*yaml.Node{e.value}, tag.Get("list")
	switch {
	case e.value.Kind == yaml.SequenceNode:
		nodes = e.value.Content
	case of != "":
		return r.wrongType(e, "a list of "+of)
	}
	if empty := tag.Get("empty"); empty != "" && len(nodes) == 0 {
		words := strings.Join(strings.Fields(tag.Get("words")), ", ")
		r.fail(e.value, "%s", strings.Replace(empty, "{words}", words, 1))
	}
	all, valid := reflect.MakeSlice(target.Type(), 0, len(nodes)), true
	e.name = cmp.Or(tag.Get("element"), e.name)
	for _, n := range nodes {
		element := reflect.New(target.Type().Elem()).Elem()
		if !r.value(e.with(n), element, tag) {
			valid = false
			continue
		}
		all = reflect.Append(all, element)
	}
	target.Set(all)
	return valid || of == ""
}

// read reads a block into target, a pointer to its struct. It reports whether the value has the form of the block.
func (r *reader) read(e entry, target any) bool {
	return r.readWith(e, target, r.fields(target)) != nil
}

// readWith is read with other keys than those of the struct alone. It returns nil for what is no block.
func (r *reader) readWith(e entry, target any, keys keySet) *block {
	v := reflect.ValueOf(target).Elem()
	if pos := v.FieldByName("Pos"); pos.IsValid() {
		pos.Set(reflect.ValueOf(posOf(e.value)))
	}
	if t, ok := target.(defaulted); ok {
		t.SetDefaults()
	}
	b := &block{name: e.name, node: e.value}
	fields := slices.Collect(v.Type().Fields())
	short := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("short") != "" })
	if short >= 0 && e.value.Kind != yaml.MappingNode {
		if !r.value(e, v.Field(short), fields[short].Tag) {
			return nil
		}
	} else if b = r.block(e.name, e, keys); b == nil || !r.complete(b, v.Type()) {
		return b
	}
	if t, ok := target.(checked); ok {
		var found check.Findings
		t.Check(&found)
		for _, f := range found {
			key, rest, _ := strings.Cut(f.Field, ".")
			r.fail(descend(b.at(key), rest), "%s", f.Message)
		}
	}
	return b
}

// complete reports keys that are missing in b, or exclude each other. It returns false if a key is missing
// that must be there.
func (r *reader) complete(b *block, t reflect.Type) bool {
	before := len(r.problems)
	some := map[string][]string{}
	for field := range t.Fields() {
		name := field.Tag.Get("yaml")
		switch how := field.Tag.Get("required"); how {
		case "":
		case "true":
			r.require(b, name)
		default:
			some[how] = append(some[how], name)
		}
	}
	for how, names := range some {
		if how == "one" {
			r.atMostOne(b, slices.Clone(names))
		}
		r.require(b, names...)
	}
	return len(r.problems) == before
}
