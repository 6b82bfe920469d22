package events

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// notPrinted lists, by reason, the texts of events that no command can have printed. The name of a field alone stands for it in every
// event; <key> is the key of a map.
var notPrinted = map[string][]string{
	"ids of items and attempts, which the state of a job is computed from": {"QuotaPaused.Item", "ItemID", "ItemIDs", "AgentID", "Items", "Conflicts.With", "AgentReused.FromItem"},
	"names of commits":                  {"Base", "Commit", "Commits", "Head"},
	"what git says of the user's files": {"Checkout"},
	"names of branches":                 {"JobStarted.TargetBranch", "JobCompleted.Branch", "JobCompleted.Into"},
	"names of presets and their rules":  {"Rule", "Pool", "QuotaPaused.Model", "QuotaResumed.Model", "Preset", "Presets.<key>"},
	"labels out of the workflow file": {
		"Phase", "Step", "JobStarted.Workflow", "StepCompleted.ID", "StepCompleted.Capture", "Captured.<key>",
		"Fingerprint.Values.<key>", "CircuitOpen.Scope", "CircuitHalfOpen.Scope", "CircuitClosed.Scope",
	},
	"what the workflow file says, with nothing put in for its variables": {"Fingerprint.Version", "StepSkipped.When", "AgentFailed.Matched", "StepRetrying.Matched", "Rates.Limit", "Rates.Per", "AgentStraggling.After"},
	"one of a fixed set of words": {
		"QuotaPaused.Kind", "Outcome", "Outcomes.<key>", "AgentUsage.CostSource", "ErrorType", "ErrorTypes.<key>", "PatternType", "RolloutStage.Name", "RolloutHeld.Name", "SuggestedAction", "JobStarted.Mode", "JobResumed.Reason", "StepCompleted.Kind",
		"StepCompleted.CaptureFormat", "AgentFailed.Signal", "AgentFailed.Action", "StepFailed.Action", "StepFailed.Reason", "DLQItemRemoved.Reason",
	},
	"made by prodigy from nothing that was printed": {"ConcurrencyChanged.Reason", "StartsHeld.Reason", "RolloutHeld.Reason", "JobStarted.Version", "OutputFile", "AgentReused.FromJob", "JobStarted.InputJob", "Since.JobID"},
	"a checksum": {"OutputCRC", "Fingerprint.Steps", "Fingerprint.Values", "Uses.Sum", "Produced.Sum"},
	"names of workers of a fleet and of their machines": {"Node", "Host"},
	"names of users":       {"By"},
	"addresses of brokers": {"Broker"},
}

const hidden = "hunter2"

type hiding struct{}

func (hiding) Text(s string) string { return strings.ReplaceAll(s, hidden, "***") }

func (h hiding) JSON(raw json.RawMessage) json.RawMessage {
	return json.RawMessage(h.Text(string(raw)))
}

func TestEveryTextOfAnEventIsMaskedOrNeverPrinted(t *testing.T) {
	used := map[string]bool{}
	for _, zero := range types {
		e := filled(t, zero, func(string) string { return hidden })
		var kept []string
		for path, text := range textsOf(reflect.ValueOf(Masked(e, hiding{})), TypeOf(zero)) {
			if strings.Contains(text, hidden) {
				kept = append(kept, path)
			}
		}
		for path := range textsOf(reflect.ValueOf(e), TypeOf(zero)) {
			entry := entryOf(path)
			used[entry] = true
			switch masked := !slices.Contains(kept, path); {
			case !masked && entry == "":
				t.Errorf("%s keeps secrets: give it the tag log:\"mask\", or say in notPrinted why no command can have printed it", path)
			case masked && entry != "":
				t.Errorf("%s is masked, and notPrinted says that it need not be", path)
			}
		}
	}
	for reason, entries := range notPrinted {
		for _, entry := range entries {
			if !used[entry] {
				t.Errorf("no event has the text %s, %s", entry, reason)
			}
		}
	}
}

// entryOf returns the entry of notPrinted that a text falls under, or "".
func entryOf(path string) string {
	for _, entries := range notPrinted {
		for _, entry := range entries {
			if path == entry || strings.HasSuffix(path, "."+entry) {
				return entry
			}
		}
	}
	return ""
}

// What normal gives is applied to a live job. A replay reads what the encoder made of it.
func TestANormalEventComesBackFromTheLogAsItIs(t *testing.T) {
	hostile := strings.Repeat("é", MaxTail) + "\xff"
	for _, zero := range types {
		e := filled(t, zero, func(path string) string {
			if entryOf(path) == "" || path == "StepSkipped.When" { // a condition is as long as its author likes
				return hostile
			}
			return "word"
		})
		want := normal(e)
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatalf("%s: %v", TypeOf(zero), err)
		}
		got := reflect.New(reflect.TypeOf(zero))
		if err := json.Unmarshal(text, got.Interface()); err != nil {
			t.Fatalf("%s: %v", TypeOf(zero), err)
		}
		if diff := cmp.Diff(want, got.Elem().Interface()); diff != "" {
			t.Errorf("%s is not what is read: see the tags at plan (-applied +read):\n%.2000s",
				TypeOf(zero), diff)
		}
		for path, text := range textsOf(reflect.ValueOf(want), TypeOf(zero)) {
			if len(text) > MaxTail && !boundedByItsMaker(path) {
				t.Errorf("%s has no bound: give it the tag log:\"clip\"", path)
			}
		}
	}
}

// boundedByItsMaker reports whether a text is one of the long ones that are bounded before they get into an event.
func boundedByItsMaker(path string) bool {
	for _, name := range []string{".Output", "StepCompleted.Stderr", ".Captured", "StepCompleted.Validation", "StepCompleted.Agent.JSON"} {
		if strings.HasSuffix(path, name) {
			return true
		}
	}
	return false
}

// filled returns a copy of an event with every text set to what text gives for its path, and with every time and duration finer than
// the log writes it.
func filled(t *testing.T, zero Event, text func(path string) string) Event {
	t.Helper()
	v := reflect.New(reflect.TypeOf(zero)).Elem()
	fill(t, v, TypeOf(zero), text)
	return v.Interface().(Event)
}

func fill(t *testing.T, v reflect.Value, path string, text func(string) string) {
	t.Helper()
	switch v.Interface().(type) {
	case json.RawMessage:
		quoted, err := json.Marshal(text(path))
		if err != nil {
			t.Fatal(err)
		}
		v.SetBytes(quoted)
		return
	case time.Time:
		v.Set(reflect.ValueOf(start0.Add(time.Nanosecond).In(time.FixedZone("east", 3600))))
		return
	case Millis:
		v.SetInt(int64(time.Second + 3*time.Nanosecond))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text(path))
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, text)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), path+"."+v.Type().Field(i).Name, text)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), path, text)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path+".<key>", text)
		fill(t, value, path, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		t.Fatalf("%s is of the kind %s: this test cannot see whether there are texts in it", path, v.Kind())
	}
}

// textsOf returns the texts of what fill filled, by their paths.
func textsOf(v reflect.Value, path string) map[string]string {
	texts := map[string]string{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.String:
			texts[path] = v.String()
		case reflect.Pointer:
			walk(v.Elem(), path)
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.Slice:
			if v.Type() == reflect.TypeFor[json.RawMessage]() {
				texts[path] = string(v.Bytes())
				return
			}
			for i := range v.Len() {
				walk(v.Index(i), path)
			}
		case reflect.Map:
			for key, value := range v.Seq2() {
				walk(key, path+".<key>")
				walk(value, path)
			}
		}
	}
	walk(v, path)
	return texts
}
