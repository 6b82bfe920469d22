package workflow

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// language is all that can be written in a workflow file, as the types and their comments say it. The schema and the
// reference are made of it.
type language struct {
	t      *testing.T
	said   comments
	blocks []*described // in the order in which they are reached from the root
}

// described is a block: a mapping whose keys the language fixes.
type described struct {
	name  string // its package and type, as in "retry.Policy"; of a part of it or of more than it, with that behind a dash
	title string // what people call it
	keys  []keyDoc
}

// keyDoc is a key of a block and what there is to know about it.
type keyDoc struct {
	name, alias string
	meaning     string
	standard    string // the default
	form        form
}

// typesOf reads the types of the language and their comments.
func typesOf(t *testing.T) *language {
	t.Helper()
	l := &language{t: t, said: readComments(t)}
	l.block(reflect.TypeFor[Workflow](), "workflow")
	return l
}

func (l *language) find(name string) *described {
	i := slices.IndexFunc(l.blocks, func(d *described) bool { return d.name == name })
	if i < 0 {
		return nil
	}
	return l.blocks[i]
}

// formerly holds the names that definitions of the schema have from before their types were moved.
var formerly = map[string]string{
	"limit.BreakerConfig":   "breaker.Config",
	"limit.Guards":          "pressure.Guards",
	"limit.QuotaPolicy":     "quota.Policy",
	"limit.StragglerConfig": "straggler.Config",
}

// definition returns the name that type t has in the schema.
func definition(t reflect.Type) string { return cmp.Or(formerly[t.String()], t.String()) }

// block returns the form of a block of type t, which is described when it is met for the first time.
func (l *language) block(t reflect.Type, title string) form {
	if l.find(definition(t)) == nil {
		d := &described{name: definition(t), title: title}
		l.blocks = append(l.blocks, d)
		d.keys = append(l.fields(t), l.besides(t)...)
	}
	return reference(definition(t), title)
}

// part returns the form of a block under another name that has only some keys of type t, or more than those.
func (l *language) part(t reflect.Type, title, suffix string, has func(name string) bool, more ...keyDoc) form {
	whole := l.block(t, title)
	name := definition(t) + "-" + suffix
	if l.find(name) == nil {
		d := &described{name: name}
		l.blocks = append(l.blocks, d)
		for _, k := range append(l.fields(t), l.besides(t)...) {
			if has(k.name) {
				d.keys = append(d.keys, k)
			}
		}
		d.keys = append(d.keys, more...)
	}
	return reference(name, whole.words)
}

// fields describes the keys that the tags of t name.
func (l *language) fields(t reflect.Type) []keyDoc {
	var keys []keyDoc
	for field := range t.Fields() {
		name := field.Tag.Get("yaml")
		if name == "" {
			continue
		}
		k := l.key(name, t.String()+"."+field.Name)
		k.alias = field.Tag.Get("alias")
		if k.standard == "" {
			k.standard = written(standard(t).FieldByName(field.Name))
		}
		var special bool
		if k.form, special = l.specialKey(t.String() + "." + name); !special {
			k.form = l.form(field.Type, name, field.Tag)
		}
		keys = append(keys, k)
	}
	return keys
}

// defaultInComment is the end of a comment that tells the default, or that there is none because the key is required.
var defaultInComment = regexp.MustCompile(`(?:^|[;,] )(?:default (.+)|(required))$`)

// key describes the key name by the comment of a field.
func (l *language) key(name, field string) keyDoc {
	text := l.said.fields[field]
	k := keyDoc{name: name, meaning: text}
	if at := defaultInComment.FindStringSubmatchIndex(text); at != nil {
		k.meaning, k.standard = text[:at[0]], strings.TrimPrefix(strings.TrimLeft(text[at[0]:at[1]], ";, "), "default ")
	}
	if k.meaning == "" {
		l.t.Errorf("%s has no comment: write one for people who write workflow files, since docs/workflow.md and the schema show it", field)
	}
	return k
}

// standard returns a block of type t in which nothing was written.
func standard(t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[retry.Policy]():
		return reflect.ValueOf(retry.Default())
	case reflect.TypeFor[limit.BreakerConfig]():
		return reflect.ValueOf(limit.DefaultBreaker())
	}
	return reflect.Zero(t)
}

// written returns a value as people write it, or nothing where it says nothing by itself.
func written(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return duration.Format(x)
	case retry.Backoff:
		return string(x.Strategy)
	case int, float64, bool, limit.OnOpen:
		return fmt.Sprint(x)
	}
	return ""
}
