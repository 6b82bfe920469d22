package workflow

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// everything is a valid file that holds each key of the language that has a place beside the others.
func everything(t *testing.T) *yaml.Node {
	t.Helper()
	return valid(t, "everything")
}

func valid(t *testing.T, name string) *yaml.Node {
	t.Helper()
	data, err := os.ReadFile("testdata/valid/" + name + ".yml")
	if err != nil {
		t.Fatal(err)
	}
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		t.Fatal(err)
	}
	return n.Content[0]
}

// mappings calls do for each mapping whose keys the language fixes, with the key that it is the value of.
func mappings(n *yaml.Node, key string, do func(n *yaml.Node, key string)) {
	free := []string{"env", "handlers", "command_timeouts", "secrets", "parameters", "profiles", "profile", "default", "agents"}
	if n.Kind == yaml.MappingNode && !slices.Contains(free, key) {
		do(n, key)
	}
	for i, child := range n.Content {
		under := key
		if n.Kind == yaml.MappingNode {
			under = n.Content[i-i%2].Value
			if key == "profiles" {
				under = "profile"
			}
		}
		mappings(child, under, do)
	}
}

func encode(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var buf bytes.Buffer
	if err := yaml.NewEncoder(&buf).Encode(n); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestAnUnknownKeyIsRefusedAtEveryLevel(t *testing.T) {
	root := everything(t)
	count := 0
	mappings(root, "root", func(n *yaml.Node, key string) {
		count++
		before := n.Content
		defer func() { n.Content = before }()
		n.Content = append(slices.Clone(before),
			&yaml.Node{Kind: yaml.ScalarNode, Value: "zzzzzz"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "1"})
		text := encode(t, root)
		line, col := placeOf(text, "zzzzzz")
		want := fmt.Sprintf("w.yml:%d:%d: unknown key \"zzzzzz\" in ", line, col)
		if got := problems(t, text); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("in %s: got %s, want %s", key, got, want)
		}
	})
	if count < 40 {
		t.Errorf("got %d mappings, want the whole file", count)
	}
}

// placeOf returns where in the text a word stands.
func placeOf(text, word string) (line, col int) {
	before, _, _ := strings.Cut(text, word)
	return strings.Count(before, "\n") + 1, len(before) - strings.LastIndex(before, "\n")
}

func TestAKeyWrittenTwiceIsRefusedAtEveryLevel(t *testing.T) {
	root := everything(t)
	mappings(root, "root", func(n *yaml.Node, key string) {
		before := n.Content
		defer func() { n.Content = before }()
		n.Content = append(slices.Clone(before), before[:2]...)
		want := fmt.Sprintf("key %q is set twice", before[0].Value)
		if got := problems(t, encode(t, root)); !strings.Contains(got, want) {
			t.Errorf("in %s: got %q, want %s", key, got, want)
		}
	})
}

func TestEveryTagOfTheTypesIsRead(t *testing.T) {
	written := map[string]bool{}
	for _, name := range []string{"everything", "concurrency", "batch", "glob", "stdin", "command", "job"} {
		mappings(valid(t, name), "root", func(n *yaml.Node, _ string) {
			for i := 0; i < len(n.Content); i += 2 {
				written[n.Content[i].Value] = true
			}
		})
	}
	blocks := []any{
		Workflow{},
		Phase{},
		Map{},
		Input{},
		ReduceWhen{},
		Timeouts{},
		Step{},
		OnFailure{},
		WriteFile{},
		Validate{},
		OnIncomplete{},
		Foreach{},
		callOptions{},
		envForm{},
		Secret{},
		Parameter{},
		retry.Policy{},
		retry.Backoff{},
		errorpolicy.Policy{},
		limit.BreakerConfig{},
		limit.StragglerConfig{},
	}
	for _, block := range blocks {
		typ := reflect.TypeOf(block)
		for field := range typ.Fields() {
			tag := field.Tag
			name, alias := tag.Get("yaml"), tag.Get("alias")
			if name != "" && !written[name] && !written[alias] {
				t.Errorf("%s.%s: the key %q is in no valid file", typ, field.Name, name)
			}
		}
	}
}

// A value that is no pointer cannot tell a key that is written with its zero value from one that is not.
func TestTheKeyOfEachKindOfStepIsAPointer(t *testing.T) {
	for field := range reflect.TypeFor[Step]().Fields() {
		if slices.Contains(Kinds(), field.Tag.Get("yaml")) && field.Type.Kind() != reflect.Pointer {
			t.Errorf("Step.%s is a %s, want a pointer", field.Name, field.Type)
		}
	}
}
