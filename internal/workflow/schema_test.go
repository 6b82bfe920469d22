package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
	"prodigy/internal/testenv"
)

const draft = "http://json-schema.org/draft-07/schema#"

// document returns the schema of a workflow file.
func (l *language) document() node {
	definitions := node{}
	for _, d := range l.blocks {
		definitions[d.name] = d.schema()
	}
	return node{
		"$schema":     draft,
		"title":       "prodigy workflow",
		"anyOf":       []node{reference("workflow.Workflow", "").schema, l.steps().schema},
		"definitions": definitions,
	}
}

// schema returns the schema of a block.
func (d *described) schema() node {
	properties := node{}
	var rules []node
	var required []string
	for _, k := range d.keys {
		if k.required() {
			required = append(required, k.name)
		}
		properties[k.name] = k.schema(k.meaning)
		if k.alias != "" {
			properties[k.alias] = k.schema("another word for " + k.name)
			rules = append(rules, notBoth(k.name, k.alias))
		}
	}
	s := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	if rules = append(rules, shape(d.name)...); len(rules) > 0 {
		s["allOf"] = rules
	}
	return s
}

// schema returns the schema of a key's value, with what editors show of the key.
func (k keyDoc) schema(meaning string) node {
	s := node{"description": meaning}
	maps.Copy(s, k.form.schema)
	if k.standard != "" && !k.required() {
		s["description"] = meaning + " (default " + k.standard + ")"
	}
	if value, ok := k.standardValue(); ok {
		s["default"] = value
	}
	return s
}

// required reports whether a block must have the key.
func (k keyDoc) required() bool { return k.standard == "required" }

var simpleValue = regexp.MustCompile(`^([0-9.]+|true|false|([0-9]+(ns|us|ms|s|m|h|d))+)$`)

// standardValue returns the default of a key where it is a value that could have been written.
func (k keyDoc) standardValue() (any, bool) {
	if !slices.Contains(k.form.enum, k.standard) && !simpleValue.MatchString(k.standard) {
		return nil, false
	}
	var v any
	return v, yaml.Unmarshal([]byte(k.standard), &v) == nil
}

func notBoth(a, b string) node { return node{"not": node{"required": []string{a, b}}} }

// oneOfKeys says that exactly one of the keys is there.
func oneOfKeys(names ...string) node {
	var each []node
	for _, name := range names {
		each = append(each, node{"required": []string{name}})
	}
	return node{"oneOf": each}
}

// oneKind says that a step has one command key; beside another, validate belongs to that.
func oneKind() node {
	var others []node
	names := []string{"test"}
	for _, name := range Kinds() {
		if name != "validate" {
			names = append(names, name)
		}
	}
	for _, name := range names {
		others = append(others, node{"required": []string{name}})
	}
	alone := node{"required": []string{"validate"}, "not": node{"anyOf": others}}
	return node{"anyOf": []node{oneOfKeys(names...), alone}}
}

