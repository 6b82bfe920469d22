package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// writeFile is a step that writes a file in the working directory. Its path and its content are data: no path
// leads out of the directory, and no value changes the structure of a JSON or YAML document.
type writeFile struct {
	*workflow.WriteFile
	path    *template.Plain
	content *template.Plain
}

func buildWriteFile(c *compiler, s *step, n scopeNames) command {
	w := s.WriteFile
	f := &writeFile{WriteFile: w, path: c.plain(s, w.Path, n), content: c.plain(s, w.Content, n)}
	if path := w.Path.Value; path != "" && !strings.Contains(path, "$") { // else it is checked when the step runs
		c.failed(s, w.Path.At, checkPath(path))
	}
	if f.content != nil {
		_, err := document(w.Format, func(turn template.Turn) (string, error) { return f.content.Sample("0", turn) })
		c.failed(s, w.Content.At, err) // what is wrong whatever the values are
	}
	return f
}

func (f *writeFile) bind(r template.Resolver, _ *Executor) (call, error) {
	path, err := f.path.Bind(r)
	if err != nil {
		return call{}, err
	}
	content, err := document(f.Format, func(turn template.Turn) (string, error) { return f.content.Fill(r, turn) })
	if err != nil {
		return call{}, err
	}
	return call{action: func(ctx context.Context, r *run, st *step, b boundCommand) (result, error) {
		var res result
		err := checkPath(path)
		if r.x.Simulate == nil && err == nil {
			began := time.Now()
			err = r.x.limiter.do(ctx, func() error { return f.write(b.dir, path, content) })
			res.duration = time.Since(began)
		}
		switch {
		case r.blameless(err) != nil:
			return notRun, r.blameless(err)
		case errors.Is(err, errOutside):
			res.code, err = -1, st.fails(retry.TypeTemplate, err.Error())
		case err != nil:
			res.code, err = -1, st.fails("", err.Error())
		default:
			res.Output = path
		}
		return res, err
	}}, nil
}

// errOutside is what is wrong with a path that leads out of the working directory.
var errOutside = errors.New("the path is outside the working directory")

// checkPath refuses a path that cannot be a file in the working directory, whatever links there are.
func checkPath(path string) error {
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return fmt.Errorf("write_file: %q is not a file name", path)
	case !filepath.IsLocal(path):
		return fmt.Errorf("write_file: %w: %q", errOutside, path)
	}
	return nil
}

// write replaces the file below dir at once: a reader sees all of the old content or all of the new.
func (f *writeFile) write(dir, path, content string) error {
	root, err := os.OpenRoot(dir)
	if err == nil {
		defer check.Quietly(root.Close)
		if parent := filepath.Dir(path); f.CreateDirs && parent != "." {
			err = root.MkdirAll(parent, 0o777)
		}
	}
	if err == nil {
		err = f.replace(root, filepath.Clean(path), content)
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "path escapes from parent"): // of os.Root, which has no name for that
		return fmt.Errorf("write_file: %w: %w", errOutside, err)
	}
	return fmt.Errorf("write_file: %w", err)
}

// replace writes a new file beside the one at path and gives it that name.
func (f *writeFile) replace(root *os.Root, path, content string) (err error) {
	beside := filepath.Join(filepath.Dir(path), ".prodigy-"+rand.Text())
	var mode fs.FileMode // that the step says, or else the one that the file has
	known := f.Mode != nil
	if known {
		mode = fs.FileMode(*f.Mode)
	} else if info, err := root.Stat(path); err == nil {
		mode, known = info.Mode().Perm(), true
	}
	defer func() {
		if err != nil {
			_ = root.Remove(beside)
		}
	}()
	if err := fill(root, beside, content); err != nil {
		return err
	}
	toSync := os.O_RDONLY
	if runtime.GOOS == "windows" { // which wants to be allowed to write for that, and runs what others may write
		toSync = os.O_RDWR
	}
	file, err := root.OpenFile(beside, toSync, 0)
	if err != nil {
		return err
	}
	if known {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = cmp.Or(err, file.Close()); err == nil {
		err = root.Rename(beside, path)
	}
	return err
}

// fill makes a file. No command is started while it is open for writing: that would hold it for a moment
// longer, and a file that somebody holds so cannot be run, which may be the next step.
func fill(root *os.Root, path, content string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}

func (f *writeFile) render(r template.Resolver) string {
	return "write_file " + f.path.Render(r) + "\n" + f.content.Render(r)
}

// A value in a document is one value of it, whatever it holds. In quotes it is text. Where it stands alone and
// without quotes, a value that is JSON is that JSON, and any other is text: so numbers and lists can be filled
// in, and nothing can be smuggled in.

// filler fills values into a content, each passed through turn.
type filler func(template.Turn) (string, error)

// document returns the content of a file with the values that fill gives it.
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
	return unfit("the value of " + written + " is not valid UTF-8")
}

