package workflow

import (
	"bytes"
	"errors"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/duration"
)

// Short describes the workflow file of one command, as prodigy map makes it. What is zero is not written.
type Short struct {
	Name     string
	Files    []string // where the items come from: files, else Globs, else the standard input
	Globs    []string
	Format   string // of the input
	JSONPath string
	Batch    int
	EmptyOK  bool // without items the job succeeds

	Script      string
	Timeout     time.Duration
	Attempts    int // of the command
	Backoff     string
	Delay       string // before the first retry, such as 10s
	MaxParallel int
	Requires    []string // labels of workers

	OnItemFailure string
	MaxFailures   int
	Threshold     *float64 // failure rate from 0 to 1
}

// shortFile has the keys of a Short in the order in which they are written.
type shortFile struct {
	Name          string     `yaml:"name"`
	Map           shortPhase `yaml:"map"`
	OnItemFailure string     `yaml:"on_item_failure,omitempty"`
	MaxFailures   int        `yaml:"max_failures,omitempty"`
	Threshold     *float64   `yaml:"failure_threshold,omitempty"`
}

type shortPhase struct {
	Input       shortInput  `yaml:"input"`
	JSONPath    string      `yaml:"json_path,omitempty"`
	Batch       int         `yaml:"batch,omitempty"`
	OnEmpty     string      `yaml:"on_empty,omitempty"`
	MaxParallel int         `yaml:"max_parallel,omitempty"`
	Requires    []string    `yaml:"requires,omitempty,flow"`
	Steps       []shortStep `yaml:"agent_template"`
}

type shortInput struct {
	Stdin  bool   `yaml:"stdin,omitempty"`
	File   oneOr  `yaml:"file,omitempty"`
	Glob   oneOr  `yaml:"glob,omitempty"`
	Format string `yaml:"format,omitempty"`
}

type shortStep struct {
	Shell   string      `yaml:"shell"`
	Timeout string      `yaml:"timeout,omitempty"`
	Retry   *shortRetry `yaml:"retry_config,omitempty"`
}

type shortRetry struct {
	Attempts int    `yaml:"attempts"`
	Backoff  string `yaml:"backoff,omitempty"`
	Delay    string `yaml:"initial_delay,omitempty"`
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
	step := shortStep{Shell: s.Script}
	if s.Timeout > 0 {
		step.Timeout = duration.Format(s.Timeout)
	}
	if s.Attempts > 0 {
		step.Retry = &shortRetry{Attempts: s.Attempts, Backoff: s.Backoff, Delay: s.Delay}
	}
	file := shortFile{
		Name: s.Name, OnItemFailure: s.OnItemFailure, MaxFailures: s.MaxFailures, Threshold: s.Threshold,
		Map: shortPhase{
			Input: shortInput{
				Stdin: s.Files == nil && s.Globs == nil, File: s.Files, Glob: s.Globs, Format: s.Format,
			},
			JSONPath: s.JSONPath, Batch: s.Batch, MaxParallel: s.MaxParallel, Requires: s.Requires,
			Steps: []shortStep{step},
		},
	}
	if s.EmptyOK {
		file.Map.OnEmpty = string(EmptyIsOK)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(file), enc.Close())
	return b.Bytes(), err
}
