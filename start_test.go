package prodigy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// costly are packages of the standard library that are felt at each start of the program, and who may import them all the same.
var costly = map[string][]string{
	"net/http":      {"internal/cli", "internal/metrics", "internal/notify", "internal/otlp", "internal/ui"},
	"encoding/xml":  {},
	"html/template": {"internal/report", "internal/ui"},
	"text/template": {},
	"expvar":        {},
	"log/syslog":    {},
}

// prepared are functions whose results are not to be variables of a package: every call of the program would pay for them.
// sync.OnceValue has them made when they are needed.
var prepared = map[string][]string{
	"regexp":   {"Compile", "MustCompile"},
	"template": {"New", "Must"},
	"crc32":    {"MakeTable"},
	"crc64":    {"MakeTable"},
	"zstd":     {"NewReader", "NewWriter"},
}

// sampled are functions that have the runtime sample allocations from the start on, as soon as a program can call one of them.
var sampled = map[string][]string{
	"runtime": {"MemProfile"},
	"pprof":   {"Lookup", "NewProfile", "Profiles", "WriteHeapProfile"},
}

func TestNothingCostlyIsMadeAtTheStart(t *testing.T) {
	for _, path := range sources(t, "cmd", "internal") {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			may, known := costly[imported]
			if err != nil || known && !slices.Contains(may, filepath.ToSlash(filepath.Dir(path))) {
				t.Errorf("%s imports %s (%v), which costs at each start", path, imported, err)
			}
		}
		checkSampled(t, path, file)
		for _, decl := range file.Decls {
			if vars, ok := decl.(*ast.GenDecl); ok {
				checkPrepared(t, path, vars)
			}
		}
	}
}

// checkPrepared looks for calls in decl that are not left for later by a function around them.
func checkPrepared(t *testing.T, path string, decl *ast.GenDecl) {
	t.Helper()
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(prepared[pkg.Name], n.Sel.Name) {
				t.Errorf("%s: %s.%s is called for a variable of the package", path, pkg.Name, n.Sel.Name)
			}
		case *ast.FuncLit:
			return false
		}
		return true
	})
}

// checkSampled looks for what makes a memory profile.
func checkSampled(t *testing.T, path string, file *ast.File) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && slices.Contains(sampled[pkg.Name], s.Sel.Name) {
				t.Errorf("%s uses %s.%s, with which every start samples its memory", path, pkg.Name, s.Sel.Name)
			}
		}
		return true
	})
}
