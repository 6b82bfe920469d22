package items

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

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

// resolve finds out what an input means. A file that is missing is an error.
func resolve(in workflow.Input, dir string) (source, error) {
	s, err := locate(in, dir)
	s.format = cmp.Or(in.Format, extensions[strings.ToLower(filepath.Ext(s.name))])
	return s, err
}

func locate(in workflow.Input, dir string) (source, error) {
	switch {
	case in.Command != "":
		return source{command: in.Command}, nil
	case in.File != "":
		return fileSource(in.File, dir)
	case in.Glob != "":
		return source{glob: in.Glob}, checkGlob(in.Glob)
	case in.Stdin:
		return source{stdin: true}, nil
	case in.Text != "":
		s, err := fileSource(in.Text, dir)
		if errors.Is(err, errNoFile) && looksLikeCommand(in.Text) {
			return source{command: in.Text}, nil
		}
		return s, err
	}
	return source{list: in.Items}, nil
}

// looksLikeCommand tells whether a text that is no file has something in it that a shell would act on.
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

// Stdin is what the standard input of prodigy is called.
const Stdin = "standard input"

// Source says in words where the items of an input come from, and whether they can be found without running a command. The input
// has been checked.
func Source(in workflow.Input, dir string) (words string, free bool) {
	s, _ := resolve(in, dir)
	switch {
	case s.command != "":
		return s.command, false
	case s.stdin:
		return Stdin, true
	case s.glob != "":
		return s.glob, true
	case in.File == "" && in.Text == "":
		return "the workflow", true
	}
	return cmp.Or(in.File, in.Text), true
}

// trouble words an error that is not about the data, after what was being read.
func trouble(what string, err error) error {
	return fmt.Errorf("%s: %w", what, err)
}
