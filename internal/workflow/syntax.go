package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// load returns the root node of the only document in data. If it cannot, it reports why and returns nil.
func (r *reader) load(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		r.reportEmpty()
		return nil
	}
	if err == nil {
		err = decoder.Decode(&second)
	}
	switch {
	case errors.Is(err, io.EOF) && !isNull(document.Content[0]):
		if root := document.Content[0]; r.inspect(root) {
			return resolveAlias(root)
		}
	case errors.Is(err, io.EOF):
		r.reportEmpty()
	case err != nil:
		r.reportSyntax(err)
	default:
		r.fail(&second, "only one YAML document is allowed")
	}
	return nil
}

func (r *reader) reportEmpty() {
	text := "the file is empty"
	if r.w != nil {
		text += ": it must be a mapping or a list of steps"
	}
	r.failAt(Pos{1, 1}, "%s", text)
}

// reportSyntax reports an error of the YAML parser at the line of the mistake. The parser itself often names
// the start of the block.
func (r *reader) reportSyntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	told := 0
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		number, message, _ := strings.Cut(rest, ": ")
		told, _ = strconv.Atoi(number)
		text = message
	}
	index := r.brokenLine(told)
	line := r.line(index)
	at, message := explain(text, line)
	r.failAt(Pos{index + 1, utf8.RuneCountInString(line[:at]) + 1}, "%s", message)
}

// brokenLine returns the index of the first line that makes the file invalid: the one after the longest valid
// prefix. It tries a limited number of lines around the line of the parser, told, and otherwise returns that.
func (r *reader) brokenLine(told int) int {
	const tries = 50
	for index := min(told+tries, len(r.lines)-1); index >= max(0, told-tries); index-- {
		if readable([]byte(strings.Join(r.lines[:index], "\n"))) {
			return index
		}
	}
	return max(0, min(told, len(r.lines))-1)
}

func readable(data []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		if err := decoder.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

const noMapping = "mapping values are not allowed in this context"

// explanations maps messages of the YAML parser to messages for the author of the file.
var explanations = map[string]string{
	noMapping:                                     `a "key:" is not allowed here: indent it like its neighbours, or quote a string that contains ": "`,
	"did not find expected key":                   "does not fit the surrounding block: check the indentation and the quotes",
	"did not find expected '-' indicator":         `does not fit the surrounding list: check the indentation, or start it with "- "`,
	"could not find expected ':'":                 `this key needs a ":" after it`,
	"found unexpected end of stream":              "unterminated string",
	"did not find expected ',' or ']'":            `unclosed list: expected "," or "]"`,
	"did not find expected ',' or '}'":            `unclosed mapping: expected "," or "}"`,
	"did not find expected node content":          "a value is required here",
	"found unknown escape character":              `unknown escape in double quotes: use \\ for a backslash, or single quotes`,
	"control characters are not allowed":          "a control character is not allowed here",
	"found undefined tag handle":                  "unknown tag",
	"found character that cannot start any token": "a string cannot start with @, ` or %: quote it",
}

// explain returns the message for a mistake that the YAML parser found in a line, and where in the line that is.
func explain(text, line string) (at int, message string) {
	key, value, _ := strings.Cut(line, ": ")
	switch colon, sign := strings.Index(value, ": "), strings.IndexAny(line, "*&"); {
	case text == noMapping && colon >= 0:
		key = strings.TrimLeft(key, " -")
		return len(line) - len(value) + colon, `": " is not allowed in a text without quotes: quote it, or write it below "` + key + `: |"`
	case text == "did not find expected alphabetic or numeric character" && sign >= 0:
		word, _, _ := strings.Cut(line[sign:], " ")
		return sign, fmt.Sprintf("a text that begins with %c needs quotes: %q", line[sign], strings.TrimRight(word, "\r,]"))
	}
	return leadingSpaces(line), explainLine(text, line)
}

// explainLine returns the message for a mistake of a whole line.
func explainLine(text, line string) string {
	switch {
	case strings.Contains(text, "tab character"), strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		return "tabs cannot be used for indentation: use spaces"
	case strings.HasPrefix(text, "unknown anchor"):
		return text + ": define it before this alias"
	case strings.Contains(text, "UTF-8"):
		return "not valid UTF-8"
	}
	if better, ok := explanations[text]; ok {
		return better
	}
	return "not valid YAML: " + text
}

// maxAliased bounds the nodes that are reached through aliases. A file with more is made to exhaust memory.
const maxAliased = 100_000

// inspector checks a document for what must be refused before its values are read.
type inspector struct {
	r       *reader
	open    map[*yaml.Node]bool // aliases on the way from the root to here
	aliased int                 // nodes reached through aliases
}

// inspect reports recursive aliases, aliases that expand to too many nodes, and unknown tags. It returns
// false if the document must not be traversed.
func (r *reader) inspect(root *yaml.Node) bool {
	i := &inspector{r: r, open: map[*yaml.Node]bool{}}
	return i.node(root)
}

func (i *inspector) node(n *yaml.Node) bool {
	if len(i.open) > 0 {
		i.aliased++
	}
	if i.aliased > maxAliased {
		return false
	}
	if n.Kind == yaml.AliasNode {
		if i.open[n.Alias] {
			i.r.fail(n, "alias %q contains itself", n.Value)
			return false
		}
		i.open[n.Alias] = true
		ok := i.node(n.Alias)
		delete(i.open, n.Alias)
		if i.aliased > maxAliased && len(i.open) == 0 {
			i.r.fail(n, "alias %q expands to more than %d values", n.Value, maxAliased)
		}
		return ok
	}
	known := []string{"", "!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq"}
	if n.Style&yaml.TaggedStyle != 0 && !slices.Contains(known, n.Tag) {
		i.r.fail(n, "unknown tag %q", n.Tag)
	}
	for _, child := range n.Content {
		if !i.node(child) {
			return false
		}
	}
	return true
}
