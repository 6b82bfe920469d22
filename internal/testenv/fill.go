package testenv

import (
	"reflect"
	"testing"
	"time"
)

// Fill sets a value, and the exported fields of a struct, to something that is not zero, so that a test notices a field that was forgotten.
func Fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(7, 0)))
			return
		}
		for _, field := range v.Fields() {
			Fill(t, field)
		}
	default:
		t.Fatalf("nothing to fill a %v with", v.Type())
	}
}
