package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"prodigy/internal/rawjson"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// A value in a document is one value of it, whatever it holds. In quotes it is text. Where it stands alone and without quotes, a
// value that is JSON is that JSON, and any other is text: so numbers and lists can be filled in, and nothing can be smuggled in.

// filler fills values into a content, each turned.
type filler func(template.Turn) (string, error)

// fillDocument returns the content of a file with its values.
func fillDocument(p *template.Plain, f workflow.FileFormat, r template.Resolver) (string, error) {
	return document(f, func(turn template.Turn) (string, error) { return p.Fill(r, turn) })
}

// checkDocument tells what is wrong with a content whatever its values.
func checkDocument(p *template.Plain, f workflow.FileFormat) error {
	_, err := document(f, func(turn template.Turn) (string, error) { return p.Sample("0", turn) })
	return err
}

func document(f workflow.FileFormat, fill filler) (string, error) {
	switch f {
	case workflow.JSONFile:
		return fillJSON(fill)
	case workflow.YAMLFile:
		return fillYAML(fill)
	}
	return fill(func(_, _, value string) (string, error) { return value, nil })
}

func notUTF8(written string) error {
	return &template.BindError{Text: "the value of " + written + " is not UTF-8, which a document must be"}
}

func fillJSON(fill filler) (string, error) {
	quoted := false
	text, err := fill(func(before, written, value string) (string, error) {
		quoted = quotedAfter(quoted, before)
		switch {
		case !utf8.ValidString(value):
			return "", notUTF8(written)
		case quoted:
			inner := jsonText(value)
			return string(inner[1 : len(inner)-1]), nil
		case rawjson.Valid([]byte(value)):
			return value, nil
		}
		return string(jsonText(value)), nil
	})
	if err != nil {
		return "", err
	}
	var v json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "", &template.BindError{Text: "the content is not JSON: " + err.Error()}
	}
	return text, nil
}

// quotedAfter tells whether the place behind text is in a JSON string, when the place before it was or was not.
func quotedAfter(quoted bool, text string) bool {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == '\\' && quoted:
			i++
		}
	}
	return quoted
}

// fillYAML puts words into the text that stand for the values, and the values into what YAML makes of that.
func fillYAML(fill filler) (string, error) {
	y := &yamlFilling{base: "PRODIGYVALUE"}
	text, err := fill(func(_, written, value string) (string, error) {
		if !utf8.ValidString(value) {
			return "", notUTF8(written)
		}
		y.values, y.written = append(y.values, value), append(y.written, written)
		return y.word(len(y.values) - 1), nil
	})
	if err != nil {
		return "", err
	}
	documents, err := readYAML(text)
	if err != nil {
		return "", &template.BindError{Text: "the content is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if len(y.values) == 0 {
		return text, nil
	}
	if strings.Count(text, y.base) != len(y.values) {
		return "", &template.BindError{Text: "the content holds " + y.base + ", which no content with values can"}
	}
	for _, d := range documents {
		if err := y.fill(d); err != nil {
			return "", err
		}
	}
	return y.text(documents)
}

func readYAML(text string) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var documents []*yaml.Node
	for {
		var n yaml.Node
		err := decoder.Decode(&n)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		var v any
		if err := n.Decode(&v); err != nil { // which finds keys that are written twice
			return nil, err
		}
		documents = append(documents, &n)
	}
}

// yamlFilling are the values that are to be put into YAML documents.
type yamlFilling struct {
	base    string // of the words that stand for values
	values  []string
	written []string
	filled  []*yaml.Node
}

// word returns what stands for the i-th value. No word is the beginning of another.
func (y *yamlFilling) word(i int) string { return y.base + strconv.Itoa(i) + "Z" }

// fill puts the values into n and all below it.
func (y *yamlFilling) fill(n *yaml.Node) error {
	for _, comment := range []*string{&n.HeadComment, &n.LineComment, &n.FootComment} {
		*comment = y.replaced(*comment, y.written)
	}
	if strings.Contains(n.Anchor+n.Tag, y.base) {
		return &template.BindError{Text: "a value cannot be the name of an anchor or a tag in YAML"}
	}
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, y.base) {
		return y.scalar(n)
	}
	for _, child := range n.Content {
		if err := y.fill(child); err != nil {
			return err
		}
	}
	return nil
}

// scalar puts values into one text, or one value in the place of a word that stands alone.
func (y *yamlFilling) scalar(n *yaml.Node) error {
	const quotes = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	whole := n.Value
	n.Value = y.replaced(whole, y.values)
	if alone := strings.Count(whole, y.base) == 1 && strings.HasPrefix(whole, y.base) && strings.HasSuffix(whole, "Z"); alone &&
		n.Style&quotes == 0 && rawjson.Valid([]byte(n.Value)) {
		return y.document(n)
	}
	n.Tag = "!!str"
	y.filled = append(y.filled, n)
	return nil
}

// document makes n what its text is as JSON.
func (y *yamlFilling) document(n *yaml.Node) error {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(n.Value), &doc); err != nil || len(doc.Content) != 1 {
		return fmt.Errorf("put JSON into YAML: %w", err)
	}
	comments := *n
	*n = *doc.Content[0]
	n.HeadComment, n.LineComment, n.FootComment = comments.HeadComment, comments.LineComment, comments.FootComment
	return nil
}

func (y *yamlFilling) replaced(text string, by []string) string {
	if !strings.Contains(text, y.base) {
		return text
	}
	pairs := make([]string, 0, 2*len(by))
	for i, value := range by {
		pairs = append(pairs, y.word(i), value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// text returns the documents as YAML that reads as what they are. Where the encoder does not get that right in the style of the
// content, the values are put in quotes.
func (y *yamlFilling) text(documents []*yaml.Node) (string, error) {
	text, err := encodeYAML(documents)
	if err == nil && readsAs(text, documents) {
		return text, nil
	}
	for _, n := range y.filled {
		n.Style = yaml.DoubleQuotedStyle
	}
	if text, err = encodeYAML(documents); err != nil {
		return "", &template.BindError{Text: "the content cannot be written as YAML: " + err.Error()}
	}
	if !readsAs(text, documents) {
		return "", &template.BindError{Text: "the content with these values cannot be written as YAML"}
	}
	return text, nil
}

func encodeYAML(documents []*yaml.Node) (string, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	for _, d := range documents {
		if err := encoder.Encode(d); err != nil {
			return "", err
		}
	}
	if err := encoder.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}

// readsAs tells whether text reads as the documents.
func readsAs(text string, documents []*yaml.Node) bool {
	read, err := readYAML(text)
	if err != nil || len(read) != len(documents) {
		return false
	}
	for i := range read {
		var got, want any
		if read[i].Decode(&got) != nil || documents[i].Decode(&want) != nil || !reflect.DeepEqual(got, want) {
			return false
		}
	}
	return true
}
