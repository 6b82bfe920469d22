package items

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/jobs"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"prodigy/internal/testenv"
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

// closedStore returns the path and the content of the file of a store.
func closedStore(t *testing.T, count int) (path string, content []byte) {
	t.Helper()
	s, path := newStore(t, count)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
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

// Who shows items may not be able to write where they lie.
func TestAStoreThatIsReadIsNotOpenedForWriting(t *testing.T) {
	path, _ := closedStore(t, 3)
	s, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	wantItems(t, s, 3)
	if err := s.Append(testItem(3)); err == nil {
		t.Error("an item was added")
	}
}

func TestATornLastLineDoesNotCountAndIsReplaced(t *testing.T) {
	path, whole := closedStore(t, 70)
	for _, cut := range []int{1, 2, 20, 40} {
		torn := whole[:len(whole)-cut]
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReopenStore(path)
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
	if want := `{"item_id":"a\"b","index":0,"item":{"x":1.10}}`; string(jobs.StripSeal(bytes.TrimSpace(got))) != want || !bytes.HasSuffix(got, []byte("\"}\n")) {
		t.Errorf("got  %swant %s with a checksum", got, want)
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

// held opens the store at path and reads all of the items that were selected, as a resume does.
func held(path string, total int) error {
	s, err := OpenStore(path)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if err := s.Holds(total); err != nil {
		return err
	}
	for i := range total {
		it, err := s.At(i)
		if err != nil {
			return err
		}
		if want := testItem(i); it.ID != want.ID || string(it.Data) != string(want.Data) {
			return fmt.Errorf("silent: item %d is %s %s", i, it.ID, it.Data)
		}
	}
	return nil
}

func wantDamage(t *testing.T, what string, err error, line int) {
	t.Helper()
	var damaged *DamagedError
	if !errors.As(err, &damaged) || damaged.Line != line {
		t.Errorf("%s: got %v, want damage told in line %d", what, err, line)
	}
}

func TestAStoreThatIsCutOffAnywhereIsTold(t *testing.T) {
	path, whole := closedStore(t, 10)
	if err := held(path, 10); err != nil {
		t.Fatal(err)
	}
	for _, kept := range testenv.Offsets(whole, 32, 8) {
		if err := os.WriteFile(path, whole[:kept], 0o600); err != nil {
			t.Fatal(err)
		}
		wantDamage(t, fmt.Sprintf("%d bytes kept", kept), held(path, 10), 1+bytes.Count(whole[:kept], []byte("\n")))
	}
	if err := os.WriteFile(path, append(bytes.Clone(whole), whole...), 0o600); err != nil {
		t.Fatal(err)
	}
	wantDamage(t, "twice", held(path, 10), 11)
}

func TestAFlippedBitInAStoreIsTold(t *testing.T) {
	path, whole := closedStore(t, 10)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range testenv.Offsets(whole, 32, 8) {
		b, line := whole[at], 1+bytes.Count(whole[:at], []byte("\n"))
		for bit := range 8 {
			if _, err := f.WriteAt([]byte{b ^ 1<<bit}, int64(at)); err != nil {
				t.Fatal(err)
			}
			// The first line passes for one of an older version when its checksum is not found, and what it says is the same.
			if err := held(path, 10); err != nil || line > 1 {
				wantDamage(t, fmt.Sprintf("bit %d of byte %d", bit, at), err, line)
			}
		}
		if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLinesThatAreMissingOrMovedAreTold(t *testing.T) {
	path, whole := closedStore(t, 4)
	l := strings.SplitAfter(string(whole), "\n")
	for want, lines := range map[int]string{1: l[1] + l[0] + l[2] + l[3], 2: l[0] + l[2] + l[3], 3: l[0] + l[1] + l[1] + l[3]} {
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		wantDamage(t, lines, held(path, 4), want)
	}
}

// Lines of an older version have no checksum, and those that are added have one.
func TestAStoreWithoutChecksumsIsRead(t *testing.T) {
	path, whole := closedStore(t, 5)
	var old []byte
	for line := range bytes.Lines(whole) {
		old = append(append(old, jobs.StripSeal(bytes.TrimSpace(line))...), '\n')
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReopenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	wantItems(t, s, 5)
	for i := 5; i < 8; i++ {
		if err := s.Append(testItem(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := held(path, 8); err != nil {
		t.Error(err)
	}
	both, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(both, []byte(`"crc":`)); n != 3 || !bytes.HasPrefix(both, old) {
		t.Errorf("got %d checksums in\n%s\nwant 3, behind the old lines as they were", n, both)
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
