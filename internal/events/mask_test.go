package events

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const hidden = "hunter2"

type hiding struct{}

func (hiding) Text(s string) string { return strings.ReplaceAll(s, hidden, "***") }

func (h hiding) JSON(raw json.RawMessage) json.RawMessage {
	return json.RawMessage(h.Text(string(raw)))
}

// named are the fields that say what a thing is called, and words of prodigy's own: what commands print does not get into them.
var named = []string{
	"Workflow", "Mode", "Version", "Phase", "Phases", "Step", "Kind", "ID", "ItemID", "AgentID", "Capture", "CaptureFormat", "OutputFile", "OutputCRC", "Signal",
	"ErrorType", "Action", "Scope", "Matched", "Type", "PatternType", "Items", "SuggestedAction", "When",
	"JobResumed.Reason", "StepFailed.Reason", "DLQItemRemoved.Reason",
}

// Whatever text an event may have that a command can have printed, no secret gets into the log by it.
func TestNoTextOfAnEventKeepsASecret(t *testing.T) {
	for _, e := range samples() {
		v := reflect.New(reflect.TypeOf(e)).Elem()
		v.Set(reflect.ValueOf(e))
		leak(v, "")
		masked := Masked(v.Interface().(Event), hiding{})
		text, err := json.Marshal(masked)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), hidden) {
			t.Errorf("%s: %s", e.Type(), text)
		}
	}
}

// leak writes the secret into every text of v that is not a name.
func leak(v reflect.Value, field string) {
	if slices.Contains(named, field) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("before " + hidden + " after")
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); !slices.Contains(named, v.Type().Name()+"."+f.Name) {
				leak(v.Field(i), f.Name)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.Set(reflect.ValueOf(json.RawMessage(`"` + hidden + `"`)))
			return
		}
		for i := range v.Len() {
			leak(v.Index(i), field)
		}
	case reflect.Map:
		if v.Type().Elem() == reflect.TypeFor[json.RawMessage]() {
			for _, key := range v.MapKeys() {
				v.SetMapIndex(key, reflect.ValueOf(json.RawMessage(`"`+hidden+`"`)))
			}
		}
	}
}
