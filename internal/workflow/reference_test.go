package workflow

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
)

// TestTheReferenceIsThatOfTheTypes makes docs/workflow.md of testdata/reference.md, in which a line {{block}} stands for the
// table of a block's keys.
func TestTheReferenceIsThatOfTheTypes(t *testing.T) {
	l := typesOf(t)
	data, err := os.ReadFile("testdata/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, d := range l.blocks {
		if d.title == "" {
			continue // a part of another block, whose text tells the difference
		}
		mark := "{{" + d.name + "}}\n"
		if !strings.Contains(text, "\n## "+d.title+"\n") || strings.Count(text, mark) != 1 {
			t.Errorf("testdata/reference.md needs a section %q and in it the line {{%s}}", "## "+d.title, d.name)
		}
		text = strings.Replace(text, mark, d.table(everything(t)), 1)
	}
	text = strings.Replace(text, "{{strategies}}", strategies(), 1)
	if _, rest, left := strings.Cut(text, "{{"); left {
		t.Errorf("testdata/reference.md has a mark that stands for nothing: {{%.30s", rest)
	}
	compareMade(t, "../../docs/workflow.md", text)
}

// strategies lists the strategies of backoff, each with its parameters.
func strategies() string {
	var all []string
	for _, s := range retry.Strategies() {
		parameters, _ := retry.Parameters(s)
		all = append(all, "`"+string(s)+"`: "+strings.Join(code(parameters), ", "))
	}
	return strings.Join(all, "; ")
}

// The reference shows how the delays of each strategy grow: "| backoff | formula | the first delays |".
func TestTheReferenceShowsEveryBackoff(t *testing.T) {
	data, err := os.ReadFile("../../docs/workflow.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "\n| `backoff` | delay before")
	table, _, _ = strings.Cut(table, "\n\n")
	shown := map[retry.Strategy]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue // the rest of the header
		}
		backoff := strings.Split(cells[1], "`")[1]
		w := parse(t, "- {shell: a, retry_config: {attempts: 5, initial_delay: 1s, backoff: "+backoff+"}}")
		policy := w.Commands[0].Retry
		shown[policy.Backoff.Strategy] = true
		for i, want := range strings.Fields(cells[3]) {
			if got := strconv.FormatFloat(policy.Computed(i+1).Seconds(), 'g', -1, 64); got != want {
				t.Errorf("docs/workflow.md, %s, delay %d: got %s, want %s", backoff, i+1, want, got)
			}
		}
	}
	for _, s := range retry.Strategies() {
		if !shown[s] {
			t.Errorf("testdata/reference.md: the strategy %s has no row in the table of backoffs", s)
		}
	}
}

// table returns the keys of a block as a table of Markdown.
func (d *described) table(examples *yaml.Node) string {
	var b strings.Builder
	b.WriteString("| key | value | default | meaning | for example |\n| --- | --- | --- | --- | --- |\n")
	for _, k := range d.keys {
		names := "`" + k.name + "`"
		if k.alias != "" {
			names += ", `" + k.alias + "`"
		}
		example := ""
		if text := d.example(examples, k); text != "" {
			example = "`" + text + "`"
		}
		cells := []string{names, k.form.words, k.defaultCell(), k.meaning, example}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

// defaultCell returns the default, as code where it is a value.
func (k keyDoc) defaultCell() string {
	if _, isValue := k.standardValue(); isValue {
		return "`" + k.standard + "`"
	}
	return k.standard
}

// under are the keys under which the mappings of a block stand, where those are not the title of the block.
var under = map[string][]string{
	"workflow":     {"root"},
	"phase":        {"setup", "reduce", "merge"},
	"step":         {"commands", "agent_template", "setup", "reduce", "merge", "notify"},
	"retry_config": {"retry_config", "retry", "retry_defaults"},
	"backoff":      {"fixed", "linear", "exponential", "fibonacci", "custom", "backoff"},
}

// example returns how a key is written in the file that holds them all, if that is short: in this block, or else in any.
func (d *described) example(root *yaml.Node, k keyDoc) string {
	const longest = 70
	places := under[d.title]
	if places == nil {
		places = []string{d.title}
	}
	var here, anywhere string
	mappings(root, "root", func(n *yaml.Node, key string) {
		for i := 0; i < len(n.Content); i += 2 {
			if name := n.Content[i].Value; name != k.name && (k.alias == "" || name != k.alias) {
				continue
			}
			text := flow(&yaml.Node{Kind: yaml.MappingNode, Content: n.Content[i : i+2]})
			if len(text) > longest {
				continue
			}
			if here == "" && slices.Contains(places, key) {
				here = text
			}
			if isText := n.Content[i+1].Tag == "!!str"; anywhere == "" && (isText || k.form.words != "text") {
				anywhere = text
			}
		}
	})
	if here != "" {
		return here
	}
	return anywhere
}

// flow returns a mapping of one key on one line.
func flow(n *yaml.Node) string {
	plain(n)
	n.Content[1].Style |= yaml.FlowStyle
	data, err := yaml.Marshal(n)
	if err != nil {
		panic(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

// plain takes the comments off n and all below.
func plain(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for _, child := range n.Content {
		plain(child)
	}
}

func TestEveryFormatIsInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/items.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats {
		for _, word := range append([]string{f.Name}, f.Extensions...) {
			if !strings.Contains(string(text), "`"+word+"`") {
				t.Errorf("docs/items.md does not name %s of the format %s", word, f.Name)
			}
		}
	}
}
