package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"prodigy/internal/outputs"
)

// A plan is what the fields of a type of event say of themselves in their tags, compiled once:
//
//	mask         a command may have printed it: secrets in it are masked, and what is not UTF-8 is replaced. Of a
//	             map of JSON these are the values, of a map of counts the keys.
//	mask=Masked  the same, and the field Masked of the same struct says whether there were any
//	clip, tail   the head or the end of a text is kept, up to MaxError or MaxTail
//	max=20       a list is cut
//	given        the attempt that the event happens in says it
//	early        of Fact: the event may come before its item has begun
//
// Times and durations are rounded by their type, and numbers are bounded by their name, wherever they stand.
type plan struct {
	reflect.Type
	required []reflect.StructField // numbers that are in each record

	id, index, attempt, outputs []int // where these fields are; nil if the type has none
	optional                    bool  // the event may be about no item
	early                       bool

	mask, normal step
	given        []reflect.StructField
	counts       []reflect.StructField // numbers with bounds
	givenCounts  []reflect.StructField // those of them that the attempt says
}

// A step is a change of a value.
type step struct {
	due    func(v reflect.Value) bool // reports whether the change could make a difference, which it seldom does
	change func(v reflect.Value, m Masker)
}

// plans returns the plan of every type that a log may contain, by its name and by its type.
var plans = sync.OnceValues(func() (byName map[string]*plan, byType map[reflect.Type]*plan) {
	byName, byType = map[string]*plan{}, map[reflect.Type]*plan{}
	for _, e := range types {
		p := compile(reflect.TypeOf(e))
		byName[p.Name()], byType[p.Type] = p, p
	}
	byType[reflect.TypeFor[Unknown]()] = &plan{}
	return byName, byType
})

// planOf returns the plan of the type of an event.
func planOf(e Event) *plan {
	_, byType := plans()
	return byType[reflect.TypeOf(e)]
}

// compile makes the plan of a type of event. It panics if a tag is wrong.
func compile(t reflect.Type) *plan {
	p := &plan{Type: t}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		omitted := strings.Contains(options, "omitempty")
		switch f.Name {
		case "Fact":
			p.early = f.Tag.Get("log") == "early"
			continue
		case "ItemID":
			p.id, p.optional = f.Index, omitted
		case "ItemIndex":
			p.index = f.Index
		case "Attempt":
			p.attempt = f.Index
		case "Outputs":
			p.outputs = f.Index
		}
		if f.Type.Kind() == reflect.Int && !omitted {
			p.required = append(p.required, f)
		}
		given := tagOf(f).given
		if given {
			p.given = append(p.given, f)
		}
		switch {
		case !bounded[name] || f.Type.Kind() != reflect.Int:
		case given:
			p.givenCounts = append(p.givenCounts, f)
		default:
			p.counts = append(p.counts, f)
		}
	}
	p.mask, p.normal = stepsOf(t, tag{})
	return p
}

// givers say what an attempt says of an event, by the name of its field.
var givers = map[string]func(Attempt) any{
	"ItemID":    func(a Attempt) any { return a.ItemID },
	"ItemIndex": func(a Attempt) any { return a.ItemIndex },
	"Phase":     func(a Attempt) any { return a.Phase },
	"Attempt":   func(a Attempt) any { return a.Number },
	"Node":      func(a Attempt) any { return a.Node },
}

// bounded are the names of numbers that are not below 0, and of which nobody counts to more than maxCount.
var bounded = map[string]bool{
	"item_index": true, "attempt": true, "total_items": true, "max_parallel": true, "workers": true,
	"step_index": true, "position": true,
}

// maxCount is far more than there can be of anything in a job, and few enough for counts of them.
const maxCount = math.MaxInt32

// checkCounts returns an error for a number of an event that none has, so that nobody has to be prepared for it.
func checkCounts(v reflect.Value, fields []reflect.StructField) error {
	var wrong []error
	for _, f := range fields {
		if n := v.FieldByIndex(f.Index).Int(); n < 0 || n > maxCount {
			wrong = append(wrong, fmt.Errorf("%s is %d, which no record has", jsonName(f), n))
		}
	}
	return errors.Join(wrong...)
}

