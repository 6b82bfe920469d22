package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fieldsByDecoder is fieldsOf as encoding/json would have it.
func fieldsByDecoder(t *testing.T, object []byte) (fields []eventField) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		f := eventField{name: key.(string)}
		if err := d.Decode(&f.value); err != nil {
			t.Fatal(err)
		}
		fields = append(fields, f)
	}
	return fields
}

func FuzzFieldsAreThoseOfTheStandardLibrary(f *testing.F) {
	for _, text := range []string{
		circuitLine, "{}", " { } \n", `{"a":"\"","b\n":[1,{"c":"]}"}, -1.5e3 ],"":null,"é":"\u00e9","t":true}`, `{"a" : [ ] , "b" : { } , "c" : " , " }`,
		"[1]", "3", "", "{", `{"a":1`, `{"a"`, `{"a":1}}`, `{"a":1} 2`, `{} {}`, `{"a":{"a":"\\"}}`, "null",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		fields, err := fieldsOf(object)
		want := json.Valid(object) && strings.HasPrefix(strings.TrimLeft(string(object), " \t\r\n"), "{")
		if (err == nil) != want {
			t.Fatalf("%q: got %v", object, err)
		}
		if err != nil {
			return
		}
		var got []eventField
		for f := range fields {
			got = append(got, f)
		}
		if diff := cmp.Diff(got, fieldsByDecoder(t, object), cmp.AllowUnexported(eventField{})); diff != "" {
			t.Fatalf("%q (-got +want):\n%s", object, diff)
		}
		for _, f := range got {
			var s string
			if json.Unmarshal(f.value, &s) != nil {
				s = string(f.value) // no text, and not null
			}
			if f.text() != s {
				t.Fatalf("%s: got %q, want %q", f.value, f.text(), s)
			}
		}
	})
}

func BenchmarkPrintEvent(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := printEvent(io.Discard, []byte(circuitLine), look{}); err != nil {
			b.Fatal(err)
		}
	}
}
