package retry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// What is not among Types cannot be asked for, as with dlq list --type.
func TestEveryTypeThatIsDeclaredIsListed(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []Type
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Type" {
				return true
			}
			for _, value := range spec.Values {
				if text, ok := value.(*ast.BasicLit); ok {
					name, _ := strconv.Unquote(text.Value)
					declared = append(declared, Type(name))
				}
			}
			return true
		})
	}
	if len(declared) < 20 {
		t.Fatalf("found the types %q only", declared)
	}
	listed := Types()
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(listed, declared) {
		t.Errorf("got the types %q, want %q", listed, declared)
	}
	for _, name := range MatcherNames() {
		if !slices.Contains(listed, Type(name)) {
			t.Errorf("retry_on can name %s, which is not listed", name)
		}
	}
}