// apply returns e after a step, which changes a copy.
func (s step) apply(e Event, m Masker) Event {
	v := reflect.ValueOf(e)
	if s.due == nil || !s.due(v) {
		return e
	}
	own := reflect.New(v.Type()).Elem()
	own.Set(v)
	s.change(own, m)
	return own.Interface().(Event)
}

// changed returns the event of v, which may be changed, after a step.
func (s step) changed(v reflect.Value) Event {
	if s.due != nil && s.due(v) {
		s.change(v, nil)
	}
	return v.Interface().(Event)
}

// tag is the tag "log" of a field.
type tag struct {
	mask, clip, tail, given bool
	masked                  string // name of the field that says whether there were secrets
	most                    int    // entries of a list; 0 if it is not cut
}

// tagOf reads the tag of a field. It panics if the tag has an unknown word.
func tagOf(f reflect.StructField) (t tag) {
	for word := range strings.SplitSeq(f.Tag.Get("log"), ",") {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "":
		case "mask":
			t.mask, t.masked = true, value
		case "clip":
			t.clip = true
		case "tail":
			t.tail = true
		case "given":
			t.given = true
		case "max":
			most, err := strconv.Atoi(value)
			if err != nil {
				panic("BUG: a list is cut to " + value)
			}
			t.most = most
		default:
			panic("BUG: the tag of " + f.Name + " says " + word)
		}
	}
	return t
}

// stepsOf returns how a value of type t is masked, and how it is made what comes back from the log. Steps
// that do nothing are zero.
func stepsOf(t reflect.Type, says tag) (mask, normal step) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return step{}, roundedTime
	case reflect.TypeFor[Millis]():
		return step{}, roundedMillis
	case reflect.TypeFor[json.RawMessage]():
		return says.masking(func(v reflect.Value, m Masker) { v.SetBytes(m.JSON(v.Bytes())) }), step{}
	}
	switch t.Kind() {
	case reflect.String:
		return says.masking(func(v reflect.Value, m Masker) { v.SetString(m.Text(v.String())) }), boundedText(says)
	case reflect.Pointer:
		mask, normal = stepsOf(t.Elem(), says)
		return mask.behind(), normal.behind()
	case reflect.Slice:
		mask, normal = stepsOf(t.Elem(), says)
		return mask.each(0), normal.each(says.most)
	case reflect.Map:
		return mapSteps(t, says)
	case reflect.Struct:
		return structSteps(t)
	}
	return step{}, step{}
}

// structSteps returns the steps of a struct, which are those of its fields.
func structSteps(t reflect.Type) (mask, normal step) {
	var masks, normals fieldSteps
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		says := tag{}
		if !f.Anonymous {
			says = tagOf(f)
		}
		m, n := stepsOf(f.Type, says)
		if says.masked != "" {
			m = m.noticed(t, i, says.masked)
		}
		masks.add(i, m, says.masked != "")
		normals.add(i, n, false)
	}
	return masks.step(), normals.step()
}

// fieldSteps are the steps of a struct.
type fieldSteps []fieldStep

type fieldStep struct {
	step
	field int
	whole bool // the step changes the struct, not the field
}

func (s *fieldSteps) add(field int, of step, whole bool) {
	if of.due != nil {
		*s = append(*s, fieldStep{of, field, whole})
	}
}

func (s fieldSteps) step() step {
	if len(s) == 0 {
		return step{}
	}
	return step{
		due: func(v reflect.Value) bool {
			return slices.ContainsFunc(s, func(f fieldStep) bool { return f.due(f.of(v)) })
		},
		change: func(v reflect.Value, m Masker) {
			for _, f := range s {
				f.change(f.of(v), m)
			}
		},
	}
}

