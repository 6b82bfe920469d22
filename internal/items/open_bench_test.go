package items

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkOpenStore is what a resume pays for the items of its job, here 100,000 of 100 bytes.
func BenchmarkOpenStore(b *testing.B) {
	path := filepath.Join(b.TempDir(), "items.jsonl")
	s, err := CreateStore(path)
	if err != nil {
		b.Fatal(err)
	}
	const count = 100_000
	for i := range count {
		data := []byte(`{"n":123456,"text":"fifty bytes of text, as an item of a job may have, or so"}`)
		it := Item{ID: fmt.Sprintf("item_%d", i), Index: i, Data: data}
		if err := s.Append(it); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(s.Size())
	for b.Loop() {
		opened, err := OpenStore(path)
		if err != nil || opened.Len() != count {
			b.Fatal(opened.Len(), err)
		}
		if err := opened.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
