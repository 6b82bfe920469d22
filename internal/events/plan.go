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
	"strings"
	"sync"
	"time"

	"prodigy/internal/outputs"
)

// A plan is what the fields of a type of event say of themselves in their tags, compiled once:
//
//	mask         a command may have printed it: secrets in it are masked, and what is not UTF-8 is replaced. Of a
//	             map of JSON these are the values, of a map of counts the keys.
//	told         if there were secrets, the field Masked of the same struct says so
//	clip, tail   the head or the end of a text is kept, up to MaxError or MaxTail
//	few          a list is cut to MaxConflicts
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

// A step returns a value after a change, and whether that made a difference, which it seldom does. It leaves v and all
// that v shares with others as they are. Nil changes nothing.
type step func(v reflect.Value, m Masker) (after reflect.Value, changed bool)

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
			p.early = tagOf(f).says("early")
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
		given := tagOf(f).says("given")
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
	p.mask, p.normal = masking.step(t, ""), rounding.step(t, "")
	return p
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
			wrong = append(wrong, fmt.Errorf("invalid %s: %d", jsonName(f), n))
		}
	}
	return errors.Join(wrong...)
}

// apply returns e after a step.
func (s step) apply(e Event, m Masker) Event {
	if s == nil {
		return e
	}
	if after, changed := s(reflect.ValueOf(e), m); changed {
		return after.Interface().(Event)
	}
	return e
}

// tag is the tag "log" of a field, words with commas between them.
type tag string

func tagOf(f reflect.StructField) tag { return tag(f.Tag.Get("log")) }

func (t tag) says(word string) bool { return slices.Contains(strings.Split(string(t), ","), word) }

// pass is what a step is for.
type pass int

const (
	masking  pass = iota // secrets are taken out
	rounding             // values become what comes back from the log
)

// text returns how a pass changes a text with a tag; nil if it stays as it is.
func (p pass) text(of tag) func(string, Masker) string {
	switch {
	case p == masking && of.says("mask"):
		return func(s string, m Masker) string { return m.Text(s) }
	case p == masking:
		return nil
	case of.says("clip"):
		return func(s string, _ Masker) string { return Clip(s, MaxError) }
	case of.says("tail"):
		return func(s string, _ Masker) string { return ClipTail(s, MaxTail) }
	case of.says("mask"):
		return func(s string, _ Masker) string { return valid(s) }
	}
	return nil
}

// step returns the step of a pass for values of type t.
func (p pass) step(t reflect.Type, of tag) step {
	change := p.text(of)
	switch {
	case t == reflect.TypeFor[time.Time]() && p == rounding:
		return changed(written)
	case t == reflect.TypeFor[Millis]() && p == rounding:
		return changed(Millis.Rounded)
	case t == reflect.TypeFor[json.RawMessage]():
		if p == masking && of.says("mask") {
			return maskedJSON
		}
		return nil
	case t.Kind() == reflect.Pointer:
		return p.step(t.Elem(), of).behind()
	case t.Kind() == reflect.Slice:
		return p.step(t.Elem(), of).each(p == rounding && of.says("few"))
	case t.Kind() == reflect.Struct:
		return p.ofStruct(t)
	case change == nil:
		return nil
	case t.Kind() == reflect.String:
		return changedText(change)
	case t == reflect.TypeFor[map[string]int]():
		return renamed(change)
	case t == reflect.TypeFor[map[string]json.RawMessage]():
		if p == masking {
			return maskedValues
		}
		return nil
	}
	panic("BUG: nothing masks a " + t.String())
}

// fieldStep is the step of a field of a struct.
type fieldStep struct {
	field int
	step  step
	told  bool // the field Masked says whether the step has changed anything
}