func (f fieldStep) of(v reflect.Value) reflect.Value {
	if f.whole {
		return v
	}
	return v.Field(f.field)
}

// noticed makes a step of field i, JSON, one of its struct that says in another field whether it has changed anything.
func (s step) noticed(t reflect.Type, i int, name string) step {
	says, ok := t.FieldByName(name)
	if !ok {
		panic("BUG: " + t.Name() + " has no field " + name)
	}
	return step{
		due: func(v reflect.Value) bool { return s.due(v.Field(i)) },
		change: func(v reflect.Value, m Masker) {
			before := v.Field(i).Bytes()
			s.change(v.Field(i), m)
			if len(before) > 0 {
				v.FieldByIndex(says.Index).SetBool(!bytes.Equal(before, v.Field(i).Bytes()))
			}
		},
	}
}

// behind makes a step of what a pointer points to one of the pointer.
func (s step) behind() step {
	if s.due == nil {
		return step{}
	}
	return step{
		due: func(v reflect.Value) bool { return !v.IsNil() && s.due(v.Elem()) },
		change: func(v reflect.Value, m Masker) {
			if v.IsNil() {
				return
			}
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			s.change(own.Elem(), m)
			v.Set(own)
		},
	}
}

// each makes a step of an entry one of a list, which is cut to its first entries unless most is 0.
func (s step) each(most int) step {
	if s.due == nil && most == 0 {
		return step{}
	}
	return step{
		due: func(v reflect.Value) bool {
			if most > 0 && v.Len() > most {
				return true
			}
			for i := range v.Len() {
				if s.due != nil && s.due(v.Index(i)) {
					return true
				}
			}
			return false
		},
		change: func(v reflect.Value, m Masker) {
			if v.IsNil() {
				return
			}
			n := v.Len()
			if most > 0 {
				n = min(n, most)
			}
			own := reflect.MakeSlice(v.Type(), n, n)
			reflect.Copy(own, v)
			for i := range n {
				if s.change != nil {
					s.change(own.Index(i), m)
				}
			}
			v.Set(own)
		},
	}
}

// mapSteps returns the steps of a map. Only two types of maps hold what commands have printed.
func mapSteps(t reflect.Type, says tag) (mask, normal step) {
	some := func(v reflect.Value) bool { return v.Len() > 0 }
	switch {
	case !says.mask:
		return step{}, step{}
	case t == reflect.TypeFor[map[string]json.RawMessage]():
		return step{some, func(v reflect.Value, m Masker) {
			own := maps.Clone(v.Interface().(map[string]json.RawMessage))
			for name, raw := range own {
				own[name] = m.JSON(raw)
			}
			v.Set(reflect.ValueOf(own))
		}}, step{}
	case t == reflect.TypeFor[map[string]int]():
		bound, _ := says.bounds()
		return step{some, func(v reflect.Value, m Masker) { renameCounts(v, m.Text) }},
			step{some, func(v reflect.Value, _ Masker) { renameCounts(v, bound) }}
	}
	panic("BUG: nothing masks a " + t.String())
}

// renameCounts changes the keys of a map of counts. What then has the same key is added up.
func renameCounts(v reflect.Value, name func(string) string) {
	own := make(map[string]int, v.Len())
	for key, n := range v.Interface().(map[string]int) {
		own[name(key)] += n
	}
	v.Set(reflect.ValueOf(own))
}

// roundedTime makes a time what the log keeps of it.
var roundedTime = step{
	due: func(v reflect.Value) bool {
		t := v.Interface().(time.Time)
		return written(t) != t
	},
	change: func(v reflect.Value, _ Masker) { v.Set(reflect.ValueOf(written(v.Interface().(time.Time)))) },
}

// roundedMillis makes a duration what the log keeps of it.
var roundedMillis = step{
	due:    func(v reflect.Value) bool { return Millis(v.Int()).rounded() != Millis(v.Int()) },
	change: func(v reflect.Value, _ Masker) { v.SetInt(int64(Millis(v.Int()).rounded())) },
}