// shape returns what a block must have that its keys alone do not say.
func shape(block string) []node {
	switch block {
	case "workflow.Workflow":
		needsMap := node{}
		for _, name := range []string{"setup", "reduce", "merge", "handlers"} {
			needsMap[name] = []string{"map"}
		}
		return []node{oneOfKeys("commands", "steps", "map"), {"dependencies": needsMap}, {
			"if":   node{"required": []string{"mode"}, "properties": node{"mode": node{"const": MapReduce}}},
			"then": node{"required": []string{"map"}},
		}, {
			"if":   node{"required": []string{"mode"}, "properties": node{"mode": node{"const": Standard}}},
			"then": node{"not": node{"required": []string{"map"}}},
		}}
	case "workflow.OnFailure-commands":
		return []node{{"required": []string{"commands"}}}
	case "workflow.envForm-value":
		return []node{{"required": []string{"value"}}}
	case "workflow.envForm-command":
		return []node{{"required": []string{"command"}}}
	case "workflow.envForm-condition":
		return []node{{"required": []string{"condition", "when_true", "when_false"}}}
	case "workflow.Secret":
		return []node{oneOfKeys("file", "command")}
	case "workflow.Parameter":
		return []node{{"not": node{"required": []string{"required", "default"}, "properties": node{"required": node{"const": true}}}}}
	case "workflow.Map":
		return []node{notBoth("batch", "key")}
	case "workflow.Input":
		only := func(key string, formats ...string) node {
			then := node{"required": []string{"format"}, "properties": node{"format": node{"enum": formats}}}
			return node{"if": node{"required": []string{key}}, "then": then}
		}
		return []node{oneOfKeys("file", "command", "glob", "stdin", "job"), only("delimiter", "csv", "lines"), only("split", "lines", "nul")}
	case "workflow.OnIncomplete-commands", "workflow.Validate":
		return []node{{"required": []string{"commands"}}}
	case "workflow.Step", "workflow.Step-handling", "workflow.Step-mending", "workflow.Step-validating":
		return []node{oneKind(), notBoth("with", "retry"), notBoth("with", "retry_config"), notBoth("capture", "capture_output")}
	}
	if strings.HasPrefix(block, "retry.Backoff-typed") {
		return []node{{"required": []string{"type"}}, notBoth("base", "multiplier")}
	}
	if strings.HasPrefix(block, "retry.Backoff") {
		return []node{notBoth("base", "multiplier")}
	}
	return nil
}

func TestTheSchemaIsThatOfTheTypes(t *testing.T) {
	compareMade(t, "schema.json", madeSchema(t))
}

// madeSchema returns the schema that the types and their comments make.
func madeSchema(t *testing.T) string {
	t.Helper()
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(typesOf(t).document()); err != nil {
		t.Fatal(err)
	}
	return made.String()
}

// compareMade compares a file that is made from the types with what they make now, or writes it.
func compareMade(t *testing.T, file, made string) {
	t.Helper()
	if t.Failed() {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), made); diff != "" {
		t.Errorf("%s is stale: run `go test ./internal/workflow -update` (-file +types):\n%s", filepath.Base(file), diff)
	}
}

// validator checks documents against the schema that the types make now. Schema returns the one of
// schema.json, which is stale while -update writes it.
type validator struct{ schema *jsonschema.Schema }

func newValidator(t *testing.T) validator {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(madeSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("workflow.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("workflow.json")
	if err != nil {
		t.Fatal(err)
	}
	return validator{s}
}

// check returns what the schema says of a document.
func (v validator) check(t *testing.T, n *yaml.Node) error {
	t.Helper()
	r := newReader("w.yml", nil, ParseOptions{})
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.json(nil, resolveAlias(n))))
	if err != nil {
		t.Fatal(err)
	}
	return v.schema.Validate(doc)
}

// readerSays returns what the reader says of a document.
func readerSays(n *yaml.Node) string {
	r := newReader("w.yml", nil, ParseOptions{})
	r.root(entry{name: "workflow", value: n})
	if len(r.problems) == 0 {
		return ""
	}
	return (&InvalidError{Problems: r.problems}).Error()
}

func parseNode(t *testing.T, data []byte) *yaml.Node {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		t.Fatal(err)
	}
	return n.Content[0]
}

