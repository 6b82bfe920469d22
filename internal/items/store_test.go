package items

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

func testItem(i int) Item {
	data := fmt.Sprintf(`{"n":%d.10,"text":%q}`, i, strings.Repeat("x", i%997))
	return Item{ID: fmt.Sprintf("item_%d", i), Index: i, Data: json.RawMessage(data)}
}

func newStore(t *testing.T, count int) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "items.jsonl")
	s, err := CreateStore(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for i := range count {
		if err := s.Append(testItem(i)); err != nil {
			t.Fatal(err)
		}
	}
	return s, path
}

func wantItems(t *testing.T, s *Store, count int) {
	t.Helper()
	if s.Len() != count {
		t.Fatalf("got %d items, want %d", s.Len(), count)
	}
	for i := range count {
		got, err := s.At(i)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(testItem(i), got); diff != "" {
			t.Fatalf("item %d: got + want -\n%s", i, diff)
		}
	}
}

func TestAnAppendedItemCanBeReadAtOnce(t *testing.T) {
	s, _ := newStore(t, 0)
	for i := range 300 {
		if err := s.Append(testItem(i)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.At(i); err != nil || got.ID != testItem(i).ID {
			t.Fatalf("got %v, %v, want item %d", got.ID, err, i)
		}
	}
	wantItems(t, s, 300)
}

func TestItemsCanBeReadWhileOthersAreAppended(t *testing.T) {
	s, _ := newStore(t, 1)
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for n := s.Len(); n < 2000; n = s.Len() {
				for _, i := range []int{0, n / 2, n - 1} {
					if it, err := s.At(i); err != nil || it.Index != i {
						return fmt.Errorf("item %d: got %d, %w", i, it.Index, err)
					}
				}
			}
			return nil
		})
	}
	for i := 1; i < 2000; i++ {
		if err := s.Append(testItem(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreIsTheSameAfterOpening(t *testing.T) {
	s, path := newStore(t, 1500)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	opened, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	wantItems(t, opened, 1500)
	if diff := cmp.Diff(s.marks, opened.marks, cmp.AllowUnexported(mark{})); diff != "" {
		t.Errorf("marks: got + want -\n%s", diff)
	}
}

func TestATornLastLineDoesNotCountAndIsReplaced(t *testing.T) {
	s, path := newStore(t, 70)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, 2, 20, 40} {
		torn := whole[:len(whole)-cut]
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenStore(path)
		if err != nil {
			t.Fatal(err)
		}
		wantItems(t, s, 69)
		if got, err := os.ReadFile(path); err != nil || string(got) != string(torn) {
			t.Error("reading changed the file")
		}
		if err := s.Append(testItem(69)); err != nil {
			t.Fatal(err)
		}
		wantItems(t, s, 70)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(whole) {
			t.Errorf("cut by %d and appended to: got %d bytes, want %d", cut, len(got), len(whole))
		}
	}
}

func TestTheStoreIsJSONLinesOfItsOwnerOnly(t *testing.T) {
	s, path := newStore(t, 0)
	if err := s.Append(Item{ID: `a"b`, Data: json.RawMessage("{\n\"x\": 1.10}")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"item_id":"a\"b","index":0,"item":{"x":1.10}}` + "\n"; string(got) != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("got mode %v, want one for the owner only", info.Mode())
	}
	if _, err := CreateStore(path); err == nil {
		t.Error("a store that is there was created again")
	}
}

func TestAnItemKeepsWhatMayBeShownOfIt(t *testing.T) {
	s, _ := newStore(t, 0)
	secret := Item{ID: "item_0", Data: json.RawMessage(`{"a":"hush"}`), Masked: json.RawMessage(`{"a":"***"}`)}
	plain := Item{ID: "item_1", Index: 1, Data: json.RawMessage(`2`)}
	for _, it := range []Item{secret, plain} {
		if err := s.Append(it); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{`{"a":"***"}`, `2`} {
		it, err := s.At(i)
		if got := string(it.Shown()); err != nil || got != want {
			t.Errorf("item %d is shown as %s (%v), want %s", i, got, err, want)
		}
	}
}

func TestAnItemThatIsNotThereIsAnError(t *testing.T) {
	s, _ := newStore(t, 3)
	for _, i := range []int{-1, 3} {
		if _, err := s.At(i); err == nil {
			t.Errorf("item %d: got no error", i)
		}
	}
}

func BenchmarkStoreAt(b *testing.B) {
	s, err := CreateStore(filepath.Join(b.TempDir(), "items.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		if err := s.Append(testItem(i)); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		if _, err := s.At(i % 10_000); err != nil {
			b.Fatal(err)
		}
	}
}