// masking returns how a text, or raw JSON, is masked by a change.
func (t tag) masking(change func(v reflect.Value, m Masker)) step {
	if !t.mask {
		return step{}
	}
	return step{
		due: func(v reflect.Value) bool { return v.Len() > 0 },
		change: func(v reflect.Value, m Masker) {
			if v.Len() > 0 {
				change(v, m)
			}
		},
	}
}

// boundedText returns how a text is cut and made UTF-8.
func boundedText(says tag) step {
	bound, most := says.bounds()
	if bound == nil {
		return step{}
	}
	return step{
		due:    func(v reflect.Value) bool { return v.Len() > most || !utf8.ValidString(v.String()) },
		change: func(v reflect.Value, _ Masker) { v.SetString(bound(v.String())) },
	}
}

// bounds returns how a text is bounded, and how many bytes of it may stay; nil if it is left as it is.
func (t tag) bounds() (bound func(string) string, most int) {
	switch {
	case t.clip:
		return func(s string) string { return Clip(s, MaxError) }, MaxError
	case t.tail:
		return func(s string) string { return ClipTail(s, MaxTail) }, MaxTail
	case t.mask:
		return valid, math.MaxInt
	}
	return nil, 0
}

// Within returns e as an event of an attempt, whatever e itself says of the item, the attempt and the worker.
// It reports false if e is of a type that does not happen inside an attempt: an executor must not record it.
func Within(e Event, a Attempt) (Event, bool) {
	p := planOf(e)
	if len(p.given) == 0 {
		return nil, false
	}
	own := reflect.New(p.Type).Elem()
	own.Set(reflect.ValueOf(e))
	for _, f := range p.given {
		own.FieldByIndex(f.Index).Set(reflect.ValueOf(givers[f.Name](a)))
	}
	return own.Interface().(Event), true
}

// Masked returns e without the secrets that m knows in what commands printed and in what was made of it.
// Names, ids and prodigy's own words stay as they are: the state of a job is computed from them.
func Masked(e Event, m Masker) Event { return planOf(e).mask.apply(e, m) }

// normal returns e as it comes back from the log, so that what is applied live is what is applied on replay:
// texts are cut to their bounds and made UTF-8, times and durations are rounded to what is written.
func normal(e Event) Event { return planOf(e).normal.apply(e, nil) }

// TypeOf returns the word that stands under "type" in the log.
func TypeOf(e Event) string {
	if u, ok := e.(Unknown); ok {
		return u.Name
	}
	return reflect.TypeOf(e).Name()
}

// Subject returns the id of the item that an event is about, or "" when it is about the job.
func Subject(e Event) string {
	if u, ok := e.(Unknown); ok {
		var s subject
		_ = json.Unmarshal(u.Raw, &s) // no object with an item: about the job
		return s.ItemID
	}
	if id := planOf(e).id; id != nil {
		return reflect.ValueOf(e).FieldByIndex(id).String()
	}
	return ""
}

// Item is the item that an event is about.
type Item struct {
	ID      string
	Index   int
	Attempt int // 0 where the event does not say it
}

// ItemOf returns the item that an event is about. It reports false for events about the job, and for those
// that do not say its index.
func ItemOf(e Event) (Item, bool) {
	p := planOf(e)
	if p.index == nil {
		return Item{}, false
	}
	v := reflect.ValueOf(e)
	item := Item{ID: v.FieldByIndex(p.id).String(), Index: int(v.FieldByIndex(p.index).Int())}
	if p.attempt != nil {
		item.Attempt = int(v.FieldByIndex(p.attempt).Int())
	}
	return item, item.ID != "" || !p.optional
}

// Printed returns where the outputs of the attempt or step are kept that ends with e, or nil.
func Printed(e Event) *outputs.Span {
	if at := planOf(e).outputs; at != nil {
		return reflect.ValueOf(e).FieldByIndex(at).Interface().(*outputs.Span)
	}
	return nil
}
