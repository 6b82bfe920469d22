package workflow

import (
	"bytes"
	"errors"

	"gopkg.in/yaml.v3"
)

// Short is the workflow file of one command, as prodigy map makes it, with its keys in the order in which they are
// written. What is zero is not written.
type Short struct {
	Name          string   `yaml:"name"`
	Map           ShortMap `yaml:"map"`
	OnItemFailure string   `yaml:"on_item_failure,omitempty"`
	MaxFailures   int      `yaml:"max_failures,omitempty"`
	Threshold     *float64 `yaml:"failure_threshold,omitempty"` // failure rate from 0 to 1
}

// ShortMap is the map phase of a Short.
type ShortMap struct {
	Input       ShortInput   `yaml:"input"`
	JSONPath    string       `yaml:"json_path,omitempty"`
	Batch       int          `yaml:"batch,omitempty"`
	OnEmpty     OnEmpty      `yaml:"on_empty,omitempty"`
	MaxParallel int          `yaml:"max_parallel,omitempty"`
	Requires    []string     `yaml:"requires,omitempty,flow"` // labels of workers
	Steps       [1]ShortStep `yaml:"agent_template"`
}

// ShortInput is where the items of a Short come from: files, else globs, else the standard input.
type ShortInput struct {
	Stdin  bool   `yaml:"stdin,omitempty"` // set by File
	File   oneOr  `yaml:"file,omitempty"`
	Glob   oneOr  `yaml:"glob,omitempty"`
	Format string `yaml:"format,omitempty"`
}

// ShortStep is the command of a Short.
type ShortStep struct {
	Shell   string     `yaml:"shell"`
	Timeout string     `yaml:"timeout,omitempty"`
	Retry   ShortRetry `yaml:"retry_config,omitempty"`
}

// ShortRetry is how often the command of a Short is tried.
type ShortRetry struct {
	Attempts int    `yaml:"attempts"`
	Backoff  string `yaml:"backoff,omitempty"`
	Delay    string `yaml:"initial_delay,omitempty"` // before the first retry, such as 10s
}

// oneOr is a list that is written without its brackets when it has one element.
type oneOr []string

// MarshalYAML implements yaml.Marshaler.
func (l oneOr) MarshalYAML() (any, error) {
	if len(l) == 1 {
		return l[0], nil
	}
	return []string(l), nil
}

// File returns the text of the workflow file.
func (s Short) File() ([]byte, error) {
	in := &s.Map.Input
	in.Stdin = in.File == nil && in.Glob == nil
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(s), enc.Close())
	return b.Bytes(), err
}