// ofStruct returns the step of a struct, which is those of its fields.
func (p pass) ofStruct(t reflect.Type) step {
	var fields []fieldStep
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if step := p.step(f.Type, tagOf(f)); step != nil {
			fields = append(fields, fieldStep{i, step, p == masking && tagOf(f).says("told")})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value, m Masker) (after reflect.Value, changed bool) {
		after = v
		for _, f := range fields {
			field, other := f.step(v.Field(f.field), m)
			if !other {
				continue
			}
			if !changed {
				after = reflect.New(v.Type()).Elem()
				after.Set(v)
			}
			changed = true
			after.Field(f.field).Set(field)
			if f.told {
				after.FieldByName("Masked").SetBool(true)
			}
		}
		return after, changed
	}
}

// behind makes a step of what a pointer points to one of the pointer.
func (s step) behind() step {
	if s == nil {
		return nil
	}
	return func(v reflect.Value, m Masker) (reflect.Value, bool) {
		if v.IsNil() {
			return v, false
		}
		after, changed := s(v.Elem(), m)
		if !changed {
			return v, false
		}
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(after)
		return own, true
	}
}

// each makes a step of an entry one of a list, of which only the first MaxConflicts are kept if it is cut.
func (s step) each(cut bool) step {
	if s == nil && !cut {
		return nil
	}
	return func(v reflect.Value, m Masker) (after reflect.Value, changed bool) {
		after = v
		if cut && v.Len() > MaxConflicts {
			after, changed = v.Slice3(0, MaxConflicts, MaxConflicts), true
		}
		shared := true
		for i := 0; s != nil && i < after.Len(); i++ {
			entry, other := s(after.Index(i), m)
			if !other {
				continue
			}
			if shared {
				after = reflect.AppendSlice(reflect.Zero(v.Type()), after)
			}
			shared, changed = false, true
			after.Index(i).Set(entry)
		}
		return after, changed
	}
}

// maskedValues masks the values of a map of JSON.
func maskedValues(v reflect.Value, m Masker) (reflect.Value, bool) {
	own := maps.Clone(v.Interface().(map[string]json.RawMessage))
	for name, raw := range own {
		own[name] = m.JSON(raw)
	}
	return reflect.ValueOf(own), len(own) > 0
}

// renamed changes the keys of a map of counts. What then has the same key is added up.
func renamed(change func(string, Masker) string) step {
	return func(v reflect.Value, m Masker) (reflect.Value, bool) {
		own := make(map[string]int, v.Len())
		for key, n := range v.Interface().(map[string]int) {
			own[change(key, m)] += n
		}
		return reflect.ValueOf(own), len(own) > 0
	}
}

// changedText makes a step of a change of a text.
func changedText(change func(string, Masker) string) step {
	return func(v reflect.Value, m Masker) (reflect.Value, bool) {
		s := change(v.String(), m)
		if s == v.String() {
			return v, false
		}
		return reflect.ValueOf(s).Convert(v.Type()), true
	}
}

// maskedJSON masks raw JSON.
func maskedJSON(v reflect.Value, m Masker) (reflect.Value, bool) {
	if v.Len() == 0 {
		return v, false
	}
	masked := m.JSON(v.Bytes())
	return reflect.ValueOf(masked), !bytes.Equal(masked, v.Bytes())
}

// changed makes a step of what becomes of a value.
func changed[T comparable](change func(T) T) step {
	return func(v reflect.Value, _ Masker) (reflect.Value, bool) {
		was, _ := reflect.TypeAssert[T](v)
		is := change(was)
		if is == was {
			return v, false
		}
		return reflect.ValueOf(is), true
	}
}

// Within returns e as an event of an attempt, whatever e itself says of the item, the attempt and the worker.
// It reports false if e is of a type that is not an event of an attempt: an executor must not record it.
func Within(e Event, a Attempt) (Event, bool) {
	p := planOf(e)
	if len(p.given) == 0 {
		return nil, false
	}
	own := reflect.New(p.Type).Elem()
	own.Set(reflect.ValueOf(e))
	for _, f := range p.given {
		own.FieldByIndex(f.Index).Set(reflect.ValueOf(a).FieldByName(f.Name))
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
