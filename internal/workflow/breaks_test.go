package workflow

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// How lines end and whether a byte order mark comes first is an editor's choice: the workflow read is the same, and so are the
// problems told and their places.
func TestLineEndsOfAnyEditorChangeNothing(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*/*.yml", "../../testdata/workflows/*.yml", "../../examples/*/*.yml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		want, wantErr := Parse("w.yml", data, ParseOptions{})
		for name, other := range map[string]string{
			"CRLF": strings.ReplaceAll(text, "\n", "\r\n"),
			"BOM":  "\ufeff" + text,
			"both": "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"),
		} {
			got, gotErr := Parse("w.yml", []byte(other), ParseOptions{})
			if diff := cmp.Diff(told(wantErr), told(gotErr)); diff != "" {
				t.Errorf("%s with %s: problems (-want +got):\n%s", file, name, diff)
			}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("%s with %s: got %+v, want %+v", file, name, got, want)
			}
		}
	}
}

func told(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
