package prodigy_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is the picture of the packages: which of them, and which outside modules, each may import besides the standard
// library. A package that is not here may not exist. Tests are free.
var allowed = map[string][]string{
	"examples":    {},
	"cmd/prodigy": {"cli", "natsfleet"},
	"internal/cli": {
		"agent", "ai", "check", "dlq", "duration", "errorpolicy", "events", "filter", "fleet", "items", "job", "jobs", "limit", "mapreduce", "mask", "outputs", "process", "rawjson", "retry", "reuse", "settings", "shell", "simulate", "telemetry", "term", "view", "web", "workflow",
		"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sync", "gopkg.in/yaml.v3",
	},

	"lab": {},
	"lab/bench": {
		"events", "items", "job", "jobs", "mapreduce", "process", "workflow",
		"github.com/ohler55/ojg",
	},
	"lab/chaos":    {"testenv", "github.com/nats-io/nats.go", "github.com/nats-io/nkeys"},
	"lab/damage":   {"dlq", "events", "job", "jobs", "mapreduce", "process", "workflow"}, // it does what a user does, without the start of a program
	"lab/live":     {"gopkg.in/yaml.v3"},
	"lab/rationed": {},
	"lab/release":  {"golang.org/x/crypto/x509roots"},
	"lab/torture":  {"github.com/klauspost/compress", "gopkg.in/yaml.v3"},
	"lab/try":      {},

	"internal/natsfleet": {
		"agent", "ai", "check", "duration", "events", "fleet", "gitspace", "jobs", "limit", "mapreduce", "mask", "outputs", "process", "rawjson", "retry", "reuse",
		"github.com/go-json-experiment/json", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "golang.org/x/sync", "gopkg.in/yaml.v3",
	},
	"internal/fleet": {"agent", "events", "limit", "mapreduce", "outputs", "workflow", "gopkg.in/yaml.v3"}, // limit: a worker looks at its own machine
	"internal/mapreduce": {
		"agent", "ai", "check", "dlq", "duration", "errorpolicy", "events", "gitspace", "items", "job", "jobs", "limit", "limits", "outputs", "process", "retry", "reuse", "settings", "workflow",
		"golang.org/x/sync",
	},
	"internal/reuse": {
		"agent", "check", "errorpolicy", "events", "filter", "items", "job", "jobs", "process", "rawjson", "settings", "workflow",
		"github.com/bmatcuk/doublestar/v4",
	},
	"internal/job": {
		"agent", "check", "dlq", "errorpolicy", "events", "items", "jobs", "limit", "limits", "mask", "outputs", "process", "retry", "workflow",
		"golang.org/x/sync",
	},
	"internal/agent":    {"ai", "check", "duration", "events", "filter", "limit", "mask", "outputs", "process", "rawjson", "retry", "shell", "shell/template", "workflow", "github.com/google/jsonschema-go", "github.com/google/uuid", "golang.org/x/sync", "gopkg.in/yaml.v3"},
	"internal/gitspace": {"agent", "check", "duration", "events", "jobs", "term", "process", "retry", "workflow", "golang.org/x/sys"},
	"internal/telemetry": {
		"check", "duration", "errorpolicy", "events", "jobs", "limit", "rawjson", "term", "process", "settings", "view", "workflow",
		"go.opentelemetry.io/otel", "golang.org/x/net",
	},
	"internal/view":        {"check", "duration", "errorpolicy", "events", "jobs", "limit", "outputs", "rawjson", "retry", "term", "workflow"},
	"internal/web":         {"check", "dlq", "duration", "events", "job", "jobs", "outputs", "retry", "term", "view", "golang.org/x/net", "golang.org/x/sync"},
	"internal/dlq":         {"check", "events", "filter", "jobs", "rawjson", "retry"},
	"internal/events":      {"check", "duration", "errorpolicy", "jobs", "limit", "outputs", "rawjson", "retry", "golang.org/x/sync"},
	"internal/outputs":     {"check", "jobs", "process", "github.com/go-json-experiment/json", "golang.org/x/sync"},
	"internal/ai":          {"check", "duration", "filter", "term", "rawjson", "retry", "workflow", "gopkg.in/yaml.v3"},
	"internal/items":       {"check", "filter", "jobs", "process", "rawjson", "workflow", "github.com/bmatcuk/doublestar/v4", "golang.org/x/sys", "github.com/go-json-experiment/json", "github.com/ohler55/ojg", "golang.org/x/sync"},
	"internal/filter":      {"check", "rawjson"},
	"internal/jobs":        {"check", "duration", "github.com/gofrs/flock", "github.com/klauspost/compress"},
	"internal/workflow":    {"check", "duration", "errorpolicy", "limit", "outputs", "rawjson", "retry", "shell", "gopkg.in/yaml.v3"},
	"internal/errorpolicy": {"check", "limit", "retry"},
	"internal/simulate":    {"agent", "ai", "check", "duration", "events", "filter", "gitspace", "items", "jobs", "job", "limit", "mapreduce", "process", "retry", "reuse", "settings", "term", "view", "workflow", "github.com/bmatcuk/doublestar/v4"},
	"internal/limits":      {"errorpolicy", "events", "limit", "retry", "workflow"}, // it reads records; what is pure is in limit
	"internal/limit":       {"check", "duration", "github.com/gofrs/flock"},
	"internal/check":       {},
	"internal/retry":       {"check", "duration", "limit"},
	"internal/shell":       {"check", "mvdan.cc/sh/v3"},
	"internal/settings":    {"check", "filter", "items", "mask", "process", "shell", "shell/template", "workflow", "gopkg.in/yaml.v3"},
	"internal/mask":        {"github.com/go-json-experiment/json"},
	"internal/process":     {"check", "duration", "shell", "golang.org/x/sync", "golang.org/x/sys"},
	"internal/term":        {"check", "rawjson", "github.com/clipperhouse/displaywidth", "github.com/vbauerster/mpb/v8/cwriter", "golang.org/x/sys", "golang.org/x/term"},
	"internal/duration":    {},
	"internal/testenv":     {"golang.org/x/sys"}, // for tests and lab/chaos

	"internal/shell/template":  {"check", "filter", "process", "rawjson", "shell", "mvdan.cc/sh/v3", "github.com/bmatcuk/doublestar/v4"},
	"internal/testenv/scripts": {"testenv", "github.com/rogpeppe/go-internal"}, // for tests

	"internal/rawjson": {"github.com/go-json-experiment/json"},
}

