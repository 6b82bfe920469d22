package settings

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

	"prodigy/internal/duration"
	"prodigy/internal/workflow"
)

// Config is what config.yml in PRODIGY_HOME says. All of it can be missing.
type Config struct {
	Claude []string // agent.command
	Fleet  FleetConfig
}

// FleetConfig is the block fleet of a configuration. Relative names of files start at the directory of the
// configuration.
type FleetConfig struct {
	URL         string
	Credentials string
	CA          string
	Cert        string
	Key         string
	NKey        string
	Insecure    bool
	Lease       time.Duration // 0 if it is not given
	Patience    time.Duration // broker_patience; 0 if it is not given
	Trust       []string
}

// ReadConfig reads the configuration in a home directory. A missing file is an empty one.
func ReadConfig(home string) (Config, error) {
	path := filepath.Join(home, "config.yml")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	r := configReader{file: path}
	c := r.read(data)
	if len(r.problems) > 0 {
		return Config{}, &workflow.InvalidError{Problems: r.problems}
	}
	return c, nil
}

// configReader reads a config file strictly and collects its problems.
type configReader struct {
	file     string
	problems []workflow.Problem
}

func (r *configReader) read(data []byte) Config {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		r.complain(&yaml.Node{Line: 1, Column: 1}, "this is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return Config{}
	}
	var c Config
	if len(doc.Content) == 0 {
		return c
	}
	r.mapping(doc.Content[0], "the configuration", configKeys{
		{"agent", func(n *yaml.Node) {
			r.mapping(n, "agent", configKeys{{"command", func(n *yaml.Node) { c.Claude = r.argv(n) }}})
		}},
		{"fleet", func(n *yaml.Node) { r.fleet(n, &c.Fleet) }},
	})
	return c
}

func (r *configReader) fleet(n *yaml.Node, f *FleetConfig) {
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
		text("url", &f.URL), file("credentials", &f.Credentials), file("ca", &f.CA), file("cert", &f.Cert), file("key", &f.Key), file("nkey", &f.NKey),
		{"insecure", func(n *yaml.Node) {
			if n.Tag != "!!bool" || n.Decode(&f.Insecure) != nil {
				r.complain(n, "fleet.insecure must be true or false")
			}
		}},
		length("lease", &f.Lease), length("broker_patience", &f.Patience),
		{"trust", func(n *yaml.Node) {
			list := []*yaml.Node{n}
			if n.Kind == yaml.SequenceNode {
				list = n.Content
			}
			for _, one := range list {
				f.Trust = append(f.Trust, r.text(one, "fleet.trust"))
			}
		}},
	})
	if (f.Cert == "") != (f.Key == "") {
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
