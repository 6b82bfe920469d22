package natsfleet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// What one side of a fleet can say, it says somewhere, and the other side takes it.
func TestWhatIsSaidIsTaken(t *testing.T) {
	kinds := constantsOf(t, "../fleet/messages.go", func(name, typ string) bool { return typ == "ReportKind" })
	calls := constantsOf(t, "calls.go", func(name, _ string) bool { return strings.HasPrefix(name, "call") && name != "callKept" })
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	said, taken := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				said[nameOf(n.Value)] = true
				taken[nameOf(n.Key)] = true
			case *ast.CallExpr:
				for _, arg := range n.Args {
					said[nameOf(arg)] = true
				}
			case *ast.CaseClause:
				for _, value := range n.List {
					taken[nameOf(value)] = true
				}
			case *ast.BinaryExpr:
				taken[nameOf(n.Y)] = taken[nameOf(n.Y)] || n.Op == token.EQL || n.Op == token.NEQ
			}
			return true
		})
	}
	if len(kinds) < 5 || len(calls) < 5 {
		t.Fatalf("found %d kinds of reports and %d calls", len(kinds), len(calls))
	}
	for _, name := range append(kinds, calls...) {
		if !said[name] {
			t.Errorf("no worker says %s", name)
		}
		if !taken[name] {
			t.Errorf("the coordinator has no case for %s: see coordinator.endReported, coordinator.relay and coordinator.invoke", name)
		}
	}
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// nameOf returns the name of a variable or constant, without its package; "" for any other expression.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// constantsOf returns the names of the constants of a file that choose picks by their names and types.
func constantsOf(t *testing.T, path string, choose func(name, typ string) bool) (names []string) {
	t.Helper()
	for _, decl := range parsed(t, path).Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			for _, name := range v.Names {
				if choose(name.Name, nameOf(v.Type)) {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