func TestPackagesImportOnlyWhatThePictureAllows(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range sources(t, "cmd", "examples", "internal", "lab") {
		pkg := filepath.ToSlash(filepath.Dir(path))
		seen[pkg] = true
		checkImports(t, pkg, path)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("package %s is in the map, but there is none", pkg)
		}
	}
}

// sources returns the Go files below roots, but for tests and their data.
func sources(t *testing.T, roots ...string) []string {
	t.Helper()
	var paths []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.Name() == "testdata":
				return filepath.SkipDir
			case !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				paths = append(paths, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

func checkImports(t *testing.T, pkg, path string) {
	t.Helper()
	may, known := allowed[pkg]
	if !known {
		t.Errorf("package %s is not in the map", pkg)
		return
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Error(err)
			continue
		}
		if !permitted(imported, may) {
			t.Errorf("%s imports %s; package %s may import the standard library and %v", path, imported, pkg, may)
		}
	}
}

func permitted(imported string, may []string) bool {
	if own, ok := strings.CutPrefix(imported, "prodigy/internal/"); ok {
		return slices.Contains(may, own)
	}
	if strings.HasPrefix(imported, "prodigy/lab/") {
		return true
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true
	}
	return slices.ContainsFunc(may, func(module string) bool {
		return imported == module || strings.HasPrefix(imported, module+"/")
	})
}
