package items

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"prodigy/internal/workflow"
)

// source is where the data comes from: exactly one of command, file, glob, stdin and list is set.
type source struct {
	command string
	file    string // where it is
	name    string // the file as the workflow calls it
	glob    string
	stdin   bool
	list    []json.RawMessage

	format string // empty: sniffed
}

// ErrLater is in the chain of an error of Fill that is no mistake of the workflow: the values are only known to a run.
var ErrLater = errors.New("the value is not known yet")

// resolve finds out what an input means. A file that is missing is an error.
func resolve(in workflow.Input, e Env) (source, error) {
	s, err := locate(in, e)
	s.format = cmp.Or(in.Format, workflow.FormatOfFile(s.name))
	return s, err
}

func locate(in workflow.Input, e Env) (source, error) {
	switch {
	case in.Command != "":
		return source{command: in.Command}, nil
	case in.File != "":
		return e.filledFile(in.File)
	case in.Glob != "":
		pattern, err := e.fill(in.Glob)
		if err != nil {
			return source{}, err
		}
		return source{glob: pattern}, checkGlob(pattern)
	case in.Stdin:
		return source{stdin: true}, nil
	case in.Text != "":
		return e.fileOrCommand(in.Text)
	}
	return source{list: in.Items}, nil
}

// fileOrCommand finds out what a text means that does not say it.
func (e Env) fileOrCommand(text string) (source, error) {
	s, err := fileSource(text, e.Dir)
	switch {
	case !errors.Is(err, errNoFile) || !looksLikeCommand(text):
		return s, err
	case looksLikeCommand(withoutPlaceholders(text)):
		return source{command: text}, nil
	}
	return e.filledFile(text)
}

// placeholder fits the places in a text that values can take.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[^{}\s]*\}|\$[A-Za-z_][A-Za-z0-9_]*`) })

func withoutPlaceholders(text string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	return placeholder().ReplaceAllString(text, "")
}

func (e Env) filledFile(text string) (source, error) {
	name, err := e.fill(text)
	if err != nil {
		return source{}, err
	}
	return fileSource(name, e.Dir)
}

func (e Env) fill(text string) (string, error) {
	if e.Fill == nil {
		return text, nil
	}
	filled, err := e.Fill(text)
	if err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	return filled, nil
}

// looksLikeCommand reports whether a text that is no file has something in it that a shell would act on.
func looksLikeCommand(text string) bool {
	return strings.ContainsAny(text, " \t\r\n|&;<>()$`\"'*?[]{}")
}

// each calls take with every value that the path selects, until take gives an error.
func (s source) each(ctx context.Context, e Env, p path, take func([]byte) error) error {
	switch {
	case s.command != "":
		return s.eachOfCommand(ctx, e, p, take)
	case s.file != "":
		return s.eachOfFile(ctx, p, take)
	case s.glob != "":
		return s.eachOfGlob(ctx, e, p, take)
	case s.stdin:
		return s.eachOfStdin(ctx, e, p, take)
	case p.empty():
		return eachOfList(s.list, take)
	}
	whole := append([]byte("["), bytes.Join(toBytes(s.list), []byte(","))...)
	f := &feed{r: bytes.NewReader(append(whole, ']'))}
	return inPlace(f.selected(p, take), "input", nil)
}

func toBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, raw := range list {
		out[i] = raw
	}
	return out
}

func eachOfList(list []json.RawMessage, take func([]byte) error) error {
	for _, raw := range list {
		if err := take(raw); err != nil {
			return err
		}
	}
	return nil
}

// Stdin is the name of the standard input in messages.
const Stdin = "standard input"

// Source describes the source of the items of an input, and reports whether they can be found without running a command. The input
// has been checked.
func Source(in workflow.Input, e Env) (words string, free bool) {
	s, err := resolve(in, e)
	switch {
	case err != nil:
		return cmp.Or(in.File, in.Glob, in.Text), !errors.Is(err, ErrLater)
	case s.command != "":
		return s.command, false
	case s.stdin:
		return Stdin, true
	case s.glob != "":
		return s.glob, true
	case s.file != "":
		return s.name, true
	}
	return "the workflow", true
}

// trouble words an error that is not about the data, after what was being read.
func trouble(what string, err error) error {
	return fmt.Errorf("%s: %w", what, err)
}
