package fleet

import (
	"reflect"
	"time"
)

// The clocks of machines need not agree. What one side sends says when it was sent, and the other side moves the times
// in it with Shift, so that what was to come in an hour comes in an hour. The time that a message takes is added to
// that.

// leastOffset is how far clocks differ at least that are not taken for the same: messages take some time too.
const leastOffset = time.Second

// Offset returns what is to be added to the times of a clock that has shown its when this one shows now. It is 0 if its
// is not known.
func Offset(its, now time.Time) time.Duration {
	d := now.Round(0).Sub(its)
	if its.IsZero() || d.Abs() < leastOffset {
		return 0
	}
	return d
}

// Clocks has the Offset of the clock of each worker, by its instance.
type Clocks map[string]time.Duration

// Note notes what a clock shows, by a message that has come now. Small changes are left out, so that the order of times
// stays the same.
func (c Clocks) Note(instance string, its, now time.Time) {
	if d := Offset(its, now); (d - c[instance]).Abs() >= leastOffset {
		c[instance] = d
	}
}

// Shift adds a duration to all times that v, a pointer, has in exported fields, but for those that are zero. What it
// changes behind other pointers is copied before.
func Shift(v any, by time.Duration) {
	if by != 0 {
		shift(reflect.ValueOf(v).Elem(), by)
	}
}

func shift(v reflect.Value, by time.Duration) {
	if t, ok := reflect.TypeAssert[time.Time](v); ok {
		if !t.IsZero() {
			v.Set(reflect.ValueOf(t.Add(by)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				shift(value, by)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			shift(own.Elem(), by)
			v.Set(own)
		}
	case reflect.Interface:
		if !v.IsNil() {
			own := reflect.New(v.Elem().Type()).Elem()
			own.Set(v.Elem())
			shift(own, by)
			v.Set(own)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			shift(v.Index(i), by)
		}
	}
}
