package limits

import (
	"reflect"
	"testing"

	"prodigy/internal/errorpolicy"
)

// A limit that does not hear of the records is as new after each resume.
func TestEveryLimitThatRemembersHearsOfTheRecords(t *testing.T) {
	m := NewMemory(errorpolicy.Policy{})
	fields := reflect.ValueOf(m).Elem()
	all := m.all()
	if len(all) != fields.NumField() {
		t.Errorf("got %d limits in Memory.all, want the %d fields of Memory", len(all), fields.NumField())
	}
	for i := range min(len(all), fields.NumField()) {
		field, heard := fields.Field(i).Type(), reflect.TypeOf(all[i])
		if heard != field && heard != reflect.PointerTo(field) {
			t.Errorf("got %v at %d in Memory.all, want %s", heard, i, fields.Type().Field(i).Name)
		}
	}
}
