package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// Config is what config.yml in PRODIGY_HOME says. All of it can be missing.
type Config struct {
	Agent AgentConfig `yaml:"agent"`
	Fleet FleetConfig `yaml:"fleet"`
	Clean CleanConfig `yaml:"clean"`
}

// CleanConfig is the block clean of a configuration: what each run removes before it starts.
type CleanConfig struct {
	// Keep is how long jobs stay after their last event. Zero means that none is removed.
	Keep time.Duration `yaml:"keep"`
	// Force removes jobs that can be resumed or have dead letters as well.
	Force bool `yaml:"force"`
}

// AgentConfig is the block agent of a configuration.
type AgentConfig struct {
	// Command is that of the AI coding CLI for claude steps.
	Command CommandLine `yaml:"command" text:"filled"`
}

// CommandLine has the words of a command.
type CommandLine []string

// ReadText splits a text at its blanks.
func (c *CommandLine) ReadText(text string) error {
	*c = strings.Fields(text)
	return nil
}

// Check finds what is wrong with c.
func (c *AgentConfig) Check(found *check.Findings) {
	found.Require(c.Command == nil || len(c.Command) > 0, "command",
		"agent.command must be a command line or a list of arguments")
}

// FleetConfig is the block fleet of a configuration. Relative names of files start at the directory of the
// configuration.
type FleetConfig struct {
	URL         string `yaml:"url" text:"filled"`
	Credentials string `yaml:"credentials" text:"filled"`
	CA          string `yaml:"ca" text:"filled"`
	Cert        string `yaml:"cert" text:"filled"`
	Key         string `yaml:"key" text:"filled"`
	NKey        string `yaml:"nkey" text:"filled"`
	Insecure    bool   `yaml:"insecure"`
	// Lease and Patience are zero if they are not given.
	Lease    time.Duration `yaml:"lease"`
	Patience time.Duration `yaml:"broker_patience"`
	Trust    []string      `yaml:"trust" text:"filled"`
}

// Check finds what is wrong with c.
func (c *FleetConfig) Check(found *check.Findings) {
	found.Require((c.Cert == "") == (c.Key == ""), "",
		"fleet.cert and fleet.key must be set together")
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
	return parseConfig(path, data)
}

// parseConfig reads a configuration and makes its names of files absolute. A file without a document is an empty one.
func parseConfig(path string, data []byte) (c Config, err error) {
	var document yaml.Node
	if yaml.Unmarshal(data, &document) == nil && document.IsZero() {
		return Config{}, nil
	}
	if err := workflow.Read(path, "the configuration", data, &c); err != nil {
		return Config{}, err
	}
	for _, file := range []*string{&c.Fleet.Credentials, &c.Fleet.CA, &c.Fleet.Cert, &c.Fleet.Key, &c.Fleet.NKey} {
		if *file != "" {
			*file = process.Resolve(filepath.Dir(path), *file)
		}
	}
	return c, nil
}
