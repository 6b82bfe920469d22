package reuse

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"prodigy/internal/events"
)

func TestDataIsTheSameHoweverItIsWritten(t *testing.T) {
	whole, err := newHasher(nil)
	if err != nil {
		t.Fatal(err)
	}
	some, err := newHasher([]string{"path", "item.meta.hash"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b        string
		whole, some bool // equal
	}{
		{`{"path":"x","n":1}`, `{"n":1.0,"path":"\u0078"}`, true, true},
		{`{"path":"x","n":1}`, `{"path":"x","n":2}`, false, true},
		{`{"path":"x","meta":{"hash":"1"}}`, `{"path":"x","meta":{"hash":1}}`, false, false},
		{`{"path":"x"}`, `{"path":"y"}`, false, false},
		{`"a"`, `"b"`, false, true},
		{`["a","b"]`, `["ab"]`, false, true},
	} {
		a, b := json.RawMessage(c.a), json.RawMessage(c.b)
		if got := whole.Of(a) == whole.Of(b); got != c.whole {
			t.Errorf("%s and %s: equal: %t", a, b, got)
		}
		if got := some.Of(a) == some.Of(b); got != c.some {
			t.Errorf("the fields of %s and %s: equal: %t", a, b, got)
		}
	}
}

func TestThePartOfAJobThatDiffers(t *testing.T) {
	before := events.Fingerprint{Steps: "1", Version: "a", Values: map[string]string{"A": "1", "B": "2"}}
	for _, c := range []struct {
		now  events.Fingerprint
		part string
	}{
		{before, ""},
		{events.Fingerprint{Steps: "2", Version: "b"}, "steps"},
		{events.Fingerprint{Steps: "1", Version: "b"}, "version"},
		{events.Fingerprint{Steps: "1", Version: "a", Values: map[string]string{"A": "1", "B": "3"}}, "values: B"},
		{events.Fingerprint{Steps: "1", Version: "a", Values: map[string]string{"A": "1"}}, "values: B"},
		{events.Fingerprint{Steps: "1", Version: "a", Values: map[string]string{"A": "1", "B": "2", "C": ""}}, "values: C"},
		{events.Fingerprint{Steps: "1", Version: "a", Values: map[string]string{"A": "1", "B": unknownValue}}, ""},
	} {
		if got := partOf(c.now, before); got != c.part {
			t.Errorf("%v: %q, want %q", c.now, got, c.part)
		}
	}
}

func TestSecretsAreToldApartByTheKeyOnly(t *testing.T) {
	a, again, b := []byte("one"), []byte("one"), []byte("two")
	if ofSecret(a, "x") == ofSecret(b, "x") || ofSecret(a, "x") == ofSecret(a, "y") || ofSecret(a, "x") != ofSecret(again, "x") {
		t.Error("the digests of secrets do not follow from key and value")
	}
}

func write(t *testing.T, dir, path, text string, modified time.Time) {
	t.Helper()
	full := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(full, modified, modified); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreReadAgainWhenTheyMayHaveChanged(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	write(t, dir, "a", "one", old)
	write(t, dir, "d/b", "two", old)
	of := func(known []events.File, paths ...string) []events.File {
		t.Helper()
		found, err := NewDir(dir).Of(paths, known)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := of(nil, "a", "d", "gone")
	if len(before) != 3 || before[1].Path != "d/b" || before[2].Sum != missingFile {
		t.Fatalf("%+v", before)
	}
	for _, c := range []struct {
		name   string
		change func()
		want   string
	}{
		{"nothing", func() {}, ""},
		{"the time alone", func() { write(t, dir, "a", "one", old.Add(time.Minute)) }, ""},
		{"the text", func() { write(t, dir, "a", "uno", old.Add(2*time.Minute)) }, "a"},
		{"back", func() { write(t, dir, "a", "one", old.Add(3*time.Minute)) }, ""},
		{"one more in the directory", func() { write(t, dir, "d/c", "", old) }, "d/c"},
		{"one less", func() { _ = os.Remove(filepath.Join(dir, "d/c")); _ = os.Remove(filepath.Join(dir, "d/b")) }, "d/b"},
		{"the missing one", func() { write(t, dir, "d/b", "two", old); write(t, dir, "gone", "", old) }, "gone"},
	} {
		c.change()
		if got := changedFile(of(before, "a", "d", "gone"), before); got != c.want {
			t.Errorf("%s: changed %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAFileThatIsYoungIsReadAgain(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	f := NewDir(dir)
	f.now = func() time.Time { return now }
	write(t, dir, "a", "one", now)
	before, err := f.Of([]string{"a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a", "two", now) // of the same size, in the same tick of the clock
	after, err := f.Of([]string{"a"}, before)
	if err != nil {
		t.Fatal(err)
	}
	if changedFile(after, before) != "a" {
		t.Errorf("%+v, before %+v", after, before)
	}
}

func TestWhatAnAttemptMayHaveSeenTwoVersionsOfIsNotKnown(t *testing.T) {
	dir, old := t.TempDir(), time.Now().Add(-time.Hour)
	write(t, dir, "a", "one", old)
	write(t, dir, "b", "one", old)
	f := NewDir(dir)
	began, err := f.Of([]string{"a", "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "b", "two", old.Add(time.Second))
	marked := f.Since(began)
	if marked[0] != began[0] || marked[1].Sum != "" {
		t.Errorf("%+v", marked)
	}
	if changedFile(marked, marked) != "b" {
		t.Error("a file that is not known is equal to itself")
	}
}

func TestPathsMustStayBelowTheDirectory(t *testing.T) {
	dir := t.TempDir()
	f := NewDir(dir)
	for path, want := range map[string]string{
		"a/../b": "b", "./x": "x", filepath.Join(dir, "in", "x"): "in/x",
		"../x": "", "a/../../x": "", "/etc/passwd": "", "": "",
	} {
		got, err := f.Local(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestAPatternIsTheFilesThatMatchIt(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"s/a.sh", "s/b.sh", "s/deep/c.sh", "s/d.txt"} {
		write(t, dir, path, "", time.Now())
	}
	for pattern, want := range map[string]string{
		"s/*.sh": "[s/a.sh s/b.sh]", "s/**/*.sh": "[s/a.sh s/b.sh s/deep/c.sh]", "s": "[s/a.sh s/b.sh s/d.txt s/deep/c.sh]", "none/*": "[]", "s/d.txt": "[s/d.txt]",
	} {
		got, err := NewDir(dir).Glob(pattern)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", pattern, got, err, want)
		}
	}
}

// writeEntries makes an index of entries with texts.
func writeEntries(t *testing.T, path string, head indexHead, entries []entry, texts string) {
	t.Helper()
	all := func(yield func(entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
	if err := writeIndex(path, head, all, io.NewSectionReader(strings.NewReader(texts), 0, int64(len(texts)))); err != nil {
		t.Fatal(err)
	}
}

// made makes an index of n items and returns their digests.
func made(t *testing.T, path string, n int, keyed bool) []digest {
	t.Helper()
	var ids []digest
	var entries []entry
	var texts strings.Builder
	for i := range n {
		id := digestOf(fmt.Append(nil, "item ", i))
		ids = append(ids, id)
		text := fmt.Sprintf("text %d", i/4)
		entries = append(entries, entry{
			Raw: digestOf(fmt.Append(nil, "raw ", i)), Data: id, ID: id, Index: i, Group: i%3 - 1, OK: i%5 != 0,
			Row: span{int64(i) * 10, 10}, Text: span{int64(texts.Len()), len(text)},
		})
		texts.WriteString(text)
	}
	head := indexHead{Keyed: keyed, Jobs: []events.Fingerprint{{Steps: "a"}, {Steps: "b"}}, Seq: 42, Results: "sum"}
	writeEntries(t, path, head, entries, texts.String())
	return ids
}

func TestAnIndexFindsWhatWasAdded(t *testing.T) {
	for _, n := range []int{0, 1, 2, 511, 512, 513, 5000} {
		path := filepath.Join(t.TempDir(), "index")
		ids := made(t, path, n, n%2 == 0)
		x, err := openIndex(path)
		if err != nil {
			t.Fatal(err)
		}
		if x.Seq != 42 || x.Results != "sum" || len(x.Jobs) != 2 || x.Entries != n {
			t.Fatalf("%+v", x.indexHead)
		}
		order := rand.New(rand.NewPCG(1, uint64(n))).Perm(n)
		for i := range n {
			inTurn, ok, err := x.Next()
			if err != nil || !ok || inTurn.Index != i {
				t.Fatalf("entry %d: %+v, %t, %v", i, inTurn, ok, err)
			}
			x.next = inTurn.number + 1
			e, found, err := x.Find(ids[order[i]])
			if err != nil || !found || e.Index != order[i] || e.Group != order[i]%3-1 || e.OK != (order[i]%5 != 0) || e.Row != (span{int64(order[i]) * 10, 10}) {
				t.Fatalf("item %d: %+v, %t, %v", order[i], e, found, err)
			}
			if text, err := x.Text(e); err != nil || string(text) != fmt.Sprintf("text %d", order[i]/4) {
				t.Fatalf("item %d: %s, %v", order[i], text, err)
			}
		}
		if _, ok, err := x.Next(); ok || err != nil {
			t.Fatal("an entry behind the last", err)
		}
		if _, found, err := x.Find(digestOf([]byte("another"))); found || err != nil {
			t.Fatal("found what is not there", err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOfEqualItemsOneThatSucceededIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	id := digestOf([]byte("the same"))
	var entries []entry
	for i := range 1000 {
		entries = append(entries, entry{Data: id, Index: i, OK: i == 3})
	}
	writeEntries(t, path, indexHead{}, entries, "")
	x, err := openIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.Close() }()
	if e, found, err := x.Find(id); err != nil || !found || e.Index != 3 {
		t.Errorf("%+v, %t, %v", e, found, err)
	}
}

func TestADamagedIndexIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	made(t, path, 5, false)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 0x10
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if x, err := openIndex(path); err == nil {
			_ = x.Close()
			t.Fatalf("byte %d of %d was changed, and nobody noticed", i, len(whole))
		}
	}
	for i := range whole {
		if err := os.WriteFile(path, whole[:i], 0o600); err != nil {
			t.Fatal(err)
		}
		if x, err := openIndex(path); err == nil {
			_ = x.Close()
			t.Fatalf("%d of %d bytes are left, and nobody noticed", i, len(whole))
		}
	}
}
