package items

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestACursorFollowsAStoreThatGrows(t *testing.T) {
	s, err := CreateStore(filepath.Join(t.TempDir(), "items.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	c := s.Cursor()
	for i := range 300 {
		data := json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", i*7)))
		if err := s.Append(Item{ID: fmt.Sprint("item_", i), Index: i, Data: data}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			continue // read two at once, sometimes
		}
		for c.More() {
			if c.Index()%5 == 4 {
				if err := c.Skip(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want := c.Index()
			it, err := c.Next()
			if err != nil || it.Index != want || len(it.Data) != want*7+2 {
				t.Fatalf("item %d: got %d with %d bytes, %v, want %d bytes", want, it.Index, len(it.Data), err, want*7+2)
			}
		}
	}
	if c.Index() != 300 || c.More() {
		t.Errorf("got %d items and more %t, want 300 and no more", c.Index(), c.More())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// An item is found by its whole id, whether or not that is escaped in the file.
func TestFindTellsIDsApart(t *testing.T) {
	s, err := CreateStore(filepath.Join(t.TempDir(), "items.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"item_1", "item_10", "item_", "a", `a"`, `a",`, `back\slash`, "line\nbreak", "žluť", "<script>", "日本", "", strings.Repeat("long", 20_000)}
	for i, id := range ids {
		if err := s.Append(Item{ID: id, Index: i, Data: json.RawMessage(`{"item_id":"a"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range ids {
		it, found, err := s.Find(id)
		if err != nil || !found || it.Index != i {
			t.Errorf("find %.20q: got item %d, %t, %v, want %d", id, it.Index, found, err, i)
		}
	}
	if it, found, err := s.Find("item_100"); err != nil || found {
		t.Errorf("got %+v, %v, want that item_100 is not there", it, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
