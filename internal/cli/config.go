package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/agent"
	"prodigy/internal/duration"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// config is what config.yml in PRODIGY_HOME says. All of it can be missing.
type config struct {
	claude []string // agent.command
	fleet  fleetConfig
}

// fleetConfig is the block fleet of a configuration. Relative names of files start at the directory of the configuration.
type fleetConfig struct {
	url         string
	credentials string
	ca          string
	cert        string
	key         string
	nkey        string
	insecure    bool
	lease       time.Duration // 0: not given
	patience    time.Duration // broker_patience; 0: not given
	trust       []string
}

// claudeCommand returns the argv of the AI coding CLI: the environment's, else the configured one, else the usual one.
func claudeCommand(home jobs.Home) ([]string, error) {
	if argv := strings.Fields(os.Getenv("PRODIGY_CLAUDE_COMMAND")); len(argv) > 0 {
		return argv, nil
	}
	c, err := readConfig(home)
	if err != nil || len(c.claude) > 0 {
		return c.claude, err
	}
	return agent.DefaultClaude(), nil
}

// readConfig reads the configuration. A missing file is an empty one.
func readConfig(home jobs.Home) (config, error) {
	path := filepath.Join(home.Root, "config.yml")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return config{}, nil
	}
	if err != nil {
		return config{}, fmt.Errorf("read the configuration: %w", err)
	}
	r := configReader{file: path}
	c := r.read(data)
	if len(r.problems) > 0 {
		return config{}, &workflow.InvalidError{Problems: r.problems}
	}
	return c, nil
}

// configReader reads a config file strictly and collects its problems.
type configReader struct {
	file     string
	problems []workflow.Problem
}

func (r *configReader) read(data []byte) config {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		r.complain(&yaml.Node{Line: 1, Column: 1}, "this is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return config{}
	}
	var c config
	if len(doc.Content) == 0 {
		return c
	}
	r.mapping(doc.Content[0], "the configuration", configKeys{
		{"agent", func(n *yaml.Node) {
			r.mapping(n, "agent", configKeys{{"command", func(n *yaml.Node) { c.claude = r.argv(n) }}})
		}},
		{"fleet", func(n *yaml.Node) { r.fleet(n, &c.fleet) }},
	})
	return c
}

func (r *configReader) fleet(n *yaml.Node, f *fleetConfig) {
	text := func(name string, to *string) configKey {
		return configKey{name, func(n *yaml.Node) { *to = r.text(n, "fleet."+name) }}
	}
	file := func(name string, to *string) configKey {
		return configKey{name, func(n *yaml.Node) {
			if *to = r.text(n, "fleet."+name); *to != "" && !filepath.IsAbs(*to) {
				*to = filepath.Join(filepath.Dir(r.file), *to)
			}
		}}
	}
	length := func(name string, to *time.Duration) configKey {
		return configKey{name, func(n *yaml.Node) {
			var err error
			if *to, err = duration.Parse(r.text(n, "fleet."+name)); err != nil {
				r.complain(n, "fleet.%s: %v", name, err)
			}
		}}
	}
	r.mapping(n, "fleet", configKeys{
		text("url", &f.url), file("credentials", &f.credentials), file("ca", &f.ca), file("cert", &f.cert), file("key", &f.key), file("nkey", &f.nkey),
		{"insecure", func(n *yaml.Node) {
			if n.Tag != "!!bool" || n.Decode(&f.insecure) != nil {
				r.complain(n, "fleet.insecure must be true or false")
			}
		}},
		length("lease", &f.lease), length("broker_patience", &f.patience),
		{"trust", func(n *yaml.Node) {
			list := []*yaml.Node{n}
			if n.Kind == yaml.SequenceNode {
				list = n.Content
			}
			for _, one := range list {
				f.trust = append(f.trust, r.text(one, "fleet.trust"))
			}
		}},
	})
	if (f.cert == "") != (f.key == "") {
		r.complain(n, "fleet.cert and fleet.key need each other: they are one certificate")
	}
}

type (
	configKey struct {
		name string
		read func(*yaml.Node)
	}
	configKeys []configKey
)

// mapping reads a mapping that may hold only these keys.
func (r *configReader) mapping(n *yaml.Node, where string, keys configKeys) {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	if n.Kind != yaml.MappingNode {
		r.complain(n, "%s must be a mapping with %s", where, someKeys(names))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		at := slices.Index(names, k.Value)
		switch {
		case at < 0:
			r.complain(k, "unknown key %q in %s, which has %s", k.Value, where, someKeys(names))
		case seen[k.Value]:
			r.complain(k, "the key %q is given twice", k.Value)
		default:
			keys[at].read(n.Content[i+1])
		}
		seen[k.Value] = true
	}
}

func someKeys(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("the key %q", names[0])
	}
	return "the keys " + strings.Join(names, ", ")
}

// text reads a text that is not blank.
func (r *configReader) text(n *yaml.Node, name string) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || strings.TrimSpace(n.Value) == "" {
		r.complain(n, "%s must be a text", name)
		return ""
	}
	return n.Value
}

// argv reads a text, which is split at blanks, or a list of texts.
func (r *configReader) argv(n *yaml.Node) []string {
	var argv []string
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		argv = strings.Fields(n.Value)
	case n.Kind == yaml.SequenceNode:
		if n.Decode(&argv) != nil {
			argv = nil
		}
	}
	if len(argv) == 0 || argv[0] == "" {
		r.complain(n, "agent.command must be a command line, or a list of its words")
		return nil
	}
	return argv
}

func (r *configReader) complain(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, workflow.Problem{File: r.file, Line: n.Line, Col: n.Column, Message: fmt.Sprintf(format, args...)})
}
