package errorpolicy

import (
	"strings"
	"testing"
)

// read reads a text as the reader of workflow files does.
func read[T any, P interface {
	*T
	ReadText(text string) error
}](text string) (v T, err error) {
	err = P(&v).ReadText(text)
	return v, err
}

func TestItemActionReadsTheDocumentedForms(t *testing.T) {
	for text, want := range map[string]ItemAction{
		"dlq": {Kind: DLQ}, "retry": {Kind: Retry}, "skip": {Kind: Skip}, "stop": {Kind: Stop},
		"custom:notify": {Custom, "notify"}, "custom:a:b": {Custom, "a:b"},
	} {
		if got, err := read[ItemAction](text); err != nil || got != want {
			t.Errorf("ItemAction %q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "dlq, retry, skip", "dqlq": `did you mean "dlq"?`, "custom": "custom:notify", "custom:": "custom:notify", "DLQ": `did you mean "dlq"?`, "notify:x": "unknown",
	} {
		if _, err := read[ItemAction](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ItemAction %q: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestCollectionReadsTheDocumentedForms(t *testing.T) {
	for text, want := range map[string]Collection{
		"aggregate": {Kind: Aggregate}, "immediate": {Kind: Immediate}, "batched": {Batched, 10}, "batched:10": {Batched, 10}, "batched:1": {Batched, 1},
	} {
		if got, err := read[Collection](text); err != nil || got != want {
			t.Errorf("Collection %q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "aggregate, immediate", "batched:": "integer", "batched:x": "integer",
		"batched:0": "at least 1", "batched:-3": "at least 1", "batch": "unknown", "batched:99999999999999999999": "integer",
	} {
		if _, err := read[Collection](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Collection %q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"dlq", "custom:x", "batched:10", "batched:-1", "", "custom:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := read[ItemAction](text); err == nil {
			if !a.Kind.Known() || (a.Kind == Custom) != (a.Handler != "") {
				t.Errorf("ItemAction %q: got %v", text, a)
			}
		}
		if c, err := read[Collection](text); err == nil {
			if (c.Kind == Batched) != (c.Size > 0) {
				t.Errorf("Collection %q: got %v", text, c)
			}
		}
	})
}