func fillJSON(fill filler) (string, error) {
	quoted := false
	text, err := fill(func(before, written, value string) (string, error) {
		quoted = quotedAfter(quoted, before)
		switch {
		case !utf8.ValidString(value):
			return "", notUTF8(written)
		case quoted:
			inner := rawjson.Of(value)
			return string(inner[1 : len(inner)-1]), nil
		case rawjson.Valid([]byte(value)):
			return value, nil
		}
		return string(rawjson.Of(value)), nil
	})
	if err != nil {
		return "", err
	}
	var v json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "", unfit("the content is not JSON: " + err.Error())
	}
	return text, nil
}

// quotedAfter reports whether a JSON string is open after text, when one was open before it or not.
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

// fillYAML puts a word for each value into the text, parses that as YAML, and replaces the words by the values
// in the nodes.
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
		return "", unfit("the content is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(y.values) == 0 {
		return text, nil
	}
	if strings.Count(text, y.base) != len(y.values) {
		return "", unfit("the content holds " + y.base + ", which is not allowed in content with values")
	}
	for _, d := range documents {
		if err := y.fill(d); err != nil {
			return "", err
		}
	}
	return encodeYAML(documents)
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

// yamlFilling has the values that are to be put into YAML documents.
type yamlFilling struct {
	base    string // of the words that stand for values
	values  []string
	written []string
}

// word returns the word for the i-th value. No word is a prefix of another.
func (y *yamlFilling) word(i int) string { return y.base + strconv.Itoa(i) + "Z" }

// fill puts the values into n and all below it.
func (y *yamlFilling) fill(n *yaml.Node) error {
	for _, comment := range []*string{&n.HeadComment, &n.LineComment, &n.FootComment} {
		*comment = y.replaced(*comment, y.written)
	}
	if strings.Contains(n.Anchor+n.Tag, y.base) {
		return unfit("a value cannot be used as a YAML anchor or tag")
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
	if alone := strings.Count(whole, y.base) == 1 && strings.HasPrefix(whole, y.base) &&
		strings.HasSuffix(whole, "Z"); alone &&
		n.Style&quotes == 0 && rawjson.Valid([]byte(n.Value)) {
		return y.document(n)
	}
	n.Tag = "!!str"
	// The encoder gets lines wrong in a folded text, and these at the beginning of any block.
	odd := func(r rune) bool { return !unicode.IsPrint(r) && (r != '\n' || n.Style&yaml.FoldedStyle != 0) }
	if strings.ContainsFunc(n.Value, odd) || strings.HasPrefix(n.Value, " ") || strings.HasPrefix(n.Value, "\n") ||
		n.Value == mergeKey {
		n.Style = yaml.DoubleQuotedStyle
	}
	return nil
}

// mergeKey is the key by which a mapping takes the keys of another one, if it has no quotes.
const mergeKey = "<<"

// document replaces n by its text, read as JSON.
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

func encodeYAML(documents []*yaml.Node) (string, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	for _, d := range documents {
		if err := encoder.Encode(d); err != nil {
			return "", unfit("cannot write the content as YAML: " + err.Error())
		}
	}
	return b.String(), encoder.Close()
}
