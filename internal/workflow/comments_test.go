package workflow

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// comments are what the sources say about the types of the language.
type comments struct {
	fields map[string]string // by package, type and field: "retry.Policy.Attempts"
}

// readComments reads the packages whose types make up the language.
func readComments(t *testing.T) comments {
	t.Helper()
	c := comments{fields: map[string]string{}}
	for _, dir := range []string{".", "../retry", "../errorpolicy", "../limit", "../outputs", "../spend"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			c.file(file)
		}
	}
	return c
}

func (c comments) file(file *ast.File) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok {
				c.structure(file.Name.Name+"."+s.Name.Name, s.Type)
			}
		}
	}
}

// structure keeps the comments above and behind the fields of a struct.
func (c comments) structure(name string, typ ast.Expr) {
	s, ok := typ.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range s.Fields.List {
		text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
		for _, ident := range field.Names {
			c.fields[name+"."+ident.Name] = text
		}
	}
}
