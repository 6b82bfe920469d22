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

// Drifted returns the Offset of a clock that had another one before. Small changes are left out, so that the order of
// times stays the same.
func Drifted(before time.Duration, its, now time.Time) time.Duration {
	if d := Offset(its, now); (d - before).Abs() >= leastOffset {
		return d
	}
	return before
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
