package prodigy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/adding.md sends people to files and to names in them. A path is there, and each name behind it is declared in that file.
func TestEveryPlaceForNewThingsExists(t *testing.T) {
	data, err := os.ReadFile("docs/adding.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue // no row of the table
		}
		path := ""
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			switch word := m[1]; {
			case strings.Contains(word, " "): // a command line
			case strings.Contains(word, "/") || strings.HasSuffix(word, ".go"):
				path = word
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s: %v", strings.TrimSpace(cells[1]), err)
				}
			case !declared(t, path)[word]:
				t.Errorf("%s: %s declares no %s", strings.TrimSpace(cells[1]), path, word)
			}
		}
	}
}

// declared returns the names that a Go file declares at its top level, methods as Type.Method.
func declared(t *testing.T, path string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, name := range specNames(spec) {
					names[name] = true
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

func specNames(spec ast.Spec) []string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return []string{s.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, n := range s.Names {
			names = append(names, n.Name)
		}
		return names
	}
	return nil
}

// What an action does to its item and its job is in its row of the table in internal/errorpolicy/action.go. Code elsewhere that compared
// an action with one of the names would treat a new one like none of them.
func TestOnlyTheTableKnowsWhatAnActionDoes(t *testing.T) {
	named := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && pkg.Name == "errorpolicy" && slices.Contains([]string{"DLQ", "Skip", "Stop"}, sel.Sel.Name)
	}
	for _, path := range sources(t, "cmd", "internal") {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (named(n.X) || named(n.Y)) {
					t.Errorf("%s compares an action with a name: ask Action or its Status", path)
				}
			case *ast.CaseClause:
				if slices.ContainsFunc(n.List, named) {
					t.Errorf("%s switches on the names of actions: ask Action or its Status", path)
				}
			}
			return true
		})
	}
}