func TestTheSchemaAcceptsEveryValidFile(t *testing.T) {
	v := newValidator(t)
	for _, file := range glob(t, "testdata/valid/*.yml", "../../testdata/workflows/*.yml", "../../examples/*/*.yml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(file, data, ParseOptions{}); err != nil {
			continue // a file that is wrong on purpose
		}
		if err := v.check(t, parseNode(t, data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func glob(t *testing.T, patterns ...string) []string {
	t.Helper()
	var files []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

var schemaValues = []string{"0", "-3", "1.5", "x", `""`, "0s", "true", "null", "[]", "{x: 1}", "[{shell: a}]"}

// Whatever the reader accepts, the schema accepts: no editor marks a file that runs. And what the reader
// refuses the schema refuses too, but for what no schema can say. Each value of the file that holds every key
// is replaced by each of these.
func TestTheSchemaAndTheReaderAgreeOnEveryValue(t *testing.T) {
	v := newValidator(t)
	for i, value := range schemaValues {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			replaceEach(t, v, value, i)
		})
	}
}

// replaceEach compares what the schema and the reader say of the file in which value stands in place of each
// value in turn, or of a sample of them, which is another one for each first.
func replaceEach(t *testing.T, v validator, value string, first int) {
	n, place := testenv.OneIn(40, 10), first
	root, replacement := everything(t), parseNode(t, []byte(value))
	eachValue(root, func(node *yaml.Node) {
		if place++; place%n != 0 {
			return
		}
		before := *node
		defer func() { *node = before }()
		*node = *replacement
		reader, schema := readerSays(root), v.check(t, root)
		switch {
		case reader == "" && schema != nil:
			t.Errorf("line %d, in place of %q: the reader accepts it, the schema says %v", before.Line, before.Value, schema)
		case reader != "" && schema == nil && !beyondSchema.MatchString(reader):
			t.Errorf("line %d, in place of %q: the schema accepts it, the reader says %s", before.Line, before.Value, reader)
		}
	})
}

// No file has room for every strategy, so each of its parameters is tried by itself.
func TestTheSchemaAndTheReaderAgreeOnEveryParameterOfABackoff(t *testing.T) {
	v := newValidator(t)
	for _, strategy := range retry.Strategies() {
		parameters, _ := retry.Parameters(strategy)
		for _, parameter := range parameters {
			for _, value := range schemaValues {
				for _, form := range []string{"{%s: {%s: %s}}", "{type: %s, %s: %s}"} {
					backoff := fmt.Sprintf(form, strategy, parameter, value)
					root := parseNode(t, []byte("[{shell: a, retry_config: {backoff: "+backoff+"}}]"))
					if reader, schema := readerSays(root), v.check(t, root); (reader == "") != (schema == nil) {
						t.Errorf("%s: the reader says %q, the schema %v", backoff, reader, schema)
					}
				}
			}
		}
	}
}

// beyondSchema is what the reader says about mistakes that no schema finds.
var beyondSchema = regexp.MustCompile(`unknown handler|neither a kind of step|is already used|is set twice|` +
	`cannot be used with the on_failure|contains a NUL|requires "capture"|is only for shell steps|default: parameter|` +
	`ramp must be increasing|the last step of ramp`)

// eachValue calls do for each value of a mapping or list below n, the innermost first.
func eachValue(n *yaml.Node, do func(*yaml.Node)) {
	for i, child := range n.Content {
		eachValue(child, do)
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			do(child)
		}
	}
}

func TestTheSchemaRefusesWhatIsBuiltWrong(t *testing.T) {
	v := newValidator(t)
	root := everything(t)
	mappings(root, "root", func(n *yaml.Node, key string) {
		before := n.Content
		defer func() { n.Content = before }()
		n.Content = append(slices.Clone(before), parseNode(t, []byte("zzzzzz: 1")).Content...)
		if v.check(t, root) == nil {
			t.Errorf("in %s: an unknown key is accepted", key)
		}
	})
	for _, file := range glob(t, "testdata/invalid/*.yml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, reader := Parse(file, data, ParseOptions{})
		var n yaml.Node
		if yaml.Unmarshal(data, &n) != nil || len(n.Content) == 0 || !newReader(file, data, ParseOptions{}).inspect(&n) {
			continue // which no schema gets to see
		}
		if v.check(t, n.Content[0]) == nil && !beyondSchema.MatchString(reader.Error()) {
			t.Errorf("%s: the schema accepts it, the reader says %v", file, reader)
		}
	}
}
